"""The greedy steps one by one, on the CPU: the fallback of `fused.py`, and its reference in tests.

In NumPy: a step is a dozen operations on n numbers, and a call of torch's takes several times as
long as such an operation does. Every view is picked by itself for each merit, whose cosines are
shared.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spare_demo.pruners.cosines import Cosines, Numbers


def steps(
    rows: Tensor,
    start: Tensor,
    merit: Tensor,
    k: int,
    tie: float,
    dependent: float,
    trust: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Up to k steps of each view for each merit.

    rows: (b, n, d); start: (b, n) their squared lengths; merit: (m, b, n), from 0 to 1; all
    float64 on one device, products of which are made there.
    tie, dependent: in units of `start`. trust: a run ends, zeros after it, where the best value is
    below this share of what any token not yet picked was worth at the start.
    Returns order, value, second, each (m, b, k), on that device: which token was picked, merit_i *
    u_i of the best one, and that of the second best.
    """
    m, b, n = merit.shape
    order, best = np.zeros((m, b, k), np.int64), np.zeros((m, b, k, 2))
    factor = np.empty((k, n))  # the Cholesky factor, a row a step
    begin, worth = start.cpu().numpy(), merit.cpu().numpy()
    for v in range(b):
        cosines = Cosines(rows[v], takes=m * k)
        for i in range(m):
            target = order[i, v], best[i, v]
            _run(cosines, begin[v], worth[i, v], factor, *target, tie, dependent, trust)
    picked, values = torch.from_numpy(order), torch.from_numpy(best)
    return (
        picked.to(rows.device),
        values[..., 0].to(rows.device),
        values[..., 1].to(rows.device),
    )


def _run(
    cosines: Cosines,
    start: Numbers,
    merit: Numbers,
    factor: Numbers,
    order: NDArray[np.int64],
    best: Numbers,
    tie: float,
    dependent: float,
    trust: float,
) -> None:
    """The loop itself. start, merit: (n,); writes into factor (k, n), order (k,), best (k, 2)."""
    k, n = factor.shape
    u = np.where(start > dependent, start, 0.0)
    slack = tie * merit * start
    values, scratch, flag = np.empty(n), np.empty(n), np.empty(n, bool)
    for t in range(k):
        np.multiply(merit, u, out=values)
        top = int(values.argmax())
        value = values[top]
        if not value > 0 or value * tie < trust * slack.max():
            break
        np.add(values, slack, out=scratch)
        pick = int(np.greater_equal(scratch, value, out=flag).argmax())  # the first of the tied
        values[top] = 0.0
        order[t] = pick
        best[t] = value, values.max()

        row = factor[t]
        np.dot(factor[:t, pick], factor[:t], out=row)
        np.subtract(cosines.row(pick, values, k - t), row, out=row)
        row *= u[pick] ** -0.5
        u -= np.multiply(row, row, out=scratch)
        u[pick] = slack[pick] = 0.0
        u *= np.greater(u, dependent, out=flag)
