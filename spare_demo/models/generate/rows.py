"""Which rows stand in the image placeholders' place when only some visual tokens are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spare_demo.models.base import Encoding
from spare_demo.tokens import Selection


@dataclass(frozen=True, eq=False)
class Rows:
    """What the language model gets of a picture, in its order: visual tokens and newline tokens.

    Attributes:
        values: (r, d) the rows.
        places: (r,) LongTensor, CPU: the placeholder of the unpruned prompt that each row stood
            at; of a merged row, the one of the patch that gave most to it.
        newline: (r,) bool, CPU: newline tokens, which are no patches and never count as kept.
        bias: (r,) float32, CPU, or None: what is added to every attention score of each row.
    """

    values: Tensor
    places: Tensor
    newline: Tensor
    bias: Tensor | None = None

    @property
    def visual(self) -> int:
        """How many of the rows are visual tokens, the number the budget speaks of."""
        return len(self.newline) - int(self.newline.sum())


def image_run(input_ids: Tensor, image_token: int) -> slice:
    """Where the run of image placeholders stands in a (1, T) prompt; an empty one at its start
    where there is none."""
    places = (input_ids[0] == image_token).nonzero().flatten().tolist()
    return slice(places[0], places[-1] + 1) if places else slice(0, 0)


def prompt_embeddings(hf: Any, input_ids: Tensor, visual: Tensor) -> Tensor:
    """(L, d) the prompt as the language model gets it, rows in the placeholders' place.

    input_ids: (1, T) with one unbroken run of image placeholders. visual: (r, d) the rows.
    """
    run = image_run(input_ids, hf.config.image_token_id)
    ids, embed = input_ids[0].to(hf.device), hf.get_input_embeddings()
    before, after = embed(ids[: run.start]), embed(ids[run.stop :])
    return torch.cat([before, visual.to(before), after])


def original_places(input_ids: Tensor, image_token: int, rows: Rows) -> Tensor:
    """(L,) where each of the L tokens that enter stands in the unpruned prompt, CPU.

    input_ids: (1, T) with one unbroken run of placeholders, in whose place the rows stand.
    """
    run = image_run(input_ids, image_token)
    after = torch.arange(run.stop, input_ids.shape[1])
    return torch.cat([torch.arange(run.start), run.start + rows.places, after])


def kept_rows(picture: Encoding, selection: Selection | None) -> Rows:
    """The rows of all tokens (None) or of the kept ones, with the picture's newline tokens.

    All newline tokens stay whatever is kept: they tell in which row of the grid a token lies.

    Raises ValueError for a selection of another picture, or rows of another width.
    """
    features = picture.features
    n, width = features.shape
    bias = None if selection is None or selection.bias is None else selection.bias.cpu().float()
    if selection is None:
        tokens, values = torch.arange(n), features
    elif not selection.check(n).merged:
        tokens = selection.kept
        values = features[tokens.to(features.device)]
    elif selection.features is None:
        raise ValueError(
            "These merged tokens come from a file, which does not hold their features. Run the "
            "method again."
        )
    else:
        values = selection.features.to(features.device, features.dtype)
        if values.shape[1] != width:
            raise ValueError(
                f"The merged tokens have shape {tuple(values.shape)}; this model takes rows of "
                f"{width} numbers."
            )
        tokens = _anchors(selection, len(values), n)
    if picture.newline is None:
        return Rows(values, tokens, torch.zeros(len(values), dtype=torch.bool), bias)

    # A newline token that comes after the first b tokens follows every row up to token b - 1.
    # Merged rows may stand out of order: what counts is how far the picture has been read by then.
    breaks, count = picture.breaks, len(tokens)
    before = torch.searchsorted(tokens.cummax(dim=0).values, breaks)  # rows before each newline
    order = torch.cat([2 * torch.arange(count), 2 * before - 1]).argsort(stable=True)
    places = torch.cat(
        [tokens + torch.bucketize(tokens, breaks, right=True), breaks + torch.arange(len(breaks))]
    )
    lines = picture.newline.to(values).expand(len(breaks), -1)
    values = torch.cat([values, lines])[order.to(values.device)]
    if bias is not None:
        bias = torch.cat([bias, torch.zeros(len(breaks))])[order]
    return Rows(values, places[order], order >= count, bias)


def _anchors(selection: Selection, rows: int, n: int) -> Tensor:
    """(rows,) the token that each merged row stands for."""
    tokens = selection.row_tokens
    if tokens is not None:
        return tokens
    if rows == len(selection):
        return selection.kept
    return torch.linspace(0, n - 1, rows, dtype=torch.float32).round().long()
