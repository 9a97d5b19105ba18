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


def near_orthogonal(matrices: Tensor) -> Tensor:
    """UVᵀ of each of (B, m, n) matrices USVᵀ, roughly: singular values end between 0.5 and 1.5.

    Newton and Schulz's iteration of Jordan's Muon (https://kellerjordan.github.io/posts/muon/).
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    values = matrices.mT if is_tall else matrices
    values = values / values.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    first, third, fifth = _POLYNOMIAL
    for _ in range(_ITERATIONS):
        gram = values @ values.mT
        factor = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)
        values = torch.baddbmm(values, factor, values, beta=first)
    return values.mT if is_tall else values


class Muon(torch.optim.Optimizer):
    """Momentum whose updates are made near orthogonal, their root mean square near AdamW's."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient. ``closure`` is never called."""
        for group in self.param_groups:
            trained = [matrix for matrix in group["params"] if matrix.grad is not None]
            for shape in dict.fromkeys(matrix.shape for matrix in trained):
                self._update([matrix for matrix in trained if matrix.shape == shape], group["lr"])

    def _update(self, matrices: list[Tensor], rate: float) -> None:
        """Updates matrices of one shape together: a GPU runs them faster than they are launched."""
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        gradients: list[Any] = [matrix.grad for matrix in matrices]
        momenta = [self.state[matrix]["momentum"] for matrix in matrices]
        torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
        updates = near_orthogonal(torch.stack(gradients).lerp(torch.stack(momenta), _MOMENTUM))
        torch._foreach_mul_(matrices, 1 - rate * _WEIGHT_DECAY)
        longer = max(matrices[0].shape)
        torch._foreach_add_(matrices, updates.unbind(), alpha=-rate * 0.2 * longer**0.5)
