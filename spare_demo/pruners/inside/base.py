"""The contract of a method inside the language model, beside that of `Pruner`.

Such a method has no single token set. Its `plan` says before which layers how many visual tokens
go on; which ones, it decides in `choose` when the language model gets there, from the states and
the attention at that layer. One that also prunes before the language model picks in `entering`
what goes in. `models/generate/layerwise.py` carries a plan out.

Budgets are average numbers of visual tokens over layers, or what the method's paper counts instead
(`budget_is_average`); what a layer really processes is in `LayerPlan.per_layer`, and the paper's
count in `LayerPlan.counted`. `depths.py` has the arithmetic that schedules share.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from spare_demo.pruners.base import Method, check_budget
from spare_demo.pruners.inside.depths import layers_word
from spare_demo.tokens import Selection, VisualTokens
from spare_demo.tokens.arrays import IndexArray, ShareRows


class PlanInput(Protocol):
    """What a plan is made for; a `View` is one."""

    @property
    def tokens(self) -> VisualTokens: ...

    @property
    def layers(self) -> int:
        """Layers of the language model that will answer."""


class LayerReading(Protocol):
    """What a method may read between two layers: T rows of states now, v of them visual.

    Attention, keys and normed states are computed when they are asked for, and only the rows
    asked for.
    """

    hidden: Tensor
    """(T, d) what the last layer gave out and the next one would get."""
    before: Tensor
    """(T, d) what the last layer got."""
    visual: Tensor
    """(v,) which rows of `hidden` come from the picture, ascending; those merged at a stop last."""
    text: slice
    """The m rows of `hidden` that are the text after the picture."""
    image_inputs: Tensor
    """(e, d) the visual rows as the language model first got them."""
    text_inputs: Tensor
    """(m, d) the text after the picture as the language model first got it."""
    cos: Tensor
    sin: Tensor
    """(T, h) rotary factors of the rows at their present positions, h the width of a head."""

    def attention(self, rows: Sequence[int], ahead: bool = False) -> Tensor:
        """(heads, len(rows), T) float32: some queries' softmaxed attention to every row.

        Of the layer that ran last, or with `ahead` as the next one would have it on these rows.
        """

    def keys(self) -> Tensor:
        """(T, heads times width) float32: keys of the layer that ran last, as it cached them."""

    def normed(self) -> Tensor:
        """(T, d) `hidden` after the language model's final norm."""


@dataclass(frozen=True)
class Stop:
    """A place where visual tokens leave.

    layer: the first layer (from 0) that no longer gets them; at least 1.
    keep: how many visual rows go on as they are.
    merged: how many rows, made of the dropped ones, go on after those.
    """

    layer: int
    keep: int
    merged: int = 0


@dataclass(frozen=True, eq=False)
class Choice:
    """What a method decides at a stop, of v visual rows.

    kept: (k,) which rows stay, best first.
    merge: (r, v) or None: each row is the shares of the v rows that a new row is made of.
    """

    kept: Tensor
    merge: Tensor | None = None


