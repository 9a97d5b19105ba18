"""Farthest-first selection, the loop that DivPrune and ZOO-Prune share.

Each step picks the token with the largest weight times distance to the nearest picked one. A
running minimum over the picked ones makes a step O(n); the distances cost O(n^2 d) once.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

ROUNDING = 1e-12
"""Distances and values this close differ by rounding alone: equal tokens lie at distance 0, and of
equal values the lower index is picked."""


def cosine_distances(x: Tensor) -> Tensor:
    """(n, d) -> (n, n) float64 1 - cosine, 0 to 2; a zero row is at 1 to all others."""
    rows = x.detach().double()
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    rows = rows / norm.masked_fill(norm == 0, 1.0)
    return _zero_rounding(1 - rows @ rows.mT)


def euclidean_distances(x: Tensor) -> Tensor:
    """(n, d) -> (n, n) float64, as shares of the largest."""
    rows = x.detach().double()
    scale = rows.abs().amax()
    rows = rows / scale.masked_fill(scale == 0, 1.0)  # squares of 1e300 would overflow
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    largest = distance.amax()
    return _zero_rounding(distance / largest.masked_fill(largest == 0, 1.0))


def farthest_first(
    distance: Tensor, weight: Tensor, first: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """k picks of one view.

    distance: (n, n), symmetric, 0 on the diagonal. weight: (n,) >= 0, what a token's distance
    counts. first: (n,), the criterion of the first pick, of which the largest is taken.
    Returns order (k,), distinct, and gain (k,) float64, the criterion at each pick, on the CPU.

    In NumPy, as `plain.py`: the operations are small.
    """
    table, scale, value = (part.cpu().numpy() for part in (distance, weight, first))
    nearest = np.full(len(table), np.inf)
    order, gain = np.empty(k, np.int64), np.empty(k)
    for step in range(k):
        pick = int((value >= value.max() - ROUNDING).argmax())  # the first of the tied
        order[step], gain[step] = pick, value[pick]
        np.minimum(nearest, table[pick], out=nearest)
        value = scale * nearest
        value[order[: step + 1]] = -np.inf
    return torch.from_numpy(order), torch.from_numpy(gain)


def _zero_rounding(distance: Tensor) -> Tensor:
    return distance.masked_fill(distance < ROUNDING, 0.0).fill_diagonal_(0.0)
