"""Tables of paired differences: both methods on the same drawn pictures."""

from __future__ import annotations

import functools

from spare_demo.evaluation.budgets import words
from spare_demo.evaluation.cells import TOO_FEW, Table, method_rows, percent, signed, star, title_of
from spare_demo.evaluation.contrasts import MEASURES, RECONSTRUCTION_DIVERSITY, RIGHT
from spare_demo.evaluation.paired import LEVEL
from spare_demo.evaluation.resampling import FEW, Column, Pair
from spare_demo.evaluation.summary import Summary


def differences(summary: Summary) -> Table | None:
    """Accuracy minus the reference's; None with fewer than two methods."""
    if not summary.difference or summary.reference is None:
        return None

    starred = {c for c, found in summary.difference.items() if star(summary, found)}
    corrected = {column for column, p in summary.adjusted.items() if p < LEVEL}

    def cell(column: Column) -> str:
        marks = "*" * (column in starred) + "†" * (column in corrected)
        return percent(summary.difference.get(column), signed=True) + marks

    tests = len(summary.difference)
    return Table(
        f"Right answers minus those of {title_of(summary.reference)}, in percentage points",
        ("", *(words(k) for k in summary.budgets)),
        method_rows(
            [m for m in summary.methods if m != summary.reference],
            lambda m: tuple(cell((m, k)) for k in summary.budgets),
        ),
        "Paired: both methods on the same drawn pictures."
        + (
            f" A star: the interval leaves out zero, as {len(starred)} of {tests} do; of as many "
            f"differences that are none, about {LEVEL * tests:.0f} would."
            if summary.pictures >= FEW
            else TOO_FEW
        )
        + f" A dagger: the exact sign-flip test over pictures has p < {LEVEL:g} after Holm's "
        f"correction for all {tests}; {len(corrected)} have one.",
    )


def reconstruction_diversity(summary: Summary) -> Table | None:
    """Reconstruction minus diversity on every measure, paired; None where no pair was measured."""
    rows: list[tuple[str, ...]] = []
    for a, b in RECONSTRUCTION_DIVERSITY:
        columns: list[Pair] = [((a, k), (b, k)) for k in summary.budgets]
        if not any(pair in summary.pairs[RIGHT] for pair in columns):
            continue
        rows.append((f"{title_of(a)} minus {title_of(b)}:", *("" for _ in columns)))
        for measure, name in MEASURES.items():
            found = [summary.pairs[measure].get(pair) for pair in columns]
            write = functools.partial(percent, signed=True) if measure == RIGHT else signed
            rows.append((name, *(write(one) + star(summary, one) for one in found)))
    if not rows:
        return None
    return Table(
        "Reconstruction against diversity",
        ("", *(words(k) for k in summary.budgets)),
        tuple(rows),
        "Above zero reconstruction is right more often; below zero it leaves a smaller error, and "
        "first tokens nearer to the unpruned model's. SPARE and CDPruner pick by one rule, and "
        "differ in whether a token's length counts and in how the text weighs. Paired: both on the "
        "same drawn pictures."
        + (" A star: the interval leaves out zero." if summary.pictures >= FEW else TOO_FEW),
    )