@dataclass(frozen=True, eq=False)
class LayerSet:
    """The visual tokens from one layer on, as they were kept in a run.

    layer: the first layer that got them.
    kept: (k,) patch indices ascending, of those that have a row of their own.
    sources: (r, n) or None: how much of each patch is in each of r merged rows, 1 in all.
    grown: whether merged rows are kept patches' own, which took in others before the language
        model; else they follow the rows of the kept ones.
    """

    layer: int
    kept: IndexArray
    sources: ShareRows | None = None
    grown: bool = False

    def __len__(self) -> int:
        """Number of rows the layer got for the picture."""
        return len(self.kept) + (0 if self.grown else self.merged_rows)

    @property
    def merged_rows(self) -> int:
        """Number of rows mixed from several patches."""
        return 0 if self.sources is None else len(self.sources)

    @property
    def merged(self) -> Tensor:
        """(m,) the patches, ascending, that are in merged rows only."""
        if self.sources is None:
            return torch.empty(0, dtype=torch.long)
        parts = self.sources.any(dim=0)
        parts[self.kept] = False
        return parts.nonzero().flatten()


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """A method's schedule for one picture, one language model and one budget.

    n: visual tokens of the picture; depth: layers of the language model; budget: as asked for.
    stops: where tokens leave, by layer; none where the budget is n.
    entering: what the language model gets of the n tokens; None for all of them.

    Raises ValueError for an entering set that a run layer by layer cannot follow: indices of no
    token, a bias, merged rows that did not each grow from a pick, or a stop that merges them again.
    """

    method: LayerPruner
    n: int
    depth: int
    budget: int
    stops: tuple[Stop, ...]
    entering: Selection | None = None

    def __post_init__(self) -> None:
        if self.entering is not None:
            check_entering(self.entering.check(self.n), self.stops)

    @property
    def enters(self) -> int:
        """Visual rows that enter the language model."""
        return self.n if self.entering is None else self.entering.size

    @property
    def per_layer(self) -> tuple[int, ...]:
        """Visual rows that each layer processes and caches."""
        counts = [self.enters] * self.depth
        for stop in self.stops:
            counts[stop.layer :] = [stop.keep + stop.merged] * (self.depth - stop.layer)
        return tuple(counts)

    @property
    def average(self) -> float:
        """Mean of `per_layer`: what is really processed."""
        return sum(self.per_layer) / self.depth

    @property
    def counted(self) -> float:
        """The number of visual tokens that it stands for in the paper's tables."""
        return self.method.counted(self)

    @property
    def size(self) -> int:
        """The budget that it was made for."""
        return self.budget

    @property
    def last(self) -> int:
        """Visual rows in the last layer."""
        return self.per_layer[-1]

    def check(self, n: int, depth: int) -> LayerPlan:
        """Return self if made for n tokens and this depth, else raise ValueError."""
        if (n, depth) != (self.n, self.depth):
            raise ValueError(
                f"This plan is for {self.n} visual tokens in {self.depth} layers, but here are {n} "
                f"in {depth}. Make it again with plan(view, budget) for this model and picture."
            )
        return self

    def stop_before(self, layer: int) -> Stop | None:
        """The stop right before a layer, if there is one."""
        return next((stop for stop in self.stops if stop.layer == layer), None)


class LayerPruner(Method):
    """Drops visual tokens inside the language model. Has `plan` where others have `select`."""

    inside = True
    nested = False
    acts = "inside the language model"
    looks_at: tuple[str, ...] = ()
    """What `choose` reads, in words."""
    steps: int = 1
    """At how many places tokens leave; the language model needs more layers than that."""

    @property
    def reads(self) -> tuple[str, ...]:
        """All that the choice depends on, in words."""
        return self.looks_at

    @property
    def merging_note(self) -> str:
        """As every method's."""
        if not self.merges:
            return ""
        return (
            f"{self.title} mixes some of the tokens it drops into rows of their own, which go on "
            "beside those it keeps."
        )

    @property
    def repacks(self) -> bool:
        """Whether the rows that go on get new positions without gaps, else they keep theirs.

        Positions on several axes (Qwen's) stay in either case: packed, they would say nothing.
        """
        return False

    def reason_against(
        self, supplies: Collection[str], layers: int | None = None, tower: int | None = None
    ) -> str | None:
        """As every method's; and that the language model has too few layers, or none to act at."""
        if layers == 0:
            return "tokens cannot be dropped layer by layer in this model's language model"
        if layers is not None and layers <= self.steps:
            word = "step needs" if self.steps == 1 else "steps need"
            return (
                f"this model's language model has {layers_word(layers)}, and its {self.steps} "
                f"{word} more"
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

    @abstractmethod
    def lowest(self, n: int, depth: int) -> int:
        """The least budget its schedule can meet; ValueError for a model too shallow for it."""

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


def check_entering(entering: Selection, stops: Sequence[Stop]) -> None:
    """Raise ValueError for a set that a run layer by layer cannot follow; see `LayerPlan`."""
    if entering.bias is not None:
        raise ValueError(
            "A run layer by layer has no bias for rows. Leave size_bias at none for what enters."
        )
    if not entering.merged:
        return
    rows = entering.row_tokens
    if rows is None or not torch.equal(rows, entering.kept):
        raise ValueError(
            "Merged rows can enter a schedule only where each grew from one of the picks, in "
            "raster order. Let tokens enter that are not merged."
        )
    if any(stop.merged for stop in stops):
        raise ValueError(
            "Rows that were merged before the language model cannot be merged again inside it. Let "
            "tokens enter that are not merged."
        )
