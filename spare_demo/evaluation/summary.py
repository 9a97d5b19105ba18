"""Results as shares and means with 95 % intervals, paired where methods are compared.

The intervals are bootstrap percentiles over *pictures*: the questions of one picture are not
independent, so whole pictures are drawn again. Every method and budget is seen on the same draws,
so that a difference between two of them is paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import Budget, value
from spare_demo.evaluation.results import BLANK, Place, Row

Column = tuple[str, Budget]  # a method's label and a budget
RESAMPLES = 2000
_LEVEL = (2.5, 97.5)

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


@dataclass(frozen=True)
class Summary:
    """One set's figures.

    Attributes:
        questions, pictures: how many.
        methods, budgets: in the order measured; without "unpruned" and "blank".
        tokens: the budget of "unpruned"; where pictures have different numbers, the largest.
        fewest: the smallest.
        accuracy, kl, error: by method and budget; also "unpruned" and "blank" at `tokens`.
        reference: the label that differences are taken against.
        difference: accuracy minus the reference's at the same budget; of "unpruned", which has
            none, minus its accuracy with all tokens.
        skills: accuracy by skill (a question counts for each it takes), then method and budget.
        numbers: accuracy by the number of skills a question takes.
        combinations: accuracy by the whole category.
        places: by layer and by field of `Place`, where raw cosine falls.
    """

    questions: int
    pictures: int
    methods: tuple[str, ...]
    budgets: tuple[Budget, ...]
    tokens: int
    fewest: int
    reference: str | None
    accuracy: dict[Column, Estimate]
    difference: dict[Column, Estimate]
    kl: dict[Column, Estimate]
    error: dict[Column, Estimate]
    skills: dict[str, dict[Column, Estimate]]
    numbers: dict[int, dict[Column, Estimate]]
    combinations: dict[str, dict[Column, Estimate]]
    places: dict[int, dict[str, Estimate]] = field(default_factory=dict)

    @property
    def whole(self) -> str:
        """How many tokens an unpruned picture has, in words."""
        several = f"{self.fewest} to " if self.fewest < self.tokens else ""
        return f"{several}{self.tokens} tokens"


def summarise(
    rows: Sequence[Row],
    places: Sequence[Place] = (),
    reference: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Summary]:
    """Each set's figures, in the order in which the sets come.

    reference: the label that differences are taken against; None: the first method.
    """
    return {
        name: _summary(
            [row for row in rows if row.set == name],
            [place for place in places if place.set == name],
            reference,
            resamples,
            seed,
        )
        for name in dict.fromkeys(row.set for row in rows)
    }


def skills_of(category: str) -> list[str]:
    """ "recognition + ocr" -> its parts; none for an empty category."""
    return [part.strip() for part in category.split("+") if part.strip()]


def _summary(
    rows: Sequence[Row],
    places: Sequence[Place],
    reference: str | None,
    resamples: int,
    seed: int,
) -> Summary:
    whole = [row.budget for row in rows if row.method == UNPRUNED and isinstance(row.budget, int)]
    most = max(whole, default=0)
    # One column of all pictures, however many tokens each has.
    rows = [replace(r, budget=most) if r.method in (UNPRUNED, BLANK) else r for r in rows]
    columns = list(dict.fromkeys((row.method, row.budget) for row in rows))
    methods = tuple(dict.fromkeys(m for m, _ in columns if m not in (UNPRUNED, BLANK)))
    budgets = tuple(sorted({k for m, k in columns if m in methods}, key=value))
    pictures = list(dict.fromkeys(row.picture for row in rows))
    draws = _Draws(pictures, resamples, seed)
    table = _Table(rows, columns, draws)
    if reference not in (*methods, UNPRUNED):
        reference = methods[0] if methods else None
    skills = sorted({s for r in rows for s in skills_of(r.category)})
    wholes = sorted({r.category for r in rows if r.category}, key=lambda c: (c.count("+"), c))
    numbers = sorted({len(skills_of(r.category)) for r in rows if r.category})
    right, everything = [float(r.right) for r in rows], [True] * len(rows)

    against: dict[Column, Column] = {}
    if reference:
        compared = [(m, k) for m, k in columns if m in methods and m != reference]
        against = {(m, k): (reference, most if reference == UNPRUNED else k) for m, k in compared}

    def accuracy(test: Callable[[Row], bool]) -> dict[Column, Estimate]:
        return table.means(right, [test(row) for row in rows])

    return Summary(
        questions=len({(r.picture, r.number) for r in rows}),
        pictures=len(pictures),
        methods=methods,
        budgets=budgets,
        tokens=most,
        fewest=min(whole, default=0),
        reference=reference,
        accuracy=table.means(right, everything),
        difference=table.differences(right, against),
        kl=table.means([r.kl for r in rows], everything),
        error=table.means([r.error for r in rows], everything),
        skills={s: accuracy(lambda r, s=s: s in skills_of(r.category)) for s in skills},  # type: ignore[misc]
        numbers={n: accuracy(lambda r, n=n: len(skills_of(r.category)) == n) for n in numbers},  # type: ignore[misc]
        combinations={c: accuracy(lambda r, c=c: r.category == c) for c in wholes},  # type: ignore[misc]
        places=_places(places, draws),
    )


class _Draws:
    """Pictures drawn again: how often each comes up, (b, s)."""

    def __init__(self, pictures: Sequence[str], resamples: int, seed: int) -> None:
        self.index = {picture: i for i, picture in enumerate(pictures)}
        rng, s = np.random.default_rng(seed), len(pictures)
        self.weights = rng.multinomial(s, np.full(s, 1 / s), resamples).astype(np.float64)

    def means(self, sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """(s, m) sums and counts per picture -> (m,) means, (b, m) means of every draw."""
        with np.errstate(invalid="ignore", divide="ignore"):
            resampled = (self.weights @ sums) / (self.weights @ counts)
            return sums.sum(0) / counts.sum(0), resampled


def _estimate(value: float, resampled: Floats, count: int) -> Estimate:
    # A draw may hold none of a rare kind of question; it then says nothing.
    resampled = resampled[np.isfinite(resampled)]
    low, high = np.percentile(resampled, _LEVEL) if len(resampled) else (value, value)
    return Estimate(float(value), float(low), float(high), count)


class _Table:
    """Results by picture and column."""

    def __init__(self, rows: Sequence[Row], columns: Sequence[Column], draws: _Draws) -> None:
        self.columns, self.draws = list(columns), draws
        place = {column: i for i, column in enumerate(columns)}
        self.at = (
            np.array([draws.index[row.picture] for row in rows]),
            np.array([place[row.method, row.budget] for row in rows]),
        )

    def means(self, values: Sequence[float], included: Sequence[bool]) -> dict[Column, Estimate]:
        """The mean of each column's values that are chosen and finite; columns without are out."""
        counts, value, resampled = self._resample(values, included)
        return {
            column: _estimate(value[i], resampled[:, i], int(counts[i]))
            for i, column in enumerate(self.columns)
            if counts[i]
        }

    def differences(
        self, values: Sequence[float], against: Mapping[Column, Column]
    ) -> dict[Column, Estimate]:
        """Each column's mean minus that of the other one, draw by draw; where that is missing,
        none."""
        counts, value, resampled = self._resample(values, [True] * len(values))
        place = {column: i for i, column in enumerate(self.columns)}
        estimates = {}
        for column, other in against.items():
            i, j = place[column], place.get(other)
            if j is not None:
                apart = resampled[:, i] - resampled[:, j]
                estimates[column] = _estimate(value[i] - value[j], apart, int(counts[i]))
        return estimates

    def _resample(
        self, values: Sequence[float], included: Sequence[bool]
    ) -> tuple[Floats, Floats, Floats]:
        """(m,) counts, (m,) means, (b, m) means of every draw."""
        numbers = np.asarray(values, dtype=np.float64)
        use = np.asarray(included) & np.isfinite(numbers)
        at = self.at[0][use], self.at[1][use]
        sums = np.zeros((len(self.draws.index), len(self.columns)))
        counts = np.zeros_like(sums)
        np.add.at(sums, at, numbers[use])
        np.add.at(counts, at, 1.0)
        return counts.sum(0), *self.draws.means(sums, counts)


