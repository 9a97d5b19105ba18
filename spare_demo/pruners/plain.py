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

DEPENDENT = 1e-6
"""A token whose sine to the span of the picked ones is no larger lies in it: features come in
float32 at best, and a sine of this size is what rounding leaves of a true dependence there."""

TIE = 2e-14
"""Values of u this close, against the root of u at the start of a round, differ by rounding alone:
that is how far rounding moves the squared length of a short row that is left of a unit row."""

TRUST = 1e-6
"""A round ends when the best value falls to this share of what an open token had at its start:
rounding is then about 1e-9 of the values compared."""


def steps(rows: Tensor, start: Tensor, merit: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Up to k steps of each view for each merit.

    rows: (b, n, d); start: (b, n) their squared lengths; merit: (m, b, n), from 0 to 1; all
    float64 on one device, products of which are made there. A run ends, zeros after it, by `TRUST`.
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
            _run(cosines, begin[v], worth[i, v], factor, order[i, v], best[i, v])
    values = torch.from_numpy(best).to(rows.device)
    return torch.from_numpy(order).to(rows.device), values[..., 0], values[..., 1]


def _run(
    cosines: Cosines,
    start: Numbers,
    merit: Numbers,
    factor: Numbers,
    order: NDArray[np.int64],
    best: Numbers,
) -> None:
    """The loop itself. start, merit: (n,); writes into factor (k, n), order (k,), best (k, 2)."""
    k, n = factor.shape
    u = np.where(start > DEPENDENT**2, start, 0.0)
    reach, slack = merit * start, TIE * merit * np.sqrt(start)
    values, scratch, flag = np.empty(n), np.empty(n), np.empty(n, bool)
    for t in range(k):
        np.multiply(merit, u, out=values)
        top = int(values.argmax())
        value = values[top]
        if not value > 0 or value < TRUST * reach.max():
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
        u[pick] = reach[pick] = slack[pick] = 0.0
        u *= np.greater(u, DEPENDENT**2, out=flag)
