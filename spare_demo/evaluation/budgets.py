"""The budgets of a run: numbers of visual tokens, or shares of each picture's own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from reprlib import repr as brief

from spare_demo.comparison.request import read_budget
from spare_demo.table import tokens_word

Budget = int | str
"""A number of visual tokens, or a share of a picture's own such as "25%"."""


def read_budgets(words: Iterable[str]) -> tuple[Budget, ...]:
    """The budgets that were typed, ascending, each once.

    Raises ValueError: none, one that is not above zero, or numbers beside shares, which no axis can
    show together.
    """
    budgets = sorted({_read(word) for word in words}, key=axis_value)
    if not budgets:
        raise ValueError("Give at least one budget.")
    if len({isinstance(budget, str) for budget in budgets}) > 1:
        raise ValueError("Give all budgets as numbers of tokens, or all as shares such as 25%.")
    return tuple(budgets)


def read_cell(text: str) -> Budget:
    """A budget as `str` wrote it."""
    return text if text.endswith("%") else int(text)


def axis_value(budget: Budget) -> float:
    """Where it stands on an axis: tokens, or percent."""
    return float(budget.removesuffix("%")) if isinstance(budget, str) else float(budget)


def sort_key(budget: Budget) -> tuple[bool, float]:
    """The key that sorts budgets: numbers of tokens, then shares, each ascending."""
    return isinstance(budget, str), axis_value(budget)


def kept_tokens(budget: Budget, n: int) -> int:
    """How many of a picture's n tokens are kept; one that has fewer than a number keeps all."""
    return read_budget(budget, n) if isinstance(budget, str) else min(budget, n)


def budget_words(budget: Budget) -> str:
    """ "64 tokens", "25% of the tokens"."""
    return f"{budget} of the tokens" if isinstance(budget, str) else tokens_word(budget)


def as_share(k: int, n: int) -> str:
    """The least share in tenths of a percent that is k of n tokens or more."""
    return f"{math.ceil(1000 * k / n) / 10:g}%"


def middle_budget(budgets: Iterable[Budget]) -> Budget:
    """The budget for tables of one alone: `nearest_budget` to 64 tokens."""
    return nearest_budget(budgets, 64)


def nearest_budget(budgets: Iterable[Budget], tokens: int) -> Budget:
    """The budget nearest to so many tokens of LLaVA-1.5's 576, or to their share of them.

    0 where there is none.
    """

    def far(budget: Budget) -> tuple[float, float]:
        aim = 100 * tokens / 576 if isinstance(budget, str) else tokens
        return abs(axis_value(budget) - aim), axis_value(budget)

    return min(budgets, key=far, default=0)


def _read(word: str) -> Budget:
    text = word.strip()
    if text.endswith("%"):
        read_budget(text, 1)  # refuses what is no share
        return f"{float(text[:-1]):g}%"
    try:
        number = int(text)
    except ValueError:
        raise ValueError(
            f"A budget of {brief(word)} is not possible. Give a number such as 64, or a share such "
            "as 25%."
        ) from None
    if number < 1:
        raise ValueError("Every budget must be 1 or more.")
    return number
