"""Sets and plans made by hand or imported, in the place of a method."""

from __future__ import annotations

from dataclasses import dataclass

from spare_demo.pruners.base import Pruner
from spare_demo.pruners.inside.base import LayerPruner
from spare_demo.pruners.plan import Choice, LayerPlan, LayerReading, PlanInput, Stop
from spare_demo.tokens import Selection, VisualTokens


@dataclass(frozen=True, eq=False)
class SetByHand(Pruner):
    """One set, which is itself at every budget."""

    picks: Selection

    name = title = "by hand"
    summary = "These patches."
    by_hand = True

    def check(self, tokens: VisualTokens) -> None:
        """Raise ValueError for an index that is none of these tokens."""
        self.picks.check(tokens.n)

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        return self.picks


@dataclass(frozen=True, eq=False)
class PlanByHand(LayerPruner):
    """One schedule of a method inside the language model, which is itself at every budget."""

    ready: LayerPlan

    name = title = "by hand"
    summary = "This schedule."
    by_hand = True

    def plan(self, view: PlanInput, budget: int) -> LayerPlan:
        """The schedule, whatever the budget; ValueError if made for other tokens or layers."""
        return self.ready.check(view.tokens.n, view.layers)

    def lowest(self, n: int, depth: int) -> int:
        """Every budget; ValueError as `plan`."""
        self.ready.check(n, depth)
        return 1

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        return self.ready.stops

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        return self.ready.method.choose(reading, stop)
