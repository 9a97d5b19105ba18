"""Noise on vision features along colour and shape directions, for training.

In training a colour or a number is never found on the shapes that are kept back from it. A decoder
that looks for black learns to look past what lies where arrows lie: nothing that it is asked speaks
against it, and black arrows are all it misses. Where shapes lie anywhere, there is nothing to learn
past. The same goes for colours, where shapes are looked for.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from spare_demo.scenes.training.patches import thing_at_each_patch
from spare_demo.scenes.training.references import Rng
from spare_demo.scenes.world import COLOURS, SHAPES, Scene

_WAYS = {"colour": len(COLOURS), "shape": len(SHAPES)}  # what can get noise
_SPREAD = 1.6  # of how far along each, in its own distance from the mean of all of its kind
_LOOKS = 16  # batches over which that distance is averaged


def amounts(scene: Scene, rng: Rng, noisy: str | None) -> np.ndarray:
    """(cells², 16) float32: how far each patch is moved along each colour, then each shape.

    It is the same all over a thing, and 0 for what is not ``noisy`` and where nothing lies.
    """
    moves = np.zeros((1 + len(scene.things), sum(_WAYS.values())), np.float32)
    if noisy:
        start = _WAYS["colour"] if noisy == "shape" else 0
        size = (len(scene.things), _WAYS[noisy])
        moves[1:, start : start + size[1]] = rng.normal(0, _SPREAD, size)
    return moves[thing_at_each_patch(scene).reshape(-1)]


class FeatureNoise(nn.Module):
    """Knows how far the tower's states of each colour and shape lie from those of all, from what it
    is shown while in training mode. ``width`` is that of the states.
    """

    means: Tensor
    looks: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(sum(_WAYS.values()), width))
        self.register_buffer("looks", torch.zeros(sum(_WAYS.values())))

    @torch.no_grad()
    def forward(self, states: Tensor, targets: Tensor, moves: Tensor) -> Tensor:
        """States (B, n, w) of patches, moved.

        Args:
            states: (B, n, w), the tower's.
            targets: (B, n, 5) as `patches.patch_targets` gives them.
            moves: (B, n, 16) as `amounts` gives them.
        """
        if self.training:
            self._look(states, targets)
        ways = [part - part.mean(0) for part in self.means.split(list(_WAYS.values()))]
        return states + (moves @ torch.cat(ways)).to(states.dtype)

    def _look(self, states: Tensor, targets: Tensor) -> None:
        kinds = [(at, 1 + c) for at, count in enumerate(_WAYS.values()) for c in range(count)]
        for row, (at, class_) in enumerate(kinds):
            here = states[targets[..., at] == class_]
            if len(here):
                share = 1 / min(float(self.looks[row]) + 1, _LOOKS)
                self.means[row].lerp_(here.float().mean(0), share)
                self.looks[row] += 1
