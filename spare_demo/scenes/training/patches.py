"""What lies at every patch, asked while training; the heads are thrown away afterwards.

Each property is asked by itself: a tower that reads things as wholes misreads what it never saw
together.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spare_demo.scenes.draw import thing_at_each_pixel
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.world import COLOURS, SHAPES, WORDS, Scene

_NAMELESS = -100  # a class that is not asked for
_SIZES = 4
_PLACE_WEIGHT = 4.0
_PLAIN = 0.05  # the weight of a patch on which nothing lies
_PRINTS = (None, *"0123456789", *WORDS)
# The classes that a patch is asked about; class 0 of each is "nothing".
CLASSES = {
    "colour": 1 + len(COLOURS),
    "shape": 1 + len(SHAPES),
    "print": len(_PRINTS),
    "size": 1 + _SIZES,
    "centre": 2,  # whether the middle of what is seen there lies in this very patch
}


def thing_at_each_patch(scene: Scene) -> np.ndarray:
    """(cells, cells): the index in ``scene.things`` of what is seen at a patch's centre plus one,
    else 0."""
    return thing_at_each_pixel(scene)[PATCH // 2 :: PATCH, PATCH // 2 :: PATCH]


def patch_targets(scene: Scene) -> np.ndarray:
    """(cells², 5) classes, ordered as ``CLASSES``, of what lies at each patch's centre."""
    seen = thing_at_each_patch(scene)
    rows = [(0, 0, 0, 0, 0)]
    for thing in scene.things:
        size = 1 + min(_SIZES - 1, int(thing.size // 24))
        colour = 1 + list(COLOURS).index(thing.colour) if thing.colour else _NAMELESS
        shape = 1 + SHAPES.index(thing.shape) if thing.shape else _NAMELESS
        rows.append((colour, shape, _PRINTS.index(thing.print), size, 0))
    targets = np.array(rows, np.int64)[seen]
    for index, thing in enumerate(scene.things, 1):
        at = int(thing.y // PATCH), int(thing.x // PATCH)
        targets[at][-1] = seen[at] == index
    return targets.reshape(-1, len(CLASSES))


def places_in_grid(windows: Tensor) -> Tensor:
    """(B, n) raster indices to (B, n, 2): row and column from -1 to 1."""
    return torch.stack([windows // GRID, windows % GRID], -1) / (GRID / 2) - 1


class PatchHeads(nn.Module):
    """Asks states of width ``width`` what lies at each patch, and where in the picture it is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.heads = nn.Linear(width, sum(CLASSES.values()))
        self.place = nn.Linear(width, 2)

    def forward(
        self, states: Tensor, targets: Tensor, windows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
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
        answers = self.heads(states).float().split(list(CLASSES.values()), -1)
        for name, logits, target in zip(CLASSES, answers, targets.unbind(-1), strict=True):
            loss = loss + F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
            asked = covered & (target > 0)
            metrics[name] = ((logits.argmax(-1) == target) & asked).sum() / asked.sum()
        # Where in the picture a patch lies: without this the tower forgets it, and a decoder that
        # cannot tell places finds "left of" out of reach.
        off = (self.place(states).float() - places_in_grid(windows)).abs().mean(-1)
        metrics["off"] = (off * covered).sum() / covered.sum() * GRID / 2  # in patches
        loss = loss + _PLACE_WEIGHT * off
        return (loss * weight).sum() / weight.sum(), metrics
