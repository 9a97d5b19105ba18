"""Two greedy loops that several methods share: farthest first, and maximum coverage.

Farthest first picks the token with the largest weight times distance to the nearest picked one
(DivPrune, ZOO-Prune). A running minimum over the picked ones makes a step O(n); the distances cost
O(n^2 d) once.

Maximum coverage picks the token whose entries most exceed what the picked ones reach already
(SCOPE, MMTok). What a token adds never grows from step to step, so that its value at an earlier
step is a bound: only tokens whose bound can still win are computed again, a few of them in most
steps.

Both in NumPy, as `plain.py`: the operations are small.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from spare_demo.relevance import raw_cosine

ROUNDING = 1e-12
"""Distances and values this close differ by rounding alone: equal tokens lie at distance 0, and of
equal values the lower index is picked."""

TIE = 1e-12
"""Values this close, against a token's value at the first step, differ by rounding alone."""

_BATCH = 16
"""Tokens computed at once, those of the highest bounds."""


def cosine_distances(x: Tensor) -> Tensor:
    """(n, d) -> (n, n) float64 1 - cosine, 0 to 2; a zero row is at 1 to all others."""
    return _zero_rounding(1 - raw_cosine(x, x))


def euclidean_distances(x: Tensor) -> Tensor:
    """(n, d) -> (n, n) float64, as shares of the largest."""
    rows = x.detach().double()
    scale = rows.abs().amax()
    rows = rows / scale.masked_fill(scale == 0, 1.0)  # squares of 1e300 would overflow
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    largest = distance.amax()
    return _zero_rounding(distance / largest.masked_fill(largest == 0, 1.0))


def _zero_rounding(distance: Tensor) -> Tensor:
    return distance.masked_fill(distance < ROUNDING, 0.0).fill_diagonal_(0.0)


def farthest_first(
    distance: Tensor, weight: Tensor, first: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """k picks of one view.

    distance: (n, n), symmetric, 0 on the diagonal. weight: (n,) >= 0, what a token's distance
    counts. first: (n,), the criterion of the first pick, of which the largest is taken.
    Returns order (k,), distinct, and gain (k,) float64, the criterion at each pick, on the CPU.
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


def cover_greedily(table: Tensor, weight: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """k distinct tokens, each the argmax of weight_i * sum_j max(0, table_ji - reach_j).

    table: (r, n) float64, CPU: how well each of n tokens covers each of r things.
    weight: (n,) float64 >= 0.
    reach_j is the largest table_ji of the picked tokens i, 0 before the first. Ties, also those by
    rounding (`TIE`), go to the lower index. Returns order (k,) and gain (k,) float64, the value at
    each pick.
    """
    columns, scale = np.ascontiguousarray(table.numpy().T), weight.numpy()  # (n, r), (n,)
    reach = np.zeros(columns.shape[1])
    value = scale * np.maximum(columns, 0).sum(axis=1)
    slack = TIE * value
    current = np.ones(len(value), bool)  # whose value is that of this step
    order, gain = np.empty(k, np.int64), np.empty(k)
    for step in range(k):
        best = value.max(where=current, initial=0.0)
        while len(open_ := np.flatnonzero(~current & (value + slack >= best))):
            if len(open_) > _BATCH:
                open_ = open_[np.argpartition(value[open_], -_BATCH)[-_BATCH:]]
            value[open_] = scale[open_] * np.maximum(columns[open_] - reach, 0).sum(axis=1)
            current[open_] = True
            best = value.max(where=current, initial=0.0)
        pick = int((value + slack >= value.max()).argmax())  # the first of the tied
        order[step], gain[step] = pick, value[pick]
        np.maximum(reach, columns[pick], out=reach)
        value[pick] = -np.inf
        current = value <= 0
    return torch.from_numpy(order), torch.from_numpy(gain)
