"""Muon in float32.

torch's own (`torch.optim.Muon`) makes matrices orthogonal in bfloat16, which takes a processor
without instructions for it longer than the rest of a training step together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_POLYNOMIAL = (3.4445, -4.7750, 2.0315)  # of torch.optim.Muon, like all numbers here
_ITERATIONS = 5
_MOMENTUM = 0.95
_WEIGHT_DECAY = 0.01


def near_orthogonal(matrix: Tensor) -> Tensor:
    """UVᵀ of a matrix USVᵀ, roughly: its singular values end between 0.5 and 1.5.

    Newton and Schulz's iteration of Jordan's Muon (https://kellerjordan.github.io/posts/muon/).
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    values = matrix.T if is_tall else matrix
    values = values / values.norm().clamp(min=1e-7)
    first, third, fifth = _POLYNOMIAL
    for _ in range(_ITERATIONS):
        gram = values @ values.T
        factor = torch.addmm(gram, gram, gram, beta=third, alpha=fifth)
        values = torch.addmm(values, factor, values, beta=first)
    return values.T if is_tall else values


class Muon(torch.optim.Optimizer):
    """Momentum whose updates are made near orthogonal, their root mean square near AdamW's."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient. ``closure`` is never called."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._update(matrix, matrix.grad, group["lr"])

    def _update(self, matrix: nn.Parameter, gradient: Tensor, rate: float) -> None:
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(gradient)
        momentum = state["momentum"].lerp_(gradient, 1 - _MOMENTUM)
        update = near_orthogonal(gradient.lerp(momentum, _MOMENTUM))
        matrix.mul_(1 - rate * _WEIGHT_DECAY)
        matrix.add_(update, alpha=-rate * 0.2 * max(matrix.shape) ** 0.5)
