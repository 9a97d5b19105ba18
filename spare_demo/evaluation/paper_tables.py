"""Tables with the rows of some of the paper's, SPARE, arXiv 2606.18681, at its smallest budget."""

from __future__ import annotations

from spare_demo.evaluation.budgets import Budget, words
from spare_demo.evaluation.cells import SHARES_NOTE, Table, percent, plain, title_of
from spare_demo.evaluation.summary import Summary
from spare_demo.evaluation.variants import MARK, words_of
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.options import write_method

PAPER_BUDGET = 32
"""Of 576 tokens: that of the paper's Tables 4 and 6."""

_WITHOUT_TEXT = ("spare-reconstruction", "cdpruner-diversity", "dart-diversity")
_SQUASHES = {"minmax": "min-max", "softplus": "z-score and softplus"}
_A3_NOTE = (
    "A question read as a whole is one piece up to 77 tokens: mean and max of one are the same. "
    f"{SHARES_NOTE}"
)


def rebuilding(summary: Summary, budget: Budget) -> Table | None:
    """Error and accuracy of the methods of Table 6, all without text; None with fewer than two."""
    methods = [m for m in _WITHOUT_TEXT if (m, budget) in summary.error]
    if len(methods) < 2:
        return None
    return Table(
        f"Without text at {words(budget)}, as in Table 6",
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
        labels = {
            aggregation: [_label(aggregation, squash, reading) for squash in _SQUASHES]
            for aggregation in ("mean", "max")
        }
        if all((m, budget) in summary.accuracy for row in labels.values() for m in row):
            rows = tuple(
                (aggregation, *(percent(summary.accuracy[m, budget]) for m in row))
                for aggregation, row in labels.items()
            )
            how = f" with {words_of(reading)}" if reading else ""
            title = f"SPARE{how} at {words(budget)}, right answers in percent, as in Table A3"
            tables.append(Table(title, ("aggregation", *_SQUASHES.values()), rows, _A3_NOTE))
    return tables


def _label(aggregation: str, squash: str, reading: str) -> str:
    name = write_method("spare", {"aggregation": aggregation, "squash": squash}, PRUNERS)
    return f"{name}{MARK}{reading}" if reading else name
