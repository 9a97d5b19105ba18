"""Whether two methods differ on the same questions: an exact paired test, and Holm's correction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05
"""A difference is real to a reader where its adjusted p-value is below it."""


def sign_flip_test(differences: Sequence[int]) -> float:
    """The exact two-sided p-value of paired differences: Fisher's randomisation test.

    If two methods are as good as each other, each difference is as likely to have the other sign.
    The p-value is the share of all choices of signs whose sum is at least as far from zero. Of
    differences of -1, 0 and 1 this is McNemar's exact test. 1 where nothing differs.

    differences: of each picture, how many of its questions one method answers right, minus how many
        the other does. Whole pictures, because the questions of one are not independent.
    """
    sizes = Counter(abs(difference) for difference in differences if difference)
    # Of the sum of all |differences|, the part with a positive sign; its chances, by size.
    chances = np.ones(1)
    for size, count in sizes.items():
        of_size = np.zeros(size * count + 1)
        of_size[::size] = _fair_binomial(count)
        chances = np.convolve(chances, of_size)
    whole = len(chances) - 1
    far = np.abs(2 * np.arange(whole + 1) - whole) >= abs(sum(differences))
    return min(1.0, float(chances[far].sum()))


def _fair_binomial(n: int) -> NDArray[np.float64]:
    """(n + 1,) chances of 0 to n heads in n throws of a fair coin."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])  # of the factorials
    chances: NDArray[np.float64] = np.exp(logs[n] - logs - logs[::-1] - n * np.log(2))
    return chances


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for how many they are, in the same order (Holm 1979, step-down).

    Rejecting where they are below a level keeps the chance of even one false rejection below it,
    however the tests depend on each other.
    """
    p, order = np.asarray(p_values, dtype=np.float64), np.argsort(p_values, kind="stable")
    left = np.arange(len(p), 0, -1)  # tests not yet rejected, the smallest p-value first
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * left))
    return [float(value) for value in adjusted]
