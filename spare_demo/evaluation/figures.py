"""What is drawn of a summary: its charts, each with a file's name and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import Budget, axis_value, budget_words, middle_budget
from spare_demo.evaluation.cells import FEW_METHODS, title_of
from spare_demo.evaluation.statistics import Column, Estimate
from spare_demo.evaluation.summary import Summary
from spare_demo.render.chart import Bars, Chart, Lines, Point, Series
from spare_demo.table import counted

ABLATION = ("spare-reconstruction", "spare", "spare-normal-relevance")
TOP_K = (
    "normal-relevance", "anti-relevance", "normal-relevance@-1", "anti-relevance@-1", "random",
)  # fmt: skip
DRAWN = (
    *ABLATION[:2], "cdpruner", "cdpruner-diversity", "divprune", "visionzip", "scope", "sparsevlm",
    "random", "uniform",
)  # fmt: skip
"""One or two of each kind: of more methods than a chart can show, these are drawn."""


@dataclass(frozen=True)
class Figure:
    """A chart, the name of its file and a sentence with its numbers."""

    name: str
    chart: Chart
    sentence: str


def all_figures(summary: Summary) -> list[Figure]:
    """Every figure that the results have something for."""
    if not summary.methods:
        return []
    figures = [accuracy(summary)]
    if summary.numbers:
        figures.append(skills(summary, middle_budget(summary.budgets)))
    if any(method in summary.methods for method, _ in summary.error):
        figures.append(errors(summary))
    for name, title, labels in (
        ("ablation", "SPARE without text, with anti- and with normal relevance", ABLATION),
        ("top-k", "The k tokens of highest or lowest relevance alone", TOP_K),
    ):
        measured = [label for label in labels if label in summary.methods]
        if len(measured) > 1:
            figures.append(accuracy(summary, measured, name, title))
    return figures


def accuracy(
    summary: Summary,
    methods: Sequence[str] = (),
    name: str = "accuracy",
    title: str = "Right answers at each budget",
) -> Figure:
    """Accuracy of the methods (by default those of `drawn`) against budget."""
    chart = Lines(
        title,
        _axis(summary),
        "right answers, %",
        tuple(_series(summary, m, summary.accuracy, 100) for m in methods or drawn(summary)),
        {title_of(m): 100 * summary.accuracy[m, k].value for m, k in summary.nothing_pruned},
    )
    return Figure(name, chart, _sentence(chart) + ("" if methods else _left_out(summary, chart)))


def drawn(summary: Summary) -> tuple[str, ...]:
    """The methods that are drawn together: all of a few; of many the reference and those of
    `DRAWN`, or the first few where it names none of them."""
    methods = summary.methods
    if len(methods) <= FEW_METHODS:
        return methods
    labels = [label for label in methods if label in (summary.reference, *DRAWN)]
    return tuple(labels) if len(labels) > 1 else methods[:FEW_METHODS]


def errors(summary: Summary) -> Figure:
    """Reconstruction error of the methods of `drawn` that have one, against budget."""
    methods = [m for m in drawn(summary) if any((m, k) in summary.error for k in summary.budgets)]
    series = tuple(_series(summary, label, summary.error, 1) for label in methods)
    title = "Relative reconstruction error at each budget"
    chart = Lines(title, _axis(summary), "relative error", series)
    return Figure("reconstruction", chart, _sentence(chart) + _left_out(summary, chart))


def skills(summary: Summary, budget: Budget) -> Figure:
    """Accuracy by the number of skills a question takes, at one budget."""
    columns: list[Column] = [*((m, budget) for m in drawn(summary)), (UNPRUNED, summary.tokens)]
    groups = list(summary.numbers.values())

    def bars(column: Column) -> Series:
        points = tuple(_point(i, e[column], 100) for i, e in enumerate(groups) if column in e)
        return Series(title_of(column[0]), points, columns.index(column))

    chart = Bars(
        f"Right answers by number of skills at {budget_words(budget)}",
        "right answers, %",
        tuple(counted(n, "skill") for n in summary.numbers),
        tuple(bars(column) for column in columns),
    )
    return Figure("skills", chart, _sentence(chart) + _left_out(summary, chart))


def _series(
    summary: Summary, label: str, estimates: Mapping[Column, Estimate], scale: float
) -> Series:
    budgets = [k for k in summary.budgets if (label, k) in estimates]
    points = tuple(_point(axis_value(k), estimates[label, k], scale) for k in budgets)
    together = drawn(summary)  # their colours first, so that no two of them are alike
    rest = [other for other in summary.methods if other not in together]
    return Series(title_of(label), points, [*together, *rest].index(label))


def _point(x: float, estimate: Estimate, scale: float) -> Point:
    return Point(x, scale * estimate.value, scale * estimate.low, scale * estimate.high)


def _axis(summary: Summary) -> str:
    shares = any(isinstance(budget, str) for budget in summary.budgets)
    return "tokens kept, % of the picture's" if shares else "tokens kept"


def _sentence(chart: Chart) -> str:
    """The chart's numbers at each series' first and last point, and where that is: a method may
    begin later than others, and "20 to 79" would be read as an interval."""

    def at(point: Point) -> str:
        place = f"{point.x:g}" if isinstance(chart, Lines) else chart.groups[int(point.x)]
        return f"{point.y:.3g} at {place}"

    parts = [
        f"{s.name} {' and '.join(dict.fromkeys(map(at, (s.points[0], s.points[-1]))))}"
        for s in chart.series
        if s.points
    ]
    return f"{chart.title}: {'; '.join(parts)}."


def _left_out(summary: Summary, chart: Chart) -> str:
    """A sentence where the chart shows not all methods: not each has an error, or this budget."""
    shown = sum(bool(s.points) and s.name != title_of(UNPRUNED) for s in chart.series)
    all_of_them = len(summary.methods)
    if shown == all_of_them:
        return ""
    return f" The chart shows {shown} of {all_of_them} methods; the tables have all."
