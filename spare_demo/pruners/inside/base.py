"""The contract of a method inside the language model, beside that of `Pruner`, and schedules.

Such a method has no single token set but a plan (`pruners/plan.py`), and decides in `choose` which
tokens go on. One that also prunes before the language model picks in `entering` what goes in.

Budgets are average numbers of visual tokens over layers, or what the method's paper counts instead
(`budget_is_average`). Papers number the layers of a model that has 32; here they are scaled to the
one at hand.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from spare_demo.pruners.base import Method, blamed_on, check_budget, largest, setting
from spare_demo.pruners.plan import Choice, LayerPlan, LayerReading, PlanInput, Stop
from spare_demo.tokens import Selection, VisualTokens

PAPER_DEPTH = 32
"""Layers of the language model that the papers' layer numbers are for (LLaVA-1.5-7B)."""


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
        it (the message says which budgets it can), if the model has too few layers, if no run can
        follow its stops, and as `check`.
        """
        if not hasattr(view, "tokens"):  # VisualTokens, a path
            raise ValueError(
                f"The method {self.name!r} needs the language model too. Pass the view of "
                f"model.encode, not {type(view).__name__}."
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
        plan = LayerPlan(self, n, depth, k, self.stops(n, depth, k), self.entering(view.tokens, k))
        _check_stops(plan)
        return plan

    def places(self, depth: int) -> tuple[int, ...]:
        """Where `stop_layers` lie in a model of so many: the same share of the way.

        Rounded to the nearest layer (halves down), at least 1, each after the one before and with a
        layer left for each after it, so that in a shallow model the stops crowd together but never
        coincide. Raises ValueError where even that leaves one no layer of its own.
        """
        count = len(self.stop_layers)
        if count >= depth:
            raise ValueError(
                f"{self.title} needs a language model of more than {layers_word(count)}, and this "
                f"one has {depth}. Choose a deeper model or another method."
            )
        places: list[int] = []
        for turn, layer in enumerate(self.stop_layers):
            nearest = math.ceil(layer * depth / PAPER_DEPTH - 0.5)
            latest = depth - count + turn
            places.append(min(latest, max(nearest, places[-1] + 1 if places else 1)))
        return tuple(places)

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


@dataclass(frozen=True)
class OneStop(LayerPruner):
    """All visual tokens before layer K, some of them from there on.

    The budget is the average over all layers, or the tokens after layer K, as the papers count.
    `counted` is the papers' count in either case.
    """

    layer: int = setting(
        2,
        "Layer K",
        "First layer with fewer tokens, of a model with 32 layers.",
        limits=(1, PAPER_DEPTH - 1),
    )

    @property
    def stop_layers(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.layer,)

    @property
    @abstractmethod
    def counting(self) -> str:
        """How the budget counts, a setting: "average", or the method's own word for after K."""

    @property
    def counting_note(self) -> str:  # type: ignore[override]
        return "tokens after layer K only"

    @property
    def budget_is_average(self) -> bool:
        return self.counting == "average"

    def lowest(self, n: int, depth: int) -> int:
        lowest = super().lowest(n, depth)  # refuses a model too shallow for it
        return lowest if self.budget_is_average else 1

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        (first,) = self.places(depth)
        kept = left_after(n, depth, first, k) if self.budget_is_average else self.nominal(n, k)
        return (Stop(first, kept),)

    def nominal(self, n: int, k: int) -> int:
        """How many of n tokens go on after layer K for a budget of k that counts only those."""
        return k

    def counted(self, plan: LayerPlan) -> float:
        return float(plan.last if self.budget_is_average else plan.budget)


def _check_stops(plan: LayerPlan) -> None:
    """Raise ValueError unless tokens leave, its stops ascend and each keeps some of the rows
    left."""
    if not plan.stops and plan.entering is None:
        raise ValueError(
            f"The method {plan.method.name!r} lets all {plan.n} visual tokens through every layer "
            f"for a budget of {plan.budget}. Let its stops return one or more."
        )
    layer, left = 0, plan.enters
    for stop in plan.stops:
        rows = stop.keep + stop.merged
        if not (layer < stop.layer < plan.depth and 1 <= stop.keep <= rows <= left):
            raise ValueError(
                f"The method {plan.method.name!r} cannot leave {rows} of {left} visual rows before "
                f"layer {stop.layer} of {plan.depth}. Let its stops go from layer 1 to "
                f"{plan.depth - 1} in turn, and each keep 1 row or more of those left."
            )
        layer, left = stop.layer, rows


def choose_rows(method: LayerPruner, reading: LayerReading, stop: Stop) -> Choice:
    """What a method's `choose` gives.

    Raises ValueError, naming the method, where it fails or keeps other rows than the stop says.
    """
    problem = f"The method {method.name!r} was asked for {stop.keep} rows before layer {stop.layer}"
    with blamed_on(method, f"{problem} and"):
        choice = method.choose(reading, stop)
        if not isinstance(choice, Choice):
            raise ValueError("its choose returned no Choice. Let it return one.")
        kept = Selection(choice.kept).check(len(reading.visual)).order
    if len(kept) != stop.keep:
        raise ValueError(f"{problem} and kept {len(kept)}. Let its choose keep {stop.keep}.")
    return replace(choice, kept=kept)


def most_attended(reading: LayerReading, stop: Stop, ahead: bool = False) -> Choice:
    """The choice that several methods share: the rows that the prompt's last token attends to most.

    By the mean over heads. ahead: as of `LayerReading.attention`.
    """
    last = len(reading.hidden) - 1
    scores = reading.attention([last], ahead)[:, 0].mean(dim=0)  # (T,)
    return Choice(largest(scores[reading.visual], stop.keep))


def layers_word(count: int) -> str:
    """ "1 layer", "2 layers"."""
    return "1 layer" if count == 1 else f"{count} layers"


def left_after(n: int, depth: int, first: int, k: int) -> int:
    """How many of n tokens go on after `first` layers for an average of k over all layers.

    Rounded, so that the average is k up to half a token.
    """
    return round((depth * k - first * n) / (depth - first))


def solve_amount(
    n: int,
    depth: int,
    k: int,
    places: Sequence[int],
    counts: Callable[[float], Sequence[float]],
    most: float,
) -> float:
    """The amount from 0 to `most` that leaves an average of k over all layers.

    places: at which layers tokens leave. counts: an amount -> how many of n go on after each place,
    not yet rounded; the average grows with it.
    """
    spans = [b - a for a, b in pairwise((0, *places, depth))]
    low, high = 0.0, most
    for _ in range(60):
        amount = (low + high) / 2
        total = sum(s * c for s, c in zip(spans, (n, *counts(amount)), strict=True))
        low, high = (amount, high) if total < k * depth else (low, amount)
    return high
