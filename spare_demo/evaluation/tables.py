"""Figures as tables of text: for the terminal, for Markdown, for the page.

Some have the rows of tables of the paper, SPARE, arXiv 2606.18681, at its smallest budget.
"""

from __future__ import annotations

from collections.abc import Mapping

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import (
    Budget,
    axis_value,
    budget_words,
    middle_budget,
    nearest_budget,
)
from spare_demo.evaluation.cells import (
    SHARES_NOTE,
    TOO_FEW,
    Table,
    in_measure,
    inside_note,
    means_note,
    method_rows,
    percent,
    plain,
    say_once,
    star,
    title_of,
)
from spare_demo.evaluation.records import BLANK
from spare_demo.evaluation.relevance_places import WORDS
from spare_demo.evaluation.statistics import FEW, LEVEL, Column, Estimate, Pair
from spare_demo.evaluation.summary import (
    MEASURES,
    PLACE_FIELDS,
    RECONSTRUCTION_DIVERSITY,
    RIGHT,
    Summary,
)
from spare_demo.evaluation.variants import MARK, words_of
from spare_demo.pruners.options import write_method
from spare_demo.table import counted

PAPER_BUDGET = 32
"""Of 576 tokens: that of the paper's Tables 4 and 6."""

_WITHOUT_TEXT = ("spare-reconstruction", "cdpruner-diversity", "dart-diversity")
_SQUASHES = {"minmax": "min-max", "softplus": "z-score and softplus"}


def all_tables(summary: Summary) -> list[Table]:
    """Every table that the results have something for."""
    tables: list[Table | None] = [nothing_pruned(summary)]
    if summary.methods:
        paper = nearest_budget(summary.budgets, PAPER_BUDGET)
        at = sorted({paper, middle_budget(summary.budgets)}, key=axis_value)
        tables += [
            accuracy(summary),
            differences(summary),
            reconstruction_diversity(summary),
            *(of(summary, k) for k in at for of in (by_number, by_skill)),
            rebuilding(summary, paper),
            *aggregations(summary, paper),
            errors(summary),
            divergences(summary),
        ]
    return say_once([table for table in (*tables, places(summary)) if table])


def accuracy(summary: Summary) -> Table:
    """Accuracy by method and budget."""
    rows = [
        (title_of(m), *["" for _ in summary.budgets], percent(summary.accuracy[m, k]))
        for m, k in summary.nothing_pruned
    ]
    rows += method_rows(
        summary.methods,
        lambda m: (*(percent(summary.accuracy.get((m, k))) for k in summary.budgets), ""),
    )
    asked = f"{counted(summary.questions, 'question')} about {counted(summary.pictures, 'picture')}"
    head = (*_budget_head(summary), f"all {summary.whole}")  # one may be a budget, too
    note = f"{asked}. {SHARES_NOTE} {inside_note(summary.methods)}".strip()
    return Table("Right answers, in percent", head, tuple(rows), note)


def by_number(summary: Summary, budget: Budget) -> Table | None:
    """Accuracy by the number of skills that a question takes; None without categories."""
    parts = {counted(n, "skill"): estimates for n, estimates in summary.numbers.items()}
    return _by(summary, parts, budget, "Right answers by number of skills")


def by_skill(summary: Summary, budget: Budget) -> Table | None:
    """Accuracy by skill; None without categories."""
    return _by(summary, summary.skills, budget, "Right answers by skill")


def nothing_pruned(summary: Summary) -> Table:
    """The unpruned model, with its picture and a blank one, by skill and combination."""
    columns = summary.nothing_pruned
    parts: list[tuple[str, Mapping[Column, Estimate]]] = [("all questions", summary.accuracy)]
    parts += [(f"skill: {name}", estimates) for name, estimates in summary.skills.items()]
    parts += [(name, estimates) for name, estimates in summary.combinations.items()]
    rows = [
        (name, str(estimates[columns[0]].count), *(percent(estimates.get(c)) for c in columns))
        for name, estimates in parts
        if columns[0] in estimates
    ]
    titles = {UNPRUNED: "with the picture", BLANK: "with a blank picture"}
    head = ("", "questions", *(titles[m] for m, _ in columns))
    return Table("Right answers with nothing pruned, in percent", head, tuple(rows), SHARES_NOTE)


def differences(summary: Summary) -> Table | None:
    """Accuracy minus the reference's, paired; None with fewer than two methods."""
    if not summary.difference or summary.reference is None:
        return None

    starred = {c for c, difference in summary.difference.items() if star(summary, difference)}
    corrected = {column for column, p in summary.adjusted.items() if p < LEVEL}

    def cell(column: Column) -> str:
        marks = "*" * (column in starred) + "†" * (column in corrected)
        return percent(summary.difference.get(column), signed=True) + marks

    tests = len(summary.difference)
    return Table(
        f"Right answers minus those of {title_of(summary.reference)}, in percentage points",
        _budget_head(summary),
        method_rows(
            [m for m in summary.methods if m != summary.reference],
            lambda m: tuple(cell((m, k)) for k in summary.budgets),
        ),
        "Paired: both methods on the same pictures."
        + (
            f" A star: the interval leaves out zero ({len(starred)} of {tests}; about "
            f"{LEVEL * tests:g} if no method differed)."
            if summary.pictures >= FEW
            else TOO_FEW
        )
        + f" A dagger: the exact sign-flip test over pictures has p < {LEVEL:g} after Holm's "
        f"correction ({len(corrected)} of {len(summary.adjusted)}).",
    )


