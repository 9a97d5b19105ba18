"""The inner products of a set of rows, made once or as they are asked for, whichever is less work.

In float64: a product in float32 would square the condition number into what is left of it
(METHODS.md section 3). Half of the product is mirrored from the other half.
"""

from __future__ import annotations

import torch
from torch import Tensor

_STRIPES = 8
"""Into how many stripes a product is cut to leave out its lower half: 9/16 of it are computed."""

_WORTHWHILE = 2
"""Rows made a few at a time cost about this many times their share of the whole product."""

_AHEAD = 48
"""How many rows are made at once: the one asked for, and those that look like the next picks, most
of which soon are."""


class Cosines:
    """rows (b, n, d) float64 -> the n x n inner products of each of b views, row by row.

    Attributes:
        table: (b, n, n), whole from the start or filled in by `take`.
    """

    def __init__(self, rows: Tensor, methods: int, k: int):
        """Up to k rows of each view will be taken by each of so many methods."""
        b, n, _ = rows.shape
        self._rows, self._ahead = rows, min(k, _AHEAD)
        self.table = rows.new_empty(b, n, n)
        self._view = torch.arange(b, device=rows.device).repeat(methods)[:, None]  # (m * b, 1)
        # A GPU is left to itself: it makes the whole at once rather than be asked what is missing.
        self._whole = rows.is_cuda or _WORTHWHILE * k * methods >= n
        if self._whole:
            _gram(rows, self.table)
        else:
            self._known = torch.zeros(b, n, dtype=torch.bool)

    def take(self, pick: Tensor, value: Tensor) -> Tensor:
        """The rows of the picks. pick: (m * b, 1), one of each view for each of m methods.

        value: (m * b, n), high where the next picks are. Returns (m * b, 1, n).
        """
        if not self._whole:
            known = self._known[self._view, pick]
            if not bool(known.all()):
                for v in self._view[~known].unique().tolist():
                    here = self._view[:, 0] == v
                    self._make(v, pick[here, 0], value[here])
        return self.table[self._view, pick]

    def _make(self, view: int, pick: Tensor, value: Tensor) -> None:
        """Rows of one view: pick (m,) and the unknown ones of highest value (m, n)."""
        hope = value.amax(dim=0).masked_fill(self._known[view], -1.0)
        hope[pick[~self._known[view, pick]]] = torch.inf
        due = hope.topk(min(max(self._ahead, len(pick)), len(hope))).indices
        rows = self._rows[view]
        self.table[view, due] = rows[due] @ rows.mT
        self._known[view, due] = True


def _gram(rows: Tensor, out: Tensor) -> None:
    """rows (b, n, d) -> out (b, n, n)."""
    if rows.is_cuda:
        torch.matmul(rows, rows.mT, out=out)
        return
    n = rows.shape[1]
    for top in range(0, n, stripe := -(-n // _STRIPES)):
        below = top + stripe
        torch.matmul(rows[:, top:below], rows[:, top:].mT, out=out[:, top:below, top:])
        out[:, below:, top:below] = out[:, top:below, below:].mT
