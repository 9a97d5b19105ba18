"""What enters the language model: rows of visual tokens, their positions, whole prompts."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as brief
from typing import Any, ClassVar, SupportsIndex

from torch import Tensor

from spare_demo.images.geometry import Grid, MultiGrid
from spare_demo.models.base import Picture, View
from spare_demo.models.generate.batch import Prompt
from spare_demo.models.generate.layerwise import window
from spare_demo.models.generate.rows import Rows, kept_rows, original_places
from spare_demo.pruners.plan import LayerPlan, Pruning
from spare_demo.tokens import Positions, Selection

NO_LANGUAGE_MODEL = (
    "This model was loaded without its language model, so there are no answers. To get them, load "
    "it whole: without --without-language-model, or on the page, under “Another model”, without "
    "“Vision side alone”."
)


PrunedView = tuple[View, Pruning | None]
"""What is asked, and what is kept of its picture; None for all."""


class DecoderInputs(ABC):
    """The part of a model that turns a view and what is kept of it into the decoder's input."""

    position_options: ClassVar[Mapping[Positions, str]] = {
        "compact": "without gaps, as in most methods' code",
        "original": "their original ones among all tokens",
    }
    """The positions that kept tokens can carry, each with its words on the page; the first is the
    usual."""
    position_note: ClassVar[str] = ""
    """A sentence that says why there is only one of them."""

    name: str
    title: str
    revision: str
    hf: Any
    processor: Any
    tokenizer: Any
    has_language_model: bool

    def position_option(self, wanted: Positions | None) -> Positions:
        """`wanted`, or this family's usual positions for None; ValueError for others."""
        option = next(iter(self.position_options)) if wanted is None else wanted
        if option not in tuple(self.position_options):
            note = f"{self.position_note} " if self.position_note else ""
            raise ValueError(
                f"{self.title} cannot give kept tokens {brief(option)} positions. {note}Choose one "
                f"of: {', '.join(self.position_options)}."
            )
        return option

    def positions(
        self, input_ids: Tensor, grid: Grid | MultiGrid, rows: Rows, option: Positions
    ) -> Tensor | None:
        """Rotary positions (axes, L) of the L tokens that enter, CPU; None for 0, 1, 2, …

        Args:
            input_ids: (1, T) the unpruned prompt.
            grid: of its picture.
            rows: what stands in the placeholders' place; a merged row has the position of the patch
                that gave most to it.
            option: one of `position_options`.
        """
        if option == "compact":
            return None
        return original_places(input_ids, self.hf.config.image_token_id, rows)[None]

    def _check_can_answer(self, max_new_tokens: int) -> None:
        if not self.has_language_model:
            raise ValueError(NO_LANGUAGE_MODEL)
        whole = isinstance(max_new_tokens, SupportsIndex) and not isinstance(max_new_tokens, bool)
        if not whole or max_new_tokens < 1:
            raise ValueError("max_new_tokens must be a whole number of at least 1.")

    def _check_own(self, picture: Picture) -> None:
        """Raise ValueError for a picture of another model, whose rows mean nothing to this one."""
        if picture.encoded_by != (self.name, self.revision):
            raise ValueError(
                f"This picture was encoded by {' '.join(picture.encoded_by)}, and this model is "
                f"{self.name} {self.revision}. Pass what this model's encode or look returns."
            )

    def _rows(self, view: View, selection: Selection | None) -> Rows:
        """The rows on the model's device, so that no timed pass has to bring them there."""
        self._check_own(view.picture)
        rows = kept_rows(view.picture, selection)
        if rows.bias is not None and window(self.hf) < math.inf:
            raise ValueError(
                "This language model has sliding-window attention, which takes no bias for rows. "
                "Leave size_bias at none, or choose another model."
            )
        return replace(rows, values=rows.values.to(self.hf.device))

    def _positions(self, view: View, rows: Rows, wanted: Positions | None) -> Tensor | None:
        return self.positions(view.input_ids, view.grid, rows, self.position_option(wanted))

    def _prompts(
        self, requests: Sequence[PrunedView], new: int, positions: Positions | None
    ) -> dict[int, Prompt]:
        """By number, the requests that can run in a batch and write `new` tokens each."""
        prompts: dict[int, Prompt] = {}
        for i, (view, selection) in enumerate(requests):
            if isinstance(selection, LayerPlan):  # layers with numbers of their own
                continue
            rows = self._rows(view, selection)
            own = self._positions(view, rows, positions)
            # Padding, in two parts, could push some rows out of sight.
            if rows.bias is None and self._within(view, rows, new, padded=2):
                before = view.prompt.split(self.processor.image_token)[0]
                shared = (before, id(view.picture), _identity(selection))
                prompts[i] = Prompt(view.input_ids, rows.values, shared, own)
        return prompts

    def _within(self, view: View, rows: Rows, new: int, padded: int = 1) -> bool:
        """Whether every layer sees all of prompt, answer and padding (so many times as long)."""
        text = int((view.input_ids != self.hf.config.image_token_id).sum())
        return padded * (text + len(rows.values) + new) <= window(self.hf)


def _identity(selection: Selection | None) -> Hashable:
    """Equal for selections that give the language model the same rows of one picture."""
    if selection is None or selection.merged:
        return selection and id(selection)
    return selection.kept.numpy().tobytes()