def reconstruction_diversity(summary: Summary) -> Table | None:
    """Reconstruction minus diversity on every measure, paired; None where no pair was measured."""
    rows: list[tuple[str, ...]] = []
    for a, b in RECONSTRUCTION_DIVERSITY:
        columns: list[Pair] = [((a, k), (b, k)) for k in summary.budgets]
        if not any(pair in summary.pairs[RIGHT] for pair in columns):
            continue
        rows.append((f"“{title_of(a)}” minus “{title_of(b)}”:", *("" for _ in columns)))
        for measure, name in MEASURES.items():
            differences = [summary.pairs[measure].get(pair) for pair in columns]
            rows.append((name, *(in_measure(measure, e) + star(summary, e) for e in differences)))
    if not rows:
        return None
    return Table(
        "Reconstruction against diversity",
        _budget_head(summary),
        tuple(rows),
        "Above zero reconstruction is right more often; below zero it leaves a smaller error, and "
        "first tokens nearer to the unpruned model's. SPARE and CDPruner pick by one rule, and "
        "differ in whether a token's length counts and in how the text weighs. Paired: both on the "
        "same pictures."
        + (" A star: the interval leaves out zero." if summary.pictures >= FEW else TOO_FEW),
    )


def rebuilding(summary: Summary, budget: Budget) -> Table | None:
    """Error and accuracy of the methods of Table 6, all without text; None with fewer than two."""
    methods = [m for m in _WITHOUT_TEXT if (m, budget) in summary.error]
    if len(methods) < 2:
        return None
    return Table(
        f"Without text at {budget_words(budget)}, as in Table 6",
        ("", "relative reconstruction error", "right answers, %"),
        tuple(
            (title_of(m), plain(summary.error[m, budget]), percent(summary.accuracy[m, budget]))
            for m in methods
        ),
        f"The paper's error is not divided by the length of the features. {SHARES_NOTE}",
    )


def aggregations(summary: Summary, budget: Budget) -> list[Table]:
    """Right answers of SPARE by aggregation and weight, as in Table A3; of each way to read the
    question's text, the run's own and word by word, of which all four were measured."""
    tables = []
    for reading in ("", "tokens"):
        mark = f"{MARK}{reading}" if reading else ""
        labels = {
            aggregation: [
                write_method("spare", dict(aggregation=aggregation, squash=squash)) + mark
                for squash in _SQUASHES
            ]
            for aggregation in ("mean", "max")
        }
        if all((m, budget) in summary.accuracy for row in labels.values() for m in row):
            rows = tuple(
                (aggregation, *(percent(summary.accuracy[m, budget]) for m in row))
                for aggregation, row in labels.items()
            )
            how = f" with {words_of(reading)}" if reading else ""
            title = (
                f"SPARE{how} at {budget_words(budget)}, right answers in percent, as in Table A3"
            )
            note = SHARES_NOTE
            if not reading:
                note = (
                    "A question read as a whole is one piece up to 77 tokens: mean and max of one "
                    f"are the same. {note}"
                )
            tables.append(Table(title, ("aggregation", *_SQUASHES.values()), rows, note))
    return tables


def errors(summary: Summary) -> Table:
    """Relative reconstruction error by method and budget."""
    return _means(
        summary, summary.error, "Relative reconstruction error of the features",
        "‖X − XP‖ / ‖X‖ with P the projector on the span of the kept tokens, mean over questions.",
    )  # fmt: skip


def divergences(summary: Summary) -> Table:
    """KL to the unpruned model by method and budget."""
    return _means(
        summary, summary.kl, "KL divergence from the unpruned model, in nats",
        "Of the first token's distribution, mean over questions.",
    )  # fmt: skip


def places(summary: Summary) -> Table | None:
    """Where raw cosine falls, layer by layer; None where it was not measured."""
    if not summary.places:
        return None
    names = {-2: "penultimate (-2)", -1: "last (-1)", WORDS: "words, not CLIP"}
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


def _budget_head(summary: Summary) -> tuple[str, ...]:
    return ("", *(budget_words(k) for k in summary.budgets))


def _by(
    summary: Summary, parts: Mapping[str, Mapping[Column, Estimate]], budget: Budget, title: str
) -> Table | None:
    if not parts:
        return None

    def cells(column: Column) -> tuple[str, ...]:
        of_parts = [*parts.values(), summary.accuracy]
        return tuple(percent(estimates.get(column)) for estimates in of_parts)

    rows = tuple((title_of(c[0]), *cells(c)) for c in summary.nothing_pruned)
    rows += method_rows(summary.methods, lambda m: cells((m, budget)))
    counts = {name: next(iter(estimates.values())).count for name, estimates in parts.items()}
    head = ("", *(f"{name} (n={counts[name]})" for name in parts), f"all (n={summary.questions})")
    return Table(f"{title} at {budget_words(budget)}, in percent", head, rows, SHARES_NOTE)


def _means(summary: Summary, of: Mapping[Column, Estimate], title: str, note: str) -> Table:
    rows = method_rows(
        summary.methods, lambda m: tuple(plain(of.get((m, k))) for k in summary.budgets)
    )
    return Table(title, _budget_head(summary), rows, f"{note} {means_note(summary)}")
