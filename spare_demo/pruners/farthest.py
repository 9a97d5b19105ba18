"""Farthest-first selection, the loop that DivPrune and ZOO-Prune share.

Each step picks the token with the largest weight times distance to the nearest picked one. A
running minimum over the picked ones makes a step O(n); the distances cost O(n^2 d) once.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = 1e-12
"""Distances and values this close differ by rounding alone: equal tokens lie at distance 0, and of
equal values the lower index is picked."""


def cosine_distances(x: Tensor) -> Tensor:
    """(b, n, d) -> (b, n, n) float64 1 - cosine, 0 to 2; a zero row is at 1 to all others."""
    rows = x.detach().double()
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    rows = rows / norm.masked_fill(norm == 0, 1.0)
    return _zero_rounding(1 - rows @ rows.mT)


def euclidean_distances(x: Tensor) -> Tensor:
    """(b, n, d) -> (b, n, n) float64, as shares of the largest in each b."""
    rows = x.detach().double()
    scale = rows.abs().amax(dim=(-2, -1), keepdim=True)
    rows = rows / scale.masked_fill(scale == 0, 1.0)  # squares of 1e300 would overflow
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    largest = distance.amax(dim=(-2, -1), keepdim=True)
    return _zero_rounding(distance / largest.masked_fill(largest == 0, 1.0))


def farthest_first(
    distance: Tensor, weight: Tensor, first: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """k picks in each of b views at once.

    distance: (b, n, n), symmetric, 0 on the diagonal. weight: (b, n) >= 0, what a token's distance
    counts. first: (b, n), the criterion of the first pick, of which the largest is taken.
    Returns order (b, k), distinct, and gain (b, k) float64, the criterion at each pick.
    """
    b, n = weight.shape
    places = torch.arange(n, device=distance.device).expand(b, n)
    picked = torch.zeros(b, n, dtype=torch.bool, device=distance.device)
    nearest = distance.new_full((b, n), torch.inf)
    order, gain = [], []
    for step in range(k):
        value = (first if step == 0 else weight * nearest).masked_fill(picked, -torch.inf)
        best = value.amax(dim=-1, keepdim=True)
        pick = places.masked_fill(value < best - ROUNDING, n).amin(dim=-1, keepdim=True)  # (b, 1)
        order.append(pick)
        gain.append(value.gather(1, pick))
        picked = picked.scatter(1, pick, True)
        row = distance.gather(1, pick[..., None].expand(b, 1, n)).squeeze(1)
        nearest = torch.minimum(nearest, row)
    return torch.cat(order, dim=1), torch.cat(gain, dim=1)


def _zero_rounding(distance: Tensor) -> Tensor:
    distance = distance.masked_fill(distance < ROUNDING, 0.0)
    n = distance.shape[-1]
    return distance.masked_fill(torch.eye(n, dtype=torch.bool, device=distance.device), 0.0)
