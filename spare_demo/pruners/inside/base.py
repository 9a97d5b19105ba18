"""The contract of a method inside the language model, beside that of `Pruner`.

Such a method has no single token set but a plan (`pruners/plan.py`), and decides in `choose` which
tokens go on. One that also prunes before the language model picks in `entering` what goes in.

Budgets are average numbers of visual tokens over layers, or what the method's paper counts instead
(`budget_is_average`). `depths.py` has the arithmetic that schedules share.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection

from spare_demo.pruners.base import Method, check_budget, largest
from spare_demo.pruners.inside.depths import depths, layers_word
from spare_demo.pruners.plan import Choice, LayerPlan, LayerReading, PlanInput, Stop
from spare_demo.tokens import Selection, VisualTokens


class LayerPruner(Method):
    """Drops visual tokens inside the language model. Has `plan` where others have `select`."""

    inside = True
    acts = "inside the language model"
    reads: tuple[str, ...] = ()
    """What `choose` reads, in words."""

    stop_layers: tuple[int, ...] = (1,)
    """The layers before which tokens leave, of a language model with 32. The language model needs
    more layers than these are."""
    repacks: bool = False
    """Whether the rows that go on get new positions without gaps, else they keep theirs. Positions
    on several axes (Qwen's) stay in either case: packed, they would say nothing."""

    @property
    def merging_note(self) -> str:  # type: ignore[override]
        if not self.merges:
            return ""
        return (
            f"{self.title} mixes some of the tokens it drops into rows of their own, which go on "
            "beside those it keeps."
        )

    def reason_against(
        self, supplies: Collection[str], layers: int | None = None, tower: int | None = None
    ) -> str | None:
        """As every method's; and that the language model has too few layers, or none to act at."""
        if layers == 0:
            return "tokens cannot be dropped layer by layer in this model's language model"
        steps = len(self.stop_layers)
        if layers is not None and layers <= steps:
            word = "step needs" if steps == 1 else "steps need"
            return (
                f"this model's language model has {layers_word(layers)}, and its {steps} {word} "
                "more"
            )
        return super().reason_against(supplies, layers, tower)

    def select(self, tokens: VisualTokens, budget: int) -> Selection:
        """Raises ValueError: there is nothing to select before the language model runs."""
        raise ValueError(
            f"The method {self.name!r} needs the language model: it keeps other tokens in each "
            "layer. Pass what its plan(view, budget) returns to model.answer."
        )

    def plan(self, view: PlanInput, budget: int) -> LayerPlan:
        """The schedule for this picture and model.

        Raises ValueError if budget is not a whole number from 1 to n, if this schedule cannot meet
        it (the message says which budgets it can), if the model has too few layers, and as `check`.
        """
        if isinstance(view, VisualTokens):
            raise ValueError(
                f"The method {self.name!r} needs the language model too. Pass the view of "
                "model.encode, not its tokens."
            )
        n, depth = view.tokens.n, view.layers
        k = check_budget(budget, n)
        self.check(view.tokens)
        low = self.lowest(n, depth)
        if k < low:
            raise ValueError(
                f"{self.title} cannot meet a budget of {k}: all {n} visual tokens go through its "
                f"first layers, and the budget is the average over the model's {depth}. Choose a "
                f"budget from {low} to {n}."
            )
        if k == n:
            return LayerPlan(self, n, depth, k, ())
        return LayerPlan(self, n, depth, k, self.stops(n, depth, k), self.entering(view.tokens, k))

    def places(self, depth: int) -> tuple[int, ...]:
        """Where `stop_layers` lie in a model of so many; ValueError for one too shallow for it."""
        return depths(self.stop_layers, depth, self.title)

    def lowest(self, n: int, depth: int) -> int:
        """The least budget its schedule can meet; ValueError as `places`."""
        first = self.places(depth)[0]
        return math.ceil((first * n + depth - first) / depth)  # all n in the first layers, then 1

    @abstractmethod
    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        """The schedule for a budget k from `lowest` to n - 1."""

    def entering(self, tokens: VisualTokens, k: int) -> Selection | None:
        """What enters the language model for a budget k below n, None for all tokens.

        Of merged rows each grew from a pick (`Selection.sources`).
        """
        return None

    def counted(self, plan: LayerPlan) -> float:
        """The number of visual tokens a plan stands for in the paper's tables."""
        return plan.average

    @abstractmethod
    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        """Which rows go on, when the language model is at a stop."""


def most_attended(reading: LayerReading, stop: Stop, ahead: bool = False) -> Choice:
    """The choice that several methods share: the rows that the prompt's last token attends to most.

    By the mean over heads. ahead: as of `LayerReading.attention`.
    """
    last = len(reading.hidden) - 1
    scores = reading.attention([last], ahead)[:, 0].mean(dim=0)  # (T,)
    return Choice(largest(scores[reading.visual], stop.keep))
