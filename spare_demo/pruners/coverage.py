"""Maximum coverage, the greedy loop that SCOPE and MMTok share.

Each step picks the token whose row entries most exceed what the picked ones reach already. What a
pick changes is taken off every token's gain, only in the rows that it reaches further than the
picks before: few of them after the first steps, so that a step costs less than the whole table.
"""

from __future__ import annotations

import torch
from torch import Tensor

TIE = 1e-12
"""Gains this close, against the gain of the first step, differ by rounding alone."""


def cover_greedily(table: Tensor, weight: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """k distinct tokens, each the argmax of weight_i * sum_j max(0, table_ji - reach_j).

    table: (r, n) float64, CPU: how well each of n tokens covers each of r things.
    weight: (n,) float64 >= 0.
    reach_j is the largest table_ji of the picked tokens i, 0 before the first. Ties, also those by
    rounding (`TIE`), go to the lower index. Returns order (k,) and gain (k,) float64, the value at
    each pick.
    """
    reach = table.new_zeros(len(table))
    gain = table.clamp_min(0).sum(dim=0)
    slack = TIE * weight * gain
    picked = torch.zeros_like(weight, dtype=torch.bool)
    order = torch.empty(k, dtype=torch.long)
    values = table.new_empty(k)
    for step in range(k):
        value = (weight * gain).masked_fill(picked, -torch.inf)
        # Where several are equal, argmax of a mask gives the first of them.
        pick = int((value + slack >= value.max()).byte().argmax())
        order[step], values[step] = pick, value[pick]
        picked[pick] = True
        column = table[:, pick]
        rows = (column > reach).nonzero().flatten()
        before, after = reach[rows, None], column[rows, None]
        gain -= (torch.minimum(table[rows], after) - before).clamp_min_(0).sum(dim=0)
        gain.clamp_min_(0)
        reach[rows] = column[rows]
    return order, values
