"""Shares, means and paired differences with 95 % intervals, by a bootstrap over pictures; whether
two methods differ on the same questions, by an exact paired test with Holm's correction.

The questions of one picture are not independent, so that whole pictures are drawn. Every method and
budget is seen on the same draws, which makes a difference between two of them paired.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spare_demo.evaluation.budgets import Budget

Column = tuple[str, Budget]  # a method's label and a budget
Pair = tuple[Column, Column]

FEW = 20
"""Pictures; of fewer the draws are too much alike for an interval."""

LEVEL = 0.05
"""A difference is real to a reader where its adjusted p-value is below it."""
_BLOCK = 100
"""Draws that are held as float64 together."""
_INTERVAL = (2.5, 97.5)
_Z = 1.959964  # of the normal distribution, 95 % lie within it

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; `count` results stand behind it."""

    value: float
    low: float
    high: float
    count: int

    def apart_from(self, value: float) -> bool:
        """Whether the interval leaves the value out."""
        return not self.low <= value <= self.high


def wilson(share: float, trials: int) -> tuple[float, float]:
    """The ends of Wilson's 95 % interval of a share (Wilson 1927): never empty at 0 or 1."""
    spread = _Z**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * share * (1 - share) + spread**2 / 4) / (1 + spread)
    return min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))


class Draws:
    """Pictures drawn again, the same draws every time: how often each comes up, (b, s)."""

    def __init__(self, pictures: Sequence[str], resamples: int) -> None:
        self.index = {picture: i for i, picture in enumerate(pictures)}
        rng, s = np.random.default_rng(0), len(pictures)
        # Small whole numbers, drawn and used by blocks: of 40,000 pictures all of them as float64
        # would take more memory than the results.
        self.weights = np.empty((resamples, s), dtype=np.uint16)
        for block in _blocks(resamples):
            self.weights[block] = rng.multinomial(s, np.full(s, 1 / s), block.stop - block.start)

    def means(self, sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """(s, m) sums and counts per picture -> (m,) means, (b, m) means of every draw."""
        weights, present = self.weights, counts.sum(1) > 0
        if 2 * np.count_nonzero(present) < len(present):  # a rare label has few pictures behind it
            weights, sums, counts = weights[:, present], sums[present], counts[present]
        with np.errstate(invalid="ignore", divide="ignore"):
            resampled = np.empty((len(weights), sums.shape[1]))
            for block in _blocks(len(weights)):
                drawn = weights[block].astype(np.float64)
                resampled[block] = (drawn @ sums) / (drawn @ counts)
            return sums.sum(0) / counts.sum(0), resampled


def _blocks(draws: int) -> Iterator[slice]:
    return (slice(i, min(i + _BLOCK, draws)) for i in range(0, draws, _BLOCK))


def _estimate(value: float, resampled: Floats, count: int) -> Estimate:
    """A mean with the interval of its (b,) means of every draw."""
    # A draw may hold none of a rare kind of question; it then says nothing.
    resampled = resampled[np.isfinite(resampled)]
    low, high = np.percentile(resampled, _INTERVAL) if len(resampled) else (value, value)
    return Estimate(float(value), float(low), float(high), count)


class Columns:
    """Results by picture and column."""

    def __init__(self, pictures: Sequence[str], columns: Sequence[Column], draws: Draws) -> None:
        """pictures, columns: of each result."""
        self.columns, self.draws = list(dict.fromkeys(columns)), draws
        self.place = {column: i for i, column in enumerate(self.columns)}
        self.at = (
            np.array([draws.index[picture] for picture in pictures], dtype=int),
            np.array([self.place[column] for column in columns], dtype=int),
        )

    def means(self, values: Floats) -> dict[Column, Estimate]:
        """The mean of each column's finite values; columns without are out."""
        return self._means(*self._totals(values))

    def shares(self, right: Floats) -> dict[Column, Estimate]:
        """The share of each column's finite results that are 1; columns without are out.

        Where fewer than `FEW` pictures stand behind it, or all are 0 or all 1, drawing again says
        too little: the interval is then Wilson's, with as many trials as pictures.
        """
        sums, counts = self._totals(right)
        shares = self._means(sums, counts)
        for column, estimate in shares.items():
            pictures = int(np.count_nonzero(counts[:, self.place[column]]))
            if pictures < FEW or estimate.value in (0.0, 1.0):
                low, high = wilson(estimate.value, pictures)
                shares[column] = Estimate(estimate.value, low, high, estimate.count)
        return shares

    def _means(self, sums: Floats, counts: Floats) -> dict[Column, Estimate]:
        value, resampled = self.draws.means(sums, counts)
        return {
            column: _estimate(value[i], resampled[:, i], int(counts[:, i].sum()))
            for i, column in enumerate(self.columns)
            if counts[:, i].any()
        }

    def differences(self, values: Floats, pairs: Iterable[Pair]) -> dict[Pair, Estimate]:
        """Of each pair the first column's mean minus the second's, draw by draw; none where either
        has no values."""
        sums, counts = self._totals(values)
        value, resampled = self.draws.means(sums, counts)
        estimates = {}
        for pair, i, j in self._places(pairs):
            if counts[:, i].any() and counts[:, j].any():
                apart = resampled[:, i] - resampled[:, j]
                estimates[pair] = _estimate(value[i] - value[j], apart, int(counts[:, i].sum()))
        return estimates

    def p_values(self, right: Floats, pairs: Iterable[Pair]) -> dict[Pair, float]:
        """Of each pair that was asked the same questions, `sign_flip_test` over pictures."""
        sums, counts = self._totals(right)
        return {
            pair: sign_flip_test([round(apart) for apart in sums[:, i] - sums[:, j]])
            for pair, i, j in self._places(pairs)
            if np.array_equal(counts[:, i], counts[:, j])
        }

    def _places(self, pairs: Iterable[Pair]) -> list[tuple[Pair, int, int]]:
        """The pairs of which both columns are there, with the columns' numbers."""
        present = [pair for pair in pairs if all(column in self.place for column in pair)]
        return [(pair, self.place[pair[0]], self.place[pair[1]]) for pair in present]

    def _totals(self, values: Floats) -> tuple[Floats, Floats]:
        """(s, m) sums and counts, by picture and column, of the finite values."""
        use = np.isfinite(values)
        at = self.at[0][use], self.at[1][use]
        sums = np.zeros((len(self.draws.index), len(self.columns)))
        counts = np.zeros_like(sums)
        np.add.at(sums, at, values[use])
        np.add.at(counts, at, 1.0)
        return sums, counts


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
    # Without the rounding of the logarithms 1/32 is itself, and printed alike wherever it comes.
    return min(1.0, float(f"{chances[far].sum():.12g}"))


def _fair_binomial(n: int) -> Floats:
    """(n + 1,) chances of 0 to n heads in n throws of a fair coin."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])  # of the factorials
    chances: Floats = np.exp(logs[n] - logs - logs[::-1] - n * np.log(2))
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
