"""What lies at every patch, asked while training; the heads are thrown away afterwards.

Each property is asked by itself, and what training never shows together is left out of the running:
a patch of something red is not asked whether it is no circle. Else the loss would teach that such
pairs are not, and they are what the second held-out set is made of.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spare_demo.scenes.draw import thing_at_each_pixel
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.world import (
    COLOURS,
    HELD_OUT_COLOUR_SHAPE,
    HELD_OUT_NUMBER_SHAPE,
    SHAPES,
    WORDS,
    Scene,
)

_NAMELESS = -100  # a class that is not asked for
_SIZES = 4
_PLACE_WEIGHT = 4.0
_PLAIN = 0.05  # the weight of a patch on which nothing lies
_FIRST_WORD = 1 + 10
# The classes that a patch is asked about; class 0 of each is "nothing".
CLASSES = {
    "colour": 1 + len(COLOURS),
    "shape": 1 + len(SHAPES),
    "print": _FIRST_WORD + len(WORDS),
    "size": 1 + _SIZES,
    "centre": 2,  # whether the middle of what is seen there lies in this very patch
}


def thing_at_each_patch(scene: Scene) -> np.ndarray:
    """(cells, cells): the index in ``scene.things`` of what is seen at a patch's centre plus one,
    else 0."""
    return thing_at_each_pixel(scene)[PATCH // 2 :: PATCH, PATCH // 2 :: PATCH]


def patch_targets(scene: Scene, unknown: str | None = None) -> np.ndarray:
    """(cells², 5) classes, ordered as ``CLASSES``, of what lies at each patch's centre.

    A property that is ``unknown`` is not asked for.
    """
    seen = thing_at_each_patch(scene)
    rows = [(0, 0, 0, 0, 0)]
    for thing in scene.things:
        printed = 0
        if thing.number:
            printed = 1 + int(thing.number)
        elif thing.word:
            printed = _FIRST_WORD + WORDS.index(thing.word)
        size = 1 + min(_SIZES - 1, int(thing.size // 24))
        colour = 1 + list(COLOURS).index(thing.colour) if thing.colour else _NAMELESS
        shape = 1 + SHAPES.index(thing.shape) if thing.shape else _NAMELESS
        rows.append((colour, shape, printed, size, 0))
    targets = np.array(rows, np.int64)[seen]
    for index, thing in enumerate(scene.things, 1):
        at = int(thing.y // PATCH), int(thing.x // PATCH)
        targets[at][-1] = seen[at] == index
    if unknown:
        targets[..., list(CLASSES).index(unknown)] = np.where(seen > 0, _NAMELESS, 0)
    return targets.reshape(-1, len(CLASSES))


def places_in_grid(windows: Tensor) -> Tensor:
    """(B, n) raster indices to (B, n, 2): row and column from -1 to 1."""
    return torch.stack([windows // GRID, windows % GRID], -1) / (GRID / 2) - 1


def _never_together() -> tuple[Tensor, Tensor]:
    """(colours, shapes) and (prints, shapes), True for the pairs of classes kept back."""
    by_colour = torch.zeros(CLASSES["colour"], CLASSES["shape"], dtype=torch.bool)
    by_print = torch.zeros(CLASSES["print"], CLASSES["shape"], dtype=torch.bool)
    for colour, shape in HELD_OUT_COLOUR_SHAPE:
        by_colour[1 + list(COLOURS).index(colour), 1 + SHAPES.index(shape)] = True
    for number, shape in HELD_OUT_NUMBER_SHAPE:
        by_print[1 + int(number), 1 + SHAPES.index(shape)] = True
    return by_colour, by_print


class PatchHeads(nn.Module):
    """Asks states of width ``width`` what lies at each patch, and where in the picture it is."""

    by_colour: Tensor
    by_print: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.heads = nn.Linear(width, sum(CLASSES.values()))
        self.place = nn.Linear(width, 2)
        by_colour, by_print = _never_together()
        self.register_buffer("by_colour", by_colour, persistent=False)
        self.register_buffer("by_print", by_print, persistent=False)

    def _answers(self, states: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Logits (B, n, classes) of each property, without the classes kept back there."""
        split = self.heads(states).float().split(list(CLASSES.values()), -1)
        logits = dict(zip(CLASSES, split, strict=True))
        there = dict(zip(CLASSES, targets.clamp_min(0).unbind(-1), strict=True))
        never = {
            "colour": self.by_colour.T[there["shape"]],
            "print": self.by_print.T[there["shape"]],
            "shape": self.by_colour[there["colour"]] | self.by_print[there["print"]],
        }
        for name, where in never.items():
            logits[name] = logits[name].masked_fill(where, -torch.inf)
        return logits

    def forward(
        self, states: Tensor, targets: Tensor, windows: Tensor
    ) -> tuple[Tensor, dict[str, float]]:
        """The loss, and what share of each property is right.

        Args:
            states: (B, n, width), one row per patch.
            targets: (B, n, 5) as `patch_targets` gives them.
            windows: (B, n) raster indices of the patches in the whole grid.
        """
        states = self.norm(states.float())
        covered = targets[..., 0] != 0
        weight = torch.where(covered, 1.0, _PLAIN)
        loss = torch.zeros_like(weight)
        metrics = {}
        for (name, logits), target in zip(
            self._answers(states, targets).items(), targets.unbind(-1), strict=True
        ):
            loss = loss + F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
            asked = covered & (target > 0)
            metrics[name] = (logits.argmax(-1) == target)[asked].float().mean().item()
        # Where in the picture a patch lies: without this the tower forgets it, and a decoder that
        # cannot tell places finds "left of" out of reach.
        off = (self.place(states).float() - places_in_grid(windows)).abs().mean(-1)
        metrics["off"] = off[covered].mean().item() * GRID / 2  # in patches
        loss = loss + _PLACE_WEIGHT * off
        return (loss * weight).sum() / weight.sum(), metrics
