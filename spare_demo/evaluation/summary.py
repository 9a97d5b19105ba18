"""All figures of a set of results: shares, means and paired differences, with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import Budget, sort_key
from spare_demo.evaluation.records import BLANK, Place, Row
from spare_demo.evaluation.statistics import Column, Columns, Draws, Estimate, Pair, holm

RESAMPLES = 2000

RECONSTRUCTION_DIVERSITY = (
    ("spare-reconstruction", "cdpruner-diversity"),
    ("spare-reconstruction", "divprune"),
    ("spare-reconstruction", "dart-diversity"),
    ("spare", "cdpruner"),
    ("spare-normal-relevance", "cdpruner-paper"),
)
"""One that reconstructs and one that wants diversity, with the same text guidance or none."""

GUIDANCE = (
    ("spare", "spare-reconstruction"),
    ("spare", "spare-normal-relevance"),
    ("anti-relevance", "normal-relevance"),
    ("anti-relevance@-1", "normal-relevance@-1"),
)
"""Favouring what is unlike the question, and not."""

RIGHT, ERROR, KL = "right", "error", "kl"
MEASURES = {
    RIGHT: "right answers, in points",
    ERROR: "relative reconstruction error",
    KL: "KL divergence, in nats",
}
"""What of a `Row` is compared, and its words."""

PLACE_FIELDS = ("asked", "others", "background", "asked_over_background", "asked_over_others")


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
        p_values: of each difference, the exact paired test over pictures. adjusted: the same by
            Holm, for all of them.
        best: by budget the method that is right most often; the first of several.
        behind_best: accuracy minus that of the best at the same budget, for all others.
        pairs: by measure of `MEASURES` and pair of columns, the first one's mean minus
            the second's.
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
    p_values: dict[Column, float]
    adjusted: dict[Column, float]
    best: dict[Budget, str]
    behind_best: dict[Column, Estimate]
    pairs: dict[str, dict[Pair, Estimate]]
    kl: dict[Column, Estimate]
    error: dict[Column, Estimate]
    skills: dict[str, dict[Column, Estimate]]
    numbers: dict[int, dict[Column, Estimate]]
    combinations: dict[str, dict[Column, Estimate]]
    places: dict[int, dict[str, Estimate]]

    @property
    def whole(self) -> str:
        """How many tokens an unpruned picture has, in words."""
        several = f"{self.fewest} to " if self.fewest < self.tokens else ""
        return f"{several}{self.tokens} tokens"

    @property
    def nothing_pruned(self) -> list[Column]:
        """The columns of the model with all tokens, of the picture and of a blank one."""
        columns = [(label, self.tokens) for label in (UNPRUNED, BLANK)]
        return [column for column in columns if column in self.accuracy]


def summarise(
    rows: Sequence[Row],
    places: Sequence[Place] = (),
    reference: str | None = None,
    resamples: int = RESAMPLES,
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
        )
        for name in dict.fromkeys(row.set for row in rows)
    }


def skills_of(category: str) -> list[str]:
    """ "recognition + ocr" -> its parts, each once; none for an empty category."""
    # With the blanks: a file's category may be C++.
    parts = (part.strip() for part in category.split(" + "))
    return list(dict.fromkeys(filter(None, parts)))


def _summary(
    rows: Sequence[Row], places: Sequence[Place], reference: str | None, resamples: int
) -> Summary:
    whole = [row.budget for row in rows if row.method == UNPRUNED and isinstance(row.budget, int)]
    most = max(whole, default=0)
    # One column of all pictures, however many tokens each has.
    rows = [replace(r, budget=most) if r.method in (UNPRUNED, BLANK) else r for r in rows]
    columns = [(row.method, row.budget) for row in rows]
    methods = tuple(dict.fromkeys(m for m, _ in columns if m not in (UNPRUNED, BLANK)))
    measured = [(m, k) for m, k in dict.fromkeys(columns) if m in methods]
    budgets = tuple(sorted({k for _, k in measured}, key=sort_key))
    pictures = list(dict.fromkeys(row.picture for row in rows))
    draws = Draws(pictures, resamples)
    table = Columns([row.picture for row in rows], columns, draws)
    if reference not in (*methods, UNPRUNED):
        reference = methods[0] if methods else None
    right = np.array([r.right for r in rows], dtype=np.float64)
    errors, divergences = (np.array([getattr(r, name) for r in rows]) for name in (ERROR, KL))
    # Of each category once: a file may have as many as it has questions.
    skills = {c: skills_of(c) for c in dict.fromkeys(r.category for r in rows)}
    category = {c: number for number, c in enumerate(skills)}
    of_row = np.array([category[r.category] for r in rows])
    combinations = sorted(filter(None, skills), key=lambda c: (len(skills[c]), c))

    def shares_where(included: Iterable[bool]) -> dict[Column, Estimate]:
        """The shares on the rows of some of the categories, in the order of `skills`."""
        return table.shares(np.where(np.array(list(included))[of_row], right, np.nan))

    accuracy = table.shares(right)
    against: list[Pair] = []
    if reference:
        at = {k: most if reference == UNPRUNED else k for k in budgets}
        against = [((m, k), (reference, at[k])) for m, k in measured if m != reference]
    p_values = {column: p for (column, _), p in table.p_values(right, against).items()}
    best = {
        k: max((m for m, of in measured if of == k), key=lambda m, k=k: accuracy[m, k].value)  # type: ignore[misc]
        for k in budgets
    }
    behind = [((m, k), (best[k], k)) for m, k in measured if m != best[k]]
    pairs = [((a, k), (b, k)) for a, b in (*RECONSTRUCTION_DIVERSITY, *GUIDANCE) for k in budgets]

    return Summary(
        questions=len({(r.picture, r.number) for r in rows}),
        pictures=len(pictures),
        methods=methods,
        budgets=budgets,
        tokens=most,
        fewest=min(whole, default=0),
        reference=reference,
        accuracy=accuracy,
        difference=_of_first(table.differences(right, against)),
        p_values=p_values,
        adjusted=dict(zip(p_values, holm(list(p_values.values())), strict=True)),
        best=best,
        behind_best=_of_first(table.differences(right, behind)),
        pairs={
            measure: table.differences(values, pairs)
            for measure, values in ((RIGHT, right), (ERROR, errors), (KL, divergences))
        },
        kl=table.means(divergences),
        error=table.means(errors),
        skills={
            skill: shares_where(skill in own for own in skills.values())
            for skill in sorted({skill for own in skills.values() for skill in own})
        },
        numbers={
            n: shares_where(len(own) == n for own in skills.values())
            for n in sorted({len(own) for own in skills.values() if own})
        },
        combinations={c: shares_where(own == c for own in skills) for c in combinations},
        places=_places(places, draws),
    )


def _of_first(estimates: Mapping[Pair, Estimate]) -> dict[Column, Estimate]:
    return {column: estimate for (column, _), estimate in estimates.items()}


def _places(places: Sequence[Place], draws: Draws) -> dict[int, dict[str, Estimate]]:
    each = [(place, name) for place in places for name in PLACE_FIELDS]
    columns = [(name, place.layer) for place, name in each]
    means = Columns([place.picture for place, _ in each], columns, draws).means(
        np.array([getattr(place, name) for place, name in each])
    )
    return {
        layer: {name: means[name, layer] for name in PLACE_FIELDS if (name, layer) in means}
        for layer in sorted({place.layer for place in places})
    }


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
            "tests": [
                {"method": m, "budget": k, "p": p, "adjusted": s.adjusted[m, k]}
                for (m, k), p in s.p_values.items()
            ],
            "best": {str(k): label for k, label in s.best.items()},
            "behind_best": cells(s.behind_best),
            "pairs": {
                measure: [
                    {"method": a, "other": b, "budget": k, **vars(e)}
                    for ((a, k), (b, _)), e in estimates.items()
                ]
                for measure, estimates in s.pairs.items()
            },
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
