"""What flows through the program: the visual tokens of one picture, and a selection of them.

Both classes are frozen and check their fields once, so that nothing downstream has to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import torch
from torch import Tensor

from spare_demo.tokens.arrays import NOT_STORED, FloatArray, IndexArray, ShareRows

NEAR_TIE = 1e-6
"""A pick whose value exceeds the next best by less than this share is a near tie: float32 resolves
about 1e-7 and loses a digit or two on the way."""


Positions = Literal["compact", "original"]
"""Rotary positions of the visual tokens kept before the language model: one after the other without
gaps, or those that they have among all tokens; the text after them goes on from there."""


class ClsAttention(Protocol):
    """The class token's attention to the patches of its view: one row of a block's attention."""

    def __call__(self, block: int, joined: bool = False) -> Tensor:
        """(h, n) after the softmax over class token and patches, so that rows add up to less
        than 1 per view. Blocks count from the end: -1 is the last, -2 the one before it. 5 is the
        sixth from the start of a tower of 24, in another the one at the same share of its depth.

        joined: take queries and keys as one head of the tower's whole width w, scaled by
        1 / sqrt(w): (1, n).
        """
        ...


def where_float64_is(tensor: Tensor) -> Tensor:
    """The tensor itself, or its copy on the CPU where its device is an Apple GPU.

    Those have no float64, which every choice is made in.
    """
    return tensor.cpu() if tensor.device.type == "mps" else tensor


@dataclass(frozen=True, eq=False)
class VisualTokens:
    """The n visual tokens of one picture, in raster order, before the language model.

    What only some methods read (`Pruner.needs` names it) is None where a model lacks it; functions
    compute when they are called, and not again for the same picture.

    Attributes:
        features: (n, d) floating point, the projector's output (what the language model receives).
        clip_image: (n, c) or None, each token's embedding in CLIP's joint space, any scale.
        clip_text: (m, c) or None, the question in the same space, one row per text piece.
        view: (n,) integers or None, which view (crop) of the picture a token belongs to.
        states: (n, w) or None, the tower's output that enters the projector.
        class_states: (v, w) or None, the class token of each of the v views, by number, there.
        project: None or the projector, (m, w) states -> (m, d) features, at least in float32.
        cls_attention: None or see `ClsAttention`.
        attention_received: None or block -> (n,) the attention that each patch gets in its view,
            mean over the heads and over all queries, the class token's included. Blocks as there,
            or counted from 1 in a tower of 24, at the same share of the way in another.
        vision_keys: None or block (as there) -> (h, n, w / h) key projections of the patches, per
            head.
        vision_values: None or block -> (h, n, w / h) value projections of the patches, per head.
        class_queries: None or block -> (h, n, w / h) for each patch the query projection of its
            view's class token, per head.
        clip_sentence: None or () -> (c,), the question cut off at CLIP's context length, pooled at
            its end.
        clip_prompt: None or () -> (c,), the same of the question with the line that asks for a
            short answer, where the language model is given one.
        tower_blocks: None or how many blocks the vision tower has.
        words: None or () -> (m, d), the language model's input embeddings of the question's
            keywords, one row per token of text.
        by_words: relevance compares the features with `words`, not CLIP's two sides, which are then
            None.
        together: spend a budget over all views at once, instead of giving each its share.

    Matrices on an Apple GPU are taken to the CPU (`where_float64_is`).

    Raises ValueError where a shape or a value cannot be right.
    """

    features: Tensor
    clip_image: Tensor | None = None
    clip_text: Tensor | None = None
    view: Tensor | None = None
    states: Tensor | None = None
    class_states: Tensor | None = None
    project: Callable[[Tensor], Tensor] | None = None
    cls_attention: ClsAttention | None = None
    attention_received: Callable[[int], Tensor] | None = None
    vision_keys: Callable[[int], Tensor] | None = None
    vision_values: Callable[[int], Tensor] | None = None
    class_queries: Callable[[int], Tensor] | None = None
    clip_sentence: Callable[[], Tensor] | None = None
    clip_prompt: Callable[[], Tensor] | None = None
    tower_blocks: int | None = None
    words: Callable[[], Tensor] | None = None
    by_words: bool = False
    together: bool = False

    def __post_init__(self) -> None:
        for name in ("features", "clip_image", "clip_text", "states", "class_states"):
            if isinstance(value := getattr(self, name), Tensor):
                object.__setattr__(self, name, where_float64_is(value))
        _check_matrix("features", self.features, "(n, d)")
        if self.clip_image is not None:
            _check_matrix("clip_image", self.clip_image, "(n, c)")
            if len(self.clip_image) != self.n:
                raise ValueError(
                    f"clip_image has {len(self.clip_image)} rows but features has {self.n}. "
                    "Pass one CLIP embedding per visual token, without the class token."
                )
        if self.clip_text is not None:
            if self.clip_image is None:
                raise ValueError("clip_text was given without clip_image. Pass both, or neither.")
            _check_matrix("clip_text", self.clip_text, "(m, c)")
            if self.clip_text.shape[1] != self.clip_image.shape[1]:
                raise ValueError(
                    f"clip_text is {self.clip_text.shape[1]} wide but clip_image is "
                    f"{self.clip_image.shape[1]} wide. Project both into the same CLIP space first."
                )
        if self.view is not None:
            object.__setattr__(self, "view", _check_view(self.view, self.n))
        if self.states is not None:
            _check_matrix("states", self.states, "(n, w)")
            if len(self.states) != self.n:
                raise ValueError(
                    f"states has {len(self.states)} rows but features has {self.n}. "
                    "Pass one row per visual token, without the class token."
                )
        if self.class_states is not None:
            _check_matrix("class_states", self.class_states, "(v, w)")
            views = 1 if self.view is None else len(self.view.unique())
            if len(self.class_states) != views:
                raise ValueError(
                    f"class_states has {len(self.class_states)} rows but the picture has {views} "
                    "views. Pass one class token per view."
                )

    @property
    def n(self) -> int:
        """Number of visual tokens."""
        return int(self.features.shape[0])

    @property
    def has_text(self) -> bool:
        """Whether the tokens can be compared with a question."""
        if self.by_words:
            return self.words is not None
        return self.clip_image is not None and self.clip_text is not None

    def clip_pair(self) -> tuple[Tensor, Tensor]:
        """(n, c) and (m, c), the two sides of relevance; ValueError where there is no text.

        clip_image and clip_text; with `by_words` features and words.
        """
        if self.by_words and self.words is not None:
            return self.features, self.words()
        if self.clip_image is None or self.clip_text is None:
            raise ValueError("This needs text, and the tokens carry none. Ask a question.")
        return self.clip_image, self.clip_text


@dataclass(frozen=True, eq=False)
class Selection:
    """The visual tokens that stay, in the order they were picked.

    Attributes:
        order: (k,) distinct patch indices, first pick first. A list or an integer tensor is
            accepted; it is stored as a LongTensor on the CPU, detached from what was passed.
        gain: (k,) or None, the criterion's value when each token was picked.
        features: (r, d) or None, only for methods that merge tokens: what the language model
            receives instead of the picked rows, in that order. Read back from a file they are gone.
        sources: (r, n) or None, how much of each patch went into each merged row; a patch that a
            row grew from counts 1 in it.
        margin: (k,) or None, the lead of each pick over the next best token as a share of its
            value, 0 (a tie) to 1.
        informed: how many of the picks the criterion made, those with a gain above 0: of one view
            the first ones. The others lie in the span of these, where it has nothing left to
            choose by. None of methods that always have something.
        bias: (r,) or None, only beside merged features: what is added to every attention score of
            each row, in all layers of the language model. Read back from a file it is gone, too.

    Raises ValueError for an empty, repeated, negative or non-integer order. Whether the
    indices fit a picture is known only with its n: see `check`.
    """

    order: IndexArray
    gain: FloatArray | None = None
    features: Annotated[Tensor | None, NOT_STORED] = None
    sources: ShareRows | None = None
    margin: FloatArray | None = None
    informed: int | None = None
    bias: Annotated[Tensor | None, NOT_STORED] = None

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
            values = torch.as_tensor(getattr(self, name)).detach().cpu()
            if values.shape != order.shape:
                raise ValueError(
                    f"{name} has shape {tuple(values.shape)} but order has {len(order)} entries. "
                    f"Pass one {name} per pick."
                )
            object.__setattr__(self, name, values)
        if self.features is not None:
            _check_matrix("merged features", self.features, "(r, d)")
            if self.sources is not None and len(self.sources) != len(self.features):
                raise ValueError(
                    f"sources has {len(self.sources)} rows but features has {len(self.features)}. "
                    "Pass one row of sources per merged row."
                )
        rows = 0 if self.features is None else len(self.features)
        if self.bias is not None and (not rows or self.bias.shape != (rows,)):
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
        picked = torch.zeros(parts.shape[1])
        picked[self.order] = 1
        return ((parts == parts.amax(dim=1, keepdim=True)) * (1 + picked)).argmax(dim=1)

    @property
    def kept(self) -> Tensor:
        """(k,) the picked indices ascending: raster order, as the language model gets them."""
        return self.order.sort().values

    def check(self, n: int) -> Selection:
        """Return self if every index is one of n tokens, else raise ValueError."""
        highest = int(self.order.max())
        if highest >= n:
            raise ValueError(
                f"Patch index {highest} does not exist: this picture has {n} visual tokens, "
                f"numbered 0 to {n - 1}. Use indices made for this model and picture."
            )
        return self

    def prefix(self, k: int) -> Selection:
        """The first k picks: for a nested method, the selection it makes for budget k."""
        if self.merged:
            raise ValueError(
                "A selection with merged tokens has no shorter form. Run its method again."
            )
        if not 1 <= k <= len(self):
            raise ValueError(
                f"Cannot take the first {k} of {len(self)} picks. Choose 1 to {len(self)}."
            )
        gain = None if self.gain is None else self.gain[:k]
        return Selection(
            self.order[:k],
            gain,
            margin=None if self.margin is None else self.margin[:k],
            informed=None if self.informed is None else count_informed(gain),
        )

    @property
    def near_ties(self) -> int | None:
        """How many picks arithmetic in single precision could have made otherwise.

        Those whose margin is below `NEAR_TIE`; None where the method reports no margins.
        """
        return None if self.margin is None else int((self.margin < NEAR_TIE).sum())


def count_informed(gain: Tensor | None) -> int | None:
    """How many picks a criterion made whose gain, (k,), is 0 where it had nothing to choose by."""
    return None if gain is None else int((gain > 0).sum())


def as_indices(indices: Tensor | Sequence[int]) -> Tensor:
    """Integers as a new 1-D LongTensor on the CPU; ValueError for anything else."""
    try:
        values = torch.as_tensor(indices).detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(
            "Patch indices could not be read. Pass a list of whole numbers such as [3, 17, 240]."
        ) from error
    if values.ndim != 1:
        raise ValueError(
            f"Patch indices must be a flat list, but they have shape {tuple(values.shape)}. "
            "Flatten them first."
        )
    if len(values) == 0:
        return values.new_zeros(0, dtype=torch.long)
    if values.dtype == torch.bool:
        raise ValueError(
            "Patch indices must be whole numbers, but a mask of true and false was given. "
            "Pass mask.nonzero().flatten() instead."
        )
    if values.is_floating_point() or values.is_complex():
        raise ValueError(
            f"Patch indices must be whole numbers, but they are {values.dtype}. "
            "Convert them to integers first."
        )
    return values.to(torch.long, copy=True)


def _check_matrix(name: str, value: Tensor, shape: str) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} must be a torch tensor {shape}, but it is {type(value).__name__}."
        )
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(
            f"{name} must be a non-empty matrix {shape}, but its shape is {tuple(value.shape)}. "
            "Pass one picture at a time, one row per token."
        )
    if not value.is_floating_point():
        raise ValueError(
            f"{name} must be floating point, but it is {value.dtype}. Call .float() first."
        )
    if not bool(torch.isfinite(value).all()):
        raise ValueError(
            f"{name} holds NaN or infinity. Encode the picture again in a wider number format "
            "(bfloat16 or float32 instead of float16)."
        )


def _check_view(view: Tensor, n: int) -> Tensor:
    try:
        indices = as_indices(view)
    except ValueError as error:
        raise ValueError("view must be a flat list of whole numbers, one per token.") from error
    if len(indices) != n:
        raise ValueError(
            f"view has {len(indices)} entries but there are {n} tokens. Pass one per token."
        )
    return indices
