"""Figures as tables of text: for the terminal, for Markdown, for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import Budget, words
from spare_demo.evaluation.groups import by_group
from spare_demo.evaluation.results import BLANK
from spare_demo.evaluation.summary import PLACE_FIELDS, Column, Estimate, Summary
from spare_demo.pruners import PRUNERS, options
from spare_demo.table import markdown_table, text_table

_INTERVALS = "The 95 % intervals, in brackets, come from drawing whole pictures again."
_FEW = 20  # pictures; of fewer the draws are too much alike
_TOO_FEW = f" With fewer than {_FEW} pictures intervals are too narrow to go by."


@dataclass(frozen=True)
class Table:
    """title and note: sentences; every row has as many cells as the head."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Under its title in bold."""
        note = f"\n\n{self.note}" if self.note else ""
        return f"**{self.title}**\n\n{markdown_table(self.head, self.rows, numbers=True)}{note}"

    def text(self) -> str:
        """Columns side by side."""
        lines = [self.title, text_table(self.head, self.rows)]
        return "\n".join([*lines, *([self.note] if self.note else [])])


def title_of(label: str) -> str:
    """What to call a label: its method's title, or itself."""
    if label in (UNPRUNED, BLANK):
        return {UNPRUNED: "All tokens", BLANK: "Blank picture, all tokens"}[label]
    if label.partition(":")[0] not in PRUNERS:
        return label
    return options.title_of(options.read_method(label, PRUNERS), PRUNERS)


