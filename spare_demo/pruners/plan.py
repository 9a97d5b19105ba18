"""The schedule of a method inside the language model, and what passes between the two.

A plan says before which layers how many visual tokens go on; which ones, its method decides when
the language model gets there, from the states and the attention at that layer.
`models/generate/layerwise.py` carries a plan out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from spare_demo.tokens import Selection, VisualTokens
from spare_demo.tokens.arrays import IndexArray, ShareRows

if TYPE_CHECKING:
    from spare_demo.pruners.inside.base import LayerPruner


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
        if self.entering is None:
            return
        if self.entering.check(self.n).bias is not None:
            raise ValueError(
                "A LayerPlan has no bias for rows. Leave size_bias at none for the rows that enter."
            )
        if not self.entering.merged:
            return
        rows = self.entering.row_tokens
        if rows is None or not torch.equal(rows, self.entering.kept):
            raise ValueError(
                "Merged rows can enter a schedule only where each grew from one of the picks, in "
                "raster order. Let tokens enter that are not merged."
            )
        if any(stop.merged for stop in self.stops):
            raise ValueError(
                "Rows that were merged before the language model cannot be merged again inside it. "
                "Let tokens enter that are not merged."
            )

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


Pruning = Selection | LayerPlan
"""What a method keeps: a set of tokens, or a schedule inside the language model."""
