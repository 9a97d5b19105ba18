"""The visual tokens of one picture, before the language model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from spare_demo.tokens.checks import as_indices, check_matrix
from spare_demo.tokens.devices import where_float64_is


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
        cls_attention: None or block -> (h, n) the class token's attention to the patches of its
            view, after the softmax over class token and patches, so that rows add up to less than
            1 per view. Blocks count from the end: -1 is the last, -2 the one before it. Above 0
            they count from the start of a tower of 24, 1 the first; 6 is the sixth, and in a tower
            of another depth the one at the same share of it. With `joined=True` queries and keys
            are taken as one head of the tower's whole width w, scaled by 1 / sqrt(w): (1, n).
        attention_received: None or block -> (n,) the attention that each patch gets in its view,
            mean over the heads and over all queries, the class token's included. Blocks as there.
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
    cls_attention: Callable[..., Tensor] | None = None
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
        check_matrix("features", self.features, "(n, d)")
        per_token = (("clip_image", "(n, c)", "CLIP embedding"), ("states", "(n, w)", "row"))
        for name, shape, row in per_token:
            if (value := getattr(self, name)) is None:
                continue
            check_matrix(name, value, shape)
            if len(value) != self.n:
                raise ValueError(
                    f"{name} has {len(value)} rows but features has {self.n}. "
                    f"Pass one {row} per visual token, without the class token."
                )
        if self.clip_text is not None:
            if self.clip_image is None:
                raise ValueError("clip_text was given without clip_image. Pass both, or neither.")
            check_matrix("clip_text", self.clip_text, "(m, c)")
            if self.clip_text.shape[1] != self.clip_image.shape[1]:
                raise ValueError(
                    f"clip_text is {self.clip_text.shape[1]} wide but clip_image is "
                    f"{self.clip_image.shape[1]} wide. Project both into the same CLIP space first."
                )
        if self.view is not None:
            object.__setattr__(self, "view", _check_view(self.view, self.n))
        if self.class_states is not None:
            check_matrix("class_states", self.class_states, "(v, w)")
            views = 1 if self.view is None else len(self.view.unique())
            if len(self.class_states) != views:
                raise ValueError(
                    f"class_states has {len(self.class_states)} rows but the picture has {views} "
                    "views. Pass one class token per view."
                )

    def __repr__(self) -> str:
        """How many they are and how wide: all fields would fill many pages."""
        text = "with" if self.has_text else "without"
        return f"<VisualTokens: {self.n} of width {self.features.shape[1]}, {text} a question>"

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

    def without_question(self) -> VisualTokens:
        """A copy as a blank question leaves it."""
        blank = copy.copy(self)  # which checks no matrix again
        for name in ("clip_text", "clip_sentence", "clip_prompt", "words"):
            object.__setattr__(blank, name, None)
        return blank

    def image_and_text(self) -> tuple[Tensor, Tensor]:
        """(n, c) and (m, c), the two sides of relevance; ValueError where there is no text.

        clip_image and clip_text; with `by_words` features and words.
        """
        if self.by_words and self.words is not None:
            return self.features, self.words()
        if self.clip_image is None or self.clip_text is None:
            raise ValueError(
                "This needs text, and the tokens carry none. Ask a question; a method that reads "
                "it says needs_text = True."
            )
        return self.clip_image, self.clip_text


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
