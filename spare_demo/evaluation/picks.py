"""What the methods keep of one picture, at every budget.

A nested method picks once for the largest budget, and once for all questions of the picture if it
does not read them. Methods that draw at random draw other tokens on every picture.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from spare_demo import measures
from spare_demo.comparison.selections import select_each
from spare_demo.evaluation.budgets import Budget, kept_tokens
from spare_demo.evaluation.experiment import Experiment
from spare_demo.models import Picture, View
from spare_demo.pruners import Method
from spare_demo.pruners.plan import Pruning
from spare_demo.tokens import Selection

Pick = tuple[Budget, Pruning, float]


class PicturePicks:
    """What the methods keep of one picture, with the error it leaves; text-free ones once."""

    def __init__(
        self, picture: Picture, methods: Mapping[str, Method], experiment: Experiment
    ) -> None:
        self.picture, self.methods, self.experiment = picture, methods, experiment
        self.text_free: dict[str, list[Pick]] = {}

    def of(self, labels: Sequence[str], view: View) -> dict[str, list[Pick]]:
        """By label, for each budget: the budget, the selection, its relative reconstruction error.

        Methods inside the language model have a plan instead, and no error of one set.

        labels: all that read relevance as the view does.
        """
        new = {label: self.methods[label] for label in labels if label not in self.text_free}
        nested = {label: method for label, method in new.items() if method.nested}
        most = max(
            (kept_tokens(budget, view.tokens.n) for budget in self.experiment.budgets), default=0
        )
        longest, _ = select_each(nested, view.tokens, most)
        picks = dict(self.text_free)
        for label, method in new.items():
            picks[label] = self._picks(label, view, longest.get(label))
            if not (method.inside or method.needs_text):
                self.text_free[label] = picks[label]
        return picks

    def _picks(self, label: str, view: View, longest: Selection | None) -> list[Pick]:
        """longest: what a nested method keeps at the largest budget."""
        method, budgets = self.methods[label], self.experiment.budgets_of(label)
        if method.inside:
            return [(budget, keep(method, view, budget), float("nan")) for budget in budgets]
        sizes = [kept_tokens(budget, view.tokens.n) for budget in budgets]
        if longest is not None:
            selections = [longest.prefix(k) for k in sizes]
            x = self.picture.compact_features
            errors = measures.reconstruction_curve(x, longest.order, sizes).tolist()
        else:
            selections = [method.select(view.tokens, k) for k in sizes]
            errors = [self.picture.error(selection) for selection in selections]
        return list(zip(budgets, selections, errors, strict=True))


def keep(method: Method, view: View, budget: Budget) -> Pruning:
    """What a method keeps of a picture at one budget, or where tokens leave inside the model."""
    n = view.tokens.n
    if not method.inside:
        return method.select(view.tokens, kept_tokens(budget, n))
    # Of a small picture a share may fall short of what a schedule meets there: then that.
    least = method.lowest(n, view.layers) if isinstance(budget, str) else 1
    return method.plan(view, max(kept_tokens(budget, n), least))


def picture_seed(seed: int, which: str, picture: str) -> int:
    """The seed, from 0 to 2^32 - 1, of methods that draw at random on one picture of a set."""
    return zlib.crc32(f"{seed} {which} {picture}".encode())


def reseed(methods: Mapping[str, Method], which: str, picture: str) -> dict[str, Method]:
    """The methods with other seeds for every picture of a set, the same ones in every run."""
    seeded: dict[str, Any] = dict(methods)
    for label, method in seeded.items():
        if method.seeded:
            seed = picture_seed(method.seed, which, picture)
            seeded[label] = dataclasses.replace(method, seed=seed)
    return seeded
