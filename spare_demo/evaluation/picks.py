"""What the methods keep of one picture, at every budget.

A nested method picks once for the largest budget, and once for all questions of the picture if it
does not read them. Methods that draw at random draw other tokens on every picture.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from spare_demo import measures
from spare_demo.evaluation.budgets import Budget, size
from spare_demo.evaluation.experiment import Experiment
from spare_demo.models import View
from spare_demo.pruners import LayerPlan, Method
from spare_demo.pruners.greedy import Greedy, select_together
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection

Pick = tuple[Budget, Selection | LayerPlan, float]


class PicturePicks:
    """What the methods keep of one picture, with the error it leaves; text-free ones once."""

    def __init__(
        self, features: Tensor, methods: Mapping[str, Method], experiment: Experiment
    ) -> None:
        self.experiment, self.methods = experiment, methods
        self.features, self.x = features, measures.compact(features)
        self.known: dict[str, list[Pick]] = {}
        self.greedy: dict[RelevanceOptions, tuple[View, dict[str, Selection]]] = {}

    def of(self, label: str, view: View) -> list[Pick]:
        """Of each budget: the budget, the selection and its relative reconstruction error.

        Methods inside the language model have a plan instead, and no error of one set.
        """
        if label in self.known:
            return self.known[label]
        method, budgets = self.methods[label], self.experiment.budgets_of(label)
        if method.inside:
            return [(budget, keep(method, view, budget), float("nan")) for budget in budgets]
        sizes = [size(budget, view.tokens.n) for budget in budgets]
        if method.nested:
            most = self._most(label, view)
            chosen = [most.prefix(k) for k in sizes]
            curve = measures.reconstruction_curve(self.x, most.order, sizes, relative=True)
            errors = curve.tolist()
        else:
            chosen = [method.select(view.tokens, k) for k in sizes]
            errors = [self._error(selection) for selection in chosen]
        picks: list[Pick] = list(zip(budgets, chosen, errors, strict=True))
        if not method.needs_text:
            self.known[label] = picks
        return picks

    def _most(self, label: str, view: View) -> Selection:
        """A nested method's picks for the largest budget; greedy methods pick all together."""
        most = max(size(budget, view.tokens.n) for budget in self.experiment.budgets)
        if not isinstance(self.methods[label], Greedy):
            return self.methods[label].select(view.tokens, most)
        relevance = self.experiment.relevance_of(label)
        picked_for, picks = self.greedy.get(relevance, (None, {}))
        if picked_for is not view:
            greedy = {
                other: method
                for other, method in self.methods.items()
                if isinstance(method, Greedy)
                and other not in self.known
                and self.experiment.relevance_of(other) == relevance
            }
            picks = select_together(greedy, view.tokens, most)
            self.greedy[relevance] = view, picks
        return picks[label]

    def _error(self, selection: Selection) -> float:
        if selection.features is not None:
            return measures.merged_error(self.features, selection.features, relative=True)
        return measures.reconstruction_error(self.x, selection.order, relative=True)


def keep(method: Method, view: View, budget: Budget) -> Selection | LayerPlan:
    """What a method keeps of a picture at one budget, or where tokens leave inside the model."""
    n = view.tokens.n
    if not method.inside:
        return method.select(view.tokens, size(budget, n))
    # Of a small picture a share may fall short of what a schedule meets there: then that.
    least = method.lowest(n, view.layers) if isinstance(budget, str) else 1
    return method.plan(view, max(size(budget, n), least))


def picture_seed(seed: int, which: str, picture: str) -> int:
    """The seed, from 0 to 2^32 - 1, of methods that draw at random on one picture of a set."""
    return zlib.crc32(f"{seed} {which} {picture}".encode())


def draw_anew(methods: Mapping[str, Method], which: str, picture: str) -> dict[str, Method]:
    """Methods that draw at random draw other tokens on every picture of a set, the same in every
    run."""
    seeded: dict[str, Any] = dict(methods)
    for label, method in seeded.items():
        if method.seeded:
            seed = picture_seed(method.seed, which, picture)
            seeded[label] = dataclasses.replace(method, seed=seed)
    return seeded