def percent(estimate: Estimate | None, signed: bool = False) -> str:
    """ "71.3 (68.2 to 74.5)", in percent; a dash for nothing."""
    if estimate is None:
        return "–"
    sign = "+" if signed else ""
    value, low, high = (
        f"{100 * v:{sign}.1f}" for v in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({low} to {high})"


def share(estimate: Estimate) -> str:
    """ "71.3 % (68.2 to 74.5)", for a sentence."""
    return percent(estimate).replace(" ", " % ", 1)


def plain(estimate: Estimate | None) -> str:
    """ "0.413 (0.401 to 0.425)"; a dash for nothing."""
    if estimate is None:
        return "–"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def accuracy(summary: Summary) -> Table:
    """Accuracy by method and budget."""
    ends = _nothing_pruned(summary)
    rows = [
        (title_of(m), *["" for _ in summary.budgets], percent(summary.accuracy[m, k]))
        for m, k in ends
    ]
    rows += _method_rows(
        summary.methods,
        lambda m: (*(percent(summary.accuracy.get((m, k))) for k in summary.budgets), ""),
    )
    head = ("", *(words(k) for k in summary.budgets), summary.whole)
    asked = f"{summary.questions} questions about {summary.pictures} pictures."
    note = f"{asked} {intervals_note(summary)}"
    return Table("Right answers, in percent", head, tuple(rows), note)


def differences(summary: Summary) -> Table | None:
    """Accuracy minus the reference's; None with fewer than two methods."""
    if not summary.difference or summary.reference is None:
        return None

    enough = summary.pictures >= _FEW

    def cell(column: Column) -> str:
        estimate = summary.difference.get(column)
        star = "*" if enough and estimate and estimate.apart_from(0) else ""
        return percent(estimate, signed=True) + star

    return Table(
        f"Right answers minus those of {title_of(summary.reference)}, in percentage points",
        ("", *(words(k) for k in summary.budgets)),
        _method_rows(
            [m for m in summary.methods if m != summary.reference],
            lambda m: tuple(cell((m, k)) for k in summary.budgets),
        ),
        "Paired: both methods on the same drawn pictures."
        + (" A star: the interval leaves out zero." if enough else _TOO_FEW),
    )


def by_number(summary: Summary, budget: Budget) -> Table | None:
    """Accuracy by the number of skills that a question takes; None without categories."""
    if not summary.numbers:
        return None
    parts = {_skills_word(n): estimates for n, estimates in summary.numbers.items()}
    return _by(
        summary,
        parts,
        budget,
        f"Right answers by number of skills at {words(budget)}, in percent",
    )


def by_skill(summary: Summary, budget: Budget) -> Table | None:
    """Accuracy by skill; None without categories."""
    if not summary.skills:
        return None
    return _by(
        summary, summary.skills, budget, f"Right answers by skill at {words(budget)}, in percent"
    )


def nothing_pruned(summary: Summary) -> Table:
    """The unpruned model, with its picture and a blank one, by skill and combination."""
    columns = _nothing_pruned(summary)
    parts: list[tuple[str, Mapping[Column, Estimate]]] = [("all questions", summary.accuracy)]
    parts += [(f"skill: {name}", estimates) for name, estimates in summary.skills.items()]
    parts += [(name, estimates) for name, estimates in summary.combinations.items()]
    rows = [
        (name, str(estimates[columns[0]].count), *(percent(estimates.get(c)) for c in columns))
        for name, estimates in parts
    ]
    titles = {UNPRUNED: "with the picture", BLANK: "with a blank picture"}
    head = ("", "questions", *(titles[m] for m, _ in columns))
    return Table(
        "Right answers with nothing pruned, in percent", head, tuple(rows), intervals_note(summary)
    )


def errors(summary: Summary) -> Table:
    """Relative reconstruction error by method and budget."""
    return _plain_table(
        summary, summary.error.get, "Relative reconstruction error of the features",
        "‖X − XP‖ / ‖X‖ with P the projector on the span of the kept tokens, mean over questions.",
    )  # fmt: skip


def divergences(summary: Summary) -> Table:
    """KL to the unpruned model by method and budget."""
    return _plain_table(
        summary, summary.kl.get, "KL divergence from the unpruned model, in nats",
        "Of the first token's distribution, mean over questions.",
    )  # fmt: skip


def places(summary: Summary) -> Table | None:
    """Where raw cosine falls, layer by layer; None where it was not measured."""
    if not summary.places:
        return None
    names = {-2: "penultimate (-2)", -1: "last (-1)"}
    return Table(
        "Where the raw cosine between question and patch falls",
        (
            "layer", "on things asked about", "on other things", "on the background",
            "AUC, asked about over background", "AUC, asked about over other things",
        ),
        tuple(
            (names.get(layer, str(layer)), *(plain(estimates.get(field)) for field in PLACE_FIELDS))
            for layer, estimates in summary.places.items()
        ),
        "Means over questions. AUC: the chance that a patch on a thing asked about has a higher "
        "cosine than the other patch; 0.5 is no difference, below 0.5 it is lower.",
    )  # fmt: skip


def all_tables(summary: Summary, budget: Budget) -> list[Table]:
    """Every table that the results have something for."""
    tables = [nothing_pruned(summary)]
    if summary.methods:
        optional = [differences(summary), by_number(summary, budget), by_skill(summary, budget)]
        tables += [accuracy(summary), *(table for table in optional if table)]
        tables += [errors(summary), divergences(summary)]
    relevance = places(summary)
    return [*tables, *([relevance] if relevance else [])]


def intervals_note(summary: Summary) -> str:
    """How intervals are made, and a warning where they rest on few pictures."""
    return _INTERVALS if summary.pictures >= _FEW else _INTERVALS + _TOO_FEW


def _nothing_pruned(summary: Summary) -> list[Column]:
    """The columns of the model with all tokens, of the picture and of a blank one."""
    columns = [(m, summary.tokens) for m in (UNPRUNED, BLANK)]
    return [column for column in columns if column in summary.accuracy]


def _by(
    summary: Summary, parts: Mapping[str, Mapping[Column, Estimate]], budget: Budget, title: str
) -> Table:
    def cells(column: Column) -> tuple[str, ...]:
        of_parts = [*parts.values(), summary.accuracy]
        return tuple(percent(estimates.get(column)) for estimates in of_parts)

    rows = tuple((title_of(c[0]), *cells(c)) for c in _nothing_pruned(summary))
    rows += _method_rows(summary.methods, lambda m: cells((m, budget)))
    counts = {name: next(iter(estimates.values())).count for name, estimates in parts.items()}
    head = ("", *(f"{name} (n={counts[name]})" for name in parts), f"all (n={summary.questions})")
    return Table(title, head, rows, intervals_note(summary))


def _plain_table(
    summary: Summary, of: Callable[[Column], Estimate | None], title: str, note: str
) -> Table:
    rows = _method_rows(
        summary.methods, lambda m: tuple(plain(of((m, k))) for k in summary.budgets)
    )
    return Table(
        title, ("", *(words(k) for k in summary.budgets)), rows, f"{note} {intervals_note(summary)}"
    )


def _method_rows(
    labels: Sequence[str], cells: Callable[[str], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """A row per method, its title and then its cells; of many the headings of their groups too."""
    rows: list[tuple[str, ...]] = []
    for heading, members in by_group(labels).items():
        if heading:
            rows.append((f"{heading}:", *("" for _ in cells(members[0]))))
        rows += [(title_of(label), *cells(label)) for label in members]
    return tuple(rows)


def _skills_word(count: int) -> str:
    return "1 skill" if count == 1 else f"{count} skills"
