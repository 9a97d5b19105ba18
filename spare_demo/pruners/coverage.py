"""Maximum coverage, the greedy loop that SCOPE and MMTok share.

Each step picks the token whose entries most exceed what the picked ones reach already. What a token
adds never grows from step to step, so that its value at an earlier step is a bound: only tokens
whose bound can still win are computed anew, a few of them in most steps. In NumPy, as `plain.py`:
the operations are small.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

TIE = 1e-12
"""Values this close, against a token's value at the first step, differ by rounding alone."""

_BATCH = 16
"""Tokens computed at once, those of the highest bounds."""


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
    known = np.ones(len(value), bool)  # whose value is that of this step
    order, gain = np.empty(k, np.int64), np.empty(k)
    for step in range(k):
        best = value.max(where=known, initial=0.0)
        while len(open_ := np.flatnonzero(~known & (value + slack >= best))):
            if len(open_) > _BATCH:
                open_ = open_[np.argpartition(value[open_], -_BATCH)[-_BATCH:]]
            value[open_] = scale[open_] * np.maximum(columns[open_] - reach, 0).sum(axis=1)
            known[open_] = True
            best = value.max(where=known, initial=0.0)
        pick = int((value + slack >= value.max()).argmax())  # the first of the tied
        order[step], gain[step] = pick, value[pick]
        np.maximum(reach, columns[pick], out=reach)
        value[pick] = -np.inf
        known = value <= 0
    return torch.from_numpy(order), torch.from_numpy(gain)
