"""Figures as tables of text: for the terminal, for Markdown, for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import Budget, nearest, value, words
from spare_demo.evaluation.cells import (
    SHARES_NOTE,
    Table,
    means_note,
    method_rows,
    percent,
    plain,
    title_of,
)
from spare_demo.evaluation.paired_tables import differences, reconstruction_diversity
from spare_demo.evaluation.paper_tables import PAPER_BUDGET, aggregations, rebuilding
from spare_demo.evaluation.relevance_places import WORDS
from spare_demo.evaluation.resampling import Column, Estimate
from spare_demo.evaluation.results import BLANK
from spare_demo.evaluation.summary import PLACE_FIELDS, Summary


def accuracy(summary: Summary) -> Table:
    """Accuracy by method and budget."""
    ends = _nothing_pruned(summary)
    rows = [
        (title_of(m), *["" for _ in summary.budgets], percent(summary.accuracy[m, k]))
        for m, k in ends
    ]
    rows += method_rows(
        summary.methods,
        lambda m: (*(percent(summary.accuracy.get((m, k))) for k in summary.budgets), ""),
    )
    head = ("", *(words(k) for k in summary.budgets), summary.whole)
    asked = f"{summary.questions} questions about {summary.pictures} pictures."
    note = f"{asked} {SHARES_NOTE}"
    return Table("Right answers, in percent", head, tuple(rows), note)


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
    return Table("Right answers with nothing pruned, in percent", head, tuple(rows), SHARES_NOTE)


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


def all_tables(summary: Summary, budget: Budget) -> list[Table]:
    """Every table that the results have something for.

    budget: of the tables of one budget, beside that of the paper's.
    """
    tables, paper = [nothing_pruned(summary)], nearest(summary.budgets, PAPER_BUDGET)
    if summary.methods:
        at = sorted({paper, budget}, key=value)
        optional = [
            differences(summary),
            reconstruction_diversity(summary),
            *(of(summary, k) for k in at for of in (by_number, by_skill)),
            rebuilding(summary, paper),
            *aggregations(summary, paper),
        ]
        tables += [accuracy(summary), *(table for table in optional if table)]
        tables += [errors(summary), divergences(summary)]
    relevance = places(summary)
    return [*tables, *([relevance] if relevance else [])]


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
    rows += method_rows(summary.methods, lambda m: cells((m, budget)))
    counts = {name: next(iter(estimates.values())).count for name, estimates in parts.items()}
    head = ("", *(f"{name} (n={counts[name]})" for name in parts), f"all (n={summary.questions})")
    return Table(title, head, rows, SHARES_NOTE)


def _plain_table(
    summary: Summary, of: Callable[[Column], Estimate | None], title: str, note: str
) -> Table:
    rows = method_rows(summary.methods, lambda m: tuple(plain(of((m, k))) for k in summary.budgets))
    return Table(
        title, ("", *(words(k) for k in summary.budgets)), rows, f"{note} {means_note(summary)}"
    )


def _skills_word(count: int) -> str:
    return "1 skill" if count == 1 else f"{count} skills"
