"""The inner products of a view's rows, made once or as they are asked for, whichever is less work.

In float64: a product in float32 would square the condition number into what is left of it. On the
CPU the whole is made in blocks of columns, of which the part below the diagonal suffices. By torch,
not NumPy: after a product of NumPy's the threads of its BLAS wait for the next one by spinning, for
some 50 ms, and what torch computes next, such as the language model's prefill, shares the cores
with them and is measured twice as slow as it is.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.float64]

_WORTHWHILE = 2.5
"""Rows made a few at a time cost about this many times their share of the whole product."""

_LEAST = 48
_SHARE = 8
"""Rows made at once: an eighth of all, or so many; the one asked for, and those that look like the
next picks, most of which soon are. A third as many at least, however few picks are still to come:
the matrix is read once for each lot, and for fewer that is the whole cost."""

_BLOCKS = 4
"""Of columns: with four, 5/8 of the products are made; with more, each is too narrow to be fast."""


class Cosines:
    """rows (n, d) float64 -> their n x n inner products, row by row, on the CPU.

    Attributes:
        table: (n, n), whole from the start or filled in by `row`.
    """

    def __init__(self, rows: Tensor, takes: int):
        """About so many rows will be taken."""
        n = len(rows)
        self._rows = rows
        # A GPU is left to itself: it makes the whole at once rather than be asked what is missing.
        whole = rows.is_cuda or _WORTHWHILE * takes >= n
        self._known = np.full(n, whole)
        self.table: Numbers = gram_matrix(rows).numpy() if whole else np.empty((n, n))

    def row(self, pick: int, value: Numbers, takes: int) -> Numbers:
        """(n,) the row of a pick. value: (n,), high where the next of so many picks are."""
        if self._known[pick]:
            return self.table[pick]
        score = np.where(self._known, 0.0, value)
        score[pick] = np.inf
        batch = max(_LEAST, len(score) // _SHARE)
        rows = score.argsort()[::-1][: max(batch // 3, min(takes, batch))]
        rows = rows[score[rows] > 0]
        self.table[rows] = (self._rows[torch.from_numpy(rows)] @ self._rows.mT).numpy()
        self._known[rows] = True
        return self.table[pick]


def gram_matrix(rows: Tensor) -> Tensor:
    """(n, d) float64 -> (n, n) on the CPU: all inner products."""
    if rows.is_cuda:
        return (rows @ rows.mT).cpu()
    rows, n = rows.cpu(), len(rows)
    table = rows.new_empty(n, n)
    size = -(-n // _BLOCKS)
    for begin in range(0, n, size):
        block = slice(begin, begin + size)
        torch.mm(rows[begin:], rows[block].mT, out=table[begin:, block])
        table[block, begin + size :] = table[begin + size :, block].mT
    return table


def in_largest_units(features: Tensor) -> Tensor:
    """(n, d) -> the same in float64, in units of the largest entry, so that powers of products
    stay finite."""
    rows = features.detach().to(torch.float64, copy=True)
    low, high = rows.aminmax()
    scale = torch.maximum(-low, high)
    return rows / scale if scale > 0 else rows


def project_out(rows: Tensor, picked: Tensor) -> Tensor:
    """(n, d) rows without their part in the span of the picked ones."""
    basis = torch.linalg.qr(rows[picked].mT).Q  # (d, s)
    return rows - (rows @ basis) @ basis.mT