PLACE_FIELDS = ("asked", "others", "background", "asked_over_background", "asked_over_others")


def _places(places: Sequence[Place], draws: _Draws) -> dict[int, dict[str, Estimate]]:
    layers: dict[int, dict[str, Estimate]] = {}
    for layer in sorted({place.layer for place in places}):
        here = [place for place in places if place.layer == layer]
        values = np.array([[getattr(place, name) for name in PLACE_FIELDS] for place in here])
        finite = np.isfinite(values)
        sums = np.zeros((len(draws.index), len(PLACE_FIELDS)))
        counts = np.zeros_like(sums)
        rows = [draws.index[place.picture] for place in here]
        np.add.at(sums, rows, np.where(finite, values, 0.0))
        np.add.at(counts, rows, finite.astype(np.float64))
        value, resampled = draws.means(sums, counts)
        layers[layer] = {
            name: _estimate(value[i], resampled[:, i], int(counts[:, i].sum()))
            for i, name in enumerate(PLACE_FIELDS)
            if counts[:, i].sum()
        }
    return layers


def as_json(summaries: Mapping[str, Summary]) -> dict[str, object]:
    """All figures as JSON takes them."""

    def cells(estimates: Mapping[Column, Estimate]) -> list[dict[str, object]]:
        return [{"method": m, "budget": k, **vars(e)} for (m, k), e in estimates.items()]

    return {
        name: {
            "questions": s.questions,
            "pictures": s.pictures,
            "reference": s.reference,
            "accuracy": cells(s.accuracy),
            "difference": cells(s.difference),
            "kl": cells(s.kl),
            "error": cells(s.error),
            "skills": {skill: cells(estimates) for skill, estimates in s.skills.items()},
            "numbers_of_skills": {str(n): cells(estimates) for n, estimates in s.numbers.items()},
            "combinations": {c: cells(estimates) for c, estimates in s.combinations.items()},
            "places": {
                str(layer): {field: vars(e) for field, e in estimates.items()}
                for layer, estimates in s.places.items()
            },
        }
        for name, s in summaries.items()
    }
