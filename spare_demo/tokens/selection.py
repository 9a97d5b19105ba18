"""The visual tokens of a picture that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from torch import Tensor

from spare_demo.tokens.arrays import NOT_STORED, FloatArray, IndexArray, ShareRows
from spare_demo.tokens.checks import Indices, as_indices, as_tensor, check_matrix, check_tensor

NEAR_TIE = 1e-6
"""A pick whose value exceeds the next best by less than this share is a near tie: float32 resolves
about 1e-7 and loses a digit or two on the way."""


Positions = Literal["compact", "original"]
"""Rotary positions of the visual tokens kept before the language model: one after the other without
gaps, or those that they have among all tokens; the text after them goes on from there."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The visual tokens that stay, in the order they were picked.

    Attributes:
        order: (k,) distinct patch indices, first pick first. A list or an integer tensor is
            accepted; it is stored as a LongTensor on the CPU, detached from what was passed.
        gain: (k,) or None, the criterion's value when each token was picked.
        features: (r, d) or None, only for methods that merge tokens: what the language model
            receives instead of the picked rows, in that order. A file does not hold them.
        sources: (r, n) or None, how much of each patch went into each merged row; a patch that a
            row grew from counts 1 in it.
        margin: (k,) or None, the lead of each pick over the next best token as a share of its
            value, 0 (a tie) to 1.
        informed: how many of the picks the criterion made, those with a gain above 0: of one view
            the first ones. The others lie in the span of these, where it has nothing left to
            choose by. None for methods whose criterion never runs out.
        bias: (r,) or None, only beside merged features: what is added to every attention score of
            each row, in all layers of the language model. A file does not hold it either.

    Raises ValueError for an empty, repeated, negative or non-integer order. Whether the
    indices fit a picture is known only with its n: see `check`.
    """

    order: IndexArray
    gain: FloatArray | None = field(default=None, repr=False)
    features: Annotated[Tensor | None, NOT_STORED] = field(default=None, repr=False)
    sources: ShareRows | None = field(default=None, repr=False)
    margin: FloatArray | None = field(default=None, repr=False)
    informed: int | None = None
    bias: Annotated[Tensor | None, NOT_STORED] = field(default=None, repr=False)

    if TYPE_CHECKING:  # a list and NumPy's arrays are taken, too

        def __init__(
            self,
            order: Indices,
            gain: Tensor | Sequence[float] | None = None,
            features: Tensor | None = None,
            sources: Tensor | None = None,
            margin: Tensor | Sequence[float] | None = None,
            informed: int | None = None,
            bias: Tensor | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        order = as_indices(self.order)
        if len(order) == 0:
            raise ValueError("The selection is empty. Keep at least one visual token.")
        if int(order.min()) < 0:
            raise ValueError(
                f"Patch index {int(order.min())} is negative. Indices count from 0, row by row."
            )
        values, counts = order.unique(return_counts=True)
        if len(values) < len(order):
            raise ValueError(
                f"Patch index {int(values[counts > 1][0])} is in the selection more than once. "
                "List every patch once."
            )
        object.__setattr__(self, "order", order)
        for name in ("gain", "margin"):
            if getattr(self, name) is None:
                continue
            try:
                values = as_tensor(getattr(self, name))
                whole = not values.isnan().any()
            except (TypeError, ValueError, RuntimeError):
                whole = False
            if not whole:
                raise ValueError(f"{name} holds what is no number. Pass one {name} per pick.")
            if values.shape != order.shape:
                raise ValueError(
                    f"{name} has shape {tuple(values.shape)} but order has {len(order)} entries. "
                    f"Pass one {name} per pick."
                )
            object.__setattr__(self, name, values)
        if self.informed is not None:  # NumPy's would be written as another kind of number
            object.__setattr__(self, "informed", int(self.informed))
        for name, shape in (("sources", "(r, n)"), ("bias", "(r,)")):
            if (values := getattr(self, name)) is not None:
                check_tensor(name, values, shape)
                if not values.isfinite().all():  # no file could be read back
                    raise ValueError(f"{name} holds NaN or infinity. Look for a division by 0.")
        if self.features is not None:
            check_matrix("merged features", self.features, "(r, d)")
            if self.sources is not None and len(self.sources) != len(self.features):
                raise ValueError(
                    f"sources has {len(self.sources)} rows but features has {len(self.features)}. "
                    "Pass one row of sources per merged row."
                )
        rows = 0 if self.features is None else len(self.features)
        if self.bias is not None and self.bias.shape != (rows,):
            raise ValueError(
                f"bias has shape {tuple(self.bias.shape)}, but there are {rows} merged rows. Pass "
                "one number per row of features."
            )

    def __len__(self) -> int:
        """Number of picks k."""
        return len(self.order)

    @property
    def size(self) -> int:
        """How many rows the language model gets, which is what a budget counts: k, or r merged."""
        rows = self.sources if self.features is None else self.features
        return len(self) if rows is None else len(rows)

    @property
    def merged(self) -> bool:
        """Whether the language model gets rows that are mixed from several patches."""
        return self.features is not None or self.sources is not None

    @property
    def row_tokens(self) -> Tensor | None:
        """(r,) the patch each merged row stands for; None where `sources` is.

        Its largest part, of several the one that was picked.
        """
        if self.sources is None:
            return None
        parts = self.sources.detach().cpu()
        picked = parts.new_zeros(parts.shape[1])
        picked[self.order] = 1
        return ((parts == parts.amax(dim=1, keepdim=True)) * (1 + picked)).argmax(dim=1)

    @property
    def kept(self) -> Tensor:
        """(k,) the picked indices ascending: raster order, as the language model gets them."""
        return self.order.sort().values

    def check(self, n: int) -> Selection:
        """Return self if every index is one of n tokens, and sources are of n, else raise
        ValueError."""
        highest = int(self.order.max())
        if highest >= n:
            raise ValueError(
                f"Patch index {highest} does not exist: this picture has {n} visual tokens, "
                f"numbered 0 to {n - 1}. Use indices made for this model and picture."
            )
        if self.sources is not None and self.sources.shape[1] != n:
            raise ValueError(
                f"sources has {self.sources.shape[1]} columns, but this picture has {n} visual "
                "tokens. Pass one column per token."
            )
        return self

    def prefix(self, k: int) -> Selection:
        """The first k picks: for a nested method, the selection it makes for budget k.

        Raises ValueError for merged tokens, and for a k that is not from 1 to the number of picks.
        """
        if self.merged:
            raise ValueError(
                "A selection with merged tokens has no shorter form. Run its method again."
            )
        if not 1 <= k <= len(self):
            raise ValueError(
                f"Cannot take the first {k} of {len(self)} picks. Choose 1 to {len(self)}."
            )
        gain = None if self.gain is None else self.gain[:k]
        margin = None if self.margin is None else self.margin[:k]
        informed = None if self.informed is None else count_informed(gain)
        return Selection(self.order[:k], gain, margin=margin, informed=informed)

    @property
    def near_ties(self) -> int | None:
        """How many picks could have been different in single precision.

        Those whose margin is below `NEAR_TIE`; None where the method reports no margins.
        """
        return None if self.margin is None else int((self.margin < NEAR_TIE).sum())


def count_informed(gain: Tensor | None) -> int | None:
    """How many picks a criterion made whose gain, (k,), is 0 where it had nothing to choose by."""
    return None if gain is None else int((gain > 0).sum())
