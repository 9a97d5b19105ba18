"""The greedy steps on a CUDA device: one kernel a step, all of them replayed as one graph.

A step of the plain loop is some twenty small kernels, and launching each takes longer than running
it. Here a step is one kernel, written in Triton: every program finds the pick by
itself from all n values, then brings its own columns up to date. When a shape is seen again, the k
launches are captured into a CUDA graph, so that a selection is one launch, and nothing waits for
the host.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from spare_demo.cuda_graphs import capture_graph

try:
    import triton
    import triton.language as tl
except ImportError:  # torch brings it where it can be used
    triton = None

_COLUMNS = 64
"""Columns that one program keeps up to date."""

_KEPT_BYTES = 2**28
"""What graphs may hold on the device when they are not used; the latest used stay."""

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_cache: OrderedDict[tuple, _Steps] = OrderedDict()
_failed = False


def steps(
    rows: Tensor, start: Tensor, merit: Tensor, k: int, tie: float, dependent: float
) -> tuple[Tensor, Tensor, Tensor] | None:
    """All k steps at once, as the plain loop in `plain.py` defines them.

    rows: (b, n, d); start: (b, n) their squared lengths; merit: (m, b, n); all float64 on one CUDA
    device. tie, dependent: in units of `start`.
    Returns order, value, second, each (m, b, k); None where Triton cannot be used, or where there
    is no memory for it.
    """
    global _failed
    if triton is None or _failed:
        return None
    key = (rows.device, merit.shape, k, tie, dependent)
    with _lock, torch.cuda.device(rows.device):
        try:
            steps_of_shape = _cache.pop(key, None) or _Steps(merit, k, tie, dependent)
            picks = steps_of_shape.run(rows, start, merit)
        except torch.OutOfMemoryError:  # now; it says nothing about the next time
            _cache.clear()
            return None
        except Exception:  # no compiler on this machine, a driver too old, ...
            _log.warning(
                "The fused selection cannot be used here; the plain loop is.", exc_info=True
            )
            _failed = True
            _cache.clear()
            return None
        _cache[key] = steps_of_shape
        while len(_cache) > 1 and sum(each.bytes for each in _cache.values()) > _KEPT_BYTES:
            _cache.popitem(last=False)
        return picks


@dataclass(frozen=True)
class Buffers:
    """What the kernels read and write, B = m * b. `u` has two halves: read one, write the other."""

    table: Tensor  # (b, n, n)
    merit: Tensor  # (B, n)
    reach: Tensor  # (B, n) merit times u at the start
    u: Tensor  # (2, B, n)
    factor: Tensor  # (B, k, n)
    order: Tensor  # (B, k) int64
    value: Tensor  # (B, k)
    second: Tensor  # (B, k)

    @classmethod
    @torch.inference_mode(False)  # they are written to in whichever mode they are used next
    def like(cls, merit: Tensor, k: int) -> Buffers:
        """Empty ones for merit (m, b, n)."""
        m, b, n = merit.shape
        rows, new = m * b, partial(torch.empty, dtype=merit.dtype, device=merit.device)
        return cls(
            new(b, n, n),
            new(rows, n),
            new(rows, n),
            new(2, rows, n),
            new(rows, k, n),
            new(rows, k, dtype=torch.long),
            new(rows, k),
            new(rows, k),
        )

    def fill(self, rows: Tensor, start: Tensor, merit: Tensor, dependent: float) -> None:
        """What a run starts from; rows (b, n, d)."""
        torch.matmul(rows, rows.mT, out=self.table)
        self.merit.copy_(merit.flatten(0, 1))
        self.reach.copy_((merit * start).flatten(0, 1))
        self.u[0].view(merit.shape).copy_(torch.where(start > dependent, start, 0.0))


def launch(buffers: Buffers, tie: float, dependent: float) -> None:
    """The k steps, one kernel each."""
    b, n = buffers.table.shape[:2]
    rows, k = buffers.order.shape
    grid = (triton.cdiv(n, _COLUMNS), rows)
    for t in range(k):
        _step[grid](
            buffers.table,
            buffers.merit,
            buffers.reach,
            buffers.u[t % 2],
            buffers.u[1 - t % 2],
            buffers.factor,
            buffers.order,
            buffers.value,
            buffers.second,
            t,
            b,
            n,
            k,
            TIE=tie,
            DEPENDENT=dependent,
            ALL=triton.next_power_of_2(n),
            COLUMNS=_COLUMNS,
            DEPTH=16,
        )


class _Steps:
    """The launches for one shape and the buffers they are bound to; captured when it comes again.

    Shapes that come once, such as a remainder of picks, are not worth a capture.
    """

    def __init__(self, merit: Tensor, k: int, tie: float, dependent: float):
        self._buffers, self._tie, self._dependent = Buffers.like(merit, k), tie, dependent
        self._shape = (*merit.shape[:2], k)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._ran = False

    @property
    def bytes(self) -> int:
        """What the buffers take on the device."""
        return sum(part.numel() * part.element_size() for part in vars(self._buffers).values())

    def run(self, rows: Tensor, start: Tensor, merit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        buffers = self._buffers
        if self._ran and self._graph is None:
            self._graph = capture_graph(self._launch, rows.device)
        buffers.fill(rows, start, merit, self._dependent)
        if self._graph is None:
            self._launch()
        else:
            self._graph.replay()
        self._ran = True
        order, value, second = (
            part.view(self._shape).clone()
            for part in (buffers.order, buffers.value, buffers.second)
        )
        return order, value, second

    def _launch(self) -> None:
        launch(self._buffers, self._tie, self._dependent)


if triton is not None:

    @triton.jit(do_not_specialize=["t", "b", "k"])
    def _step(  # type: ignore[no-untyped-def]  # its parameters are the kernel's
        table,
        merit,
        reach,
        u_old,
        u_new,
        factor,
        order,
        value,
        second,
        t,
        b,
        n,
        k,
        TIE: tl.constexpr,
        DEPENDENT: tl.constexpr,
        ALL: tl.constexpr,
        COLUMNS: tl.constexpr,
        DEPTH: tl.constexpr,
    ):
        """Step t of row program_id(1): pick, then columns program_id(0) * COLUMNS and on."""
        part = tl.program_id(0)
        row = tl.program_id(1).to(tl.int64)

        every = tl.arange(0, ALL)
        inside = every < n
        u = tl.load(u_old + row * n + every, mask=inside, other=0.0)
        now = u * tl.load(merit + row * n + every, mask=inside, other=0.0)
        now = tl.where(inside, now, -1.0)
        best = tl.max(now, axis=0)
        slack = TIE * tl.load(reach + row * n + every, mask=inside, other=0.0)
        # A token that is picked, or lies in the span, has u of exactly 0 and ties with nothing.
        tied = inside & ((now == best) | ((u > 0) & (now + slack >= best)))
        pick = tl.min(tl.where(tied, every, ALL), axis=0)
        pivot = tl.sum(tl.where(every == pick, u, 0.0), axis=0)
        if part == 0:
            top = tl.min(tl.where(now == best, every, ALL), axis=0)
            beaten = tl.max(tl.where(every == top, -1.0, now), axis=0)
            tl.store(order + row * k + t, pick.to(tl.int64))
            tl.store(value + row * k + t, best)
            tl.store(second + row * k + t, tl.maximum(beaten, 0.0))

        column = part * COLUMNS + tl.arange(0, COLUMNS)
        mine = column < n
        row_of_factor = tl.load(table + ((row % b) * n + pick) * n + column, mask=mine, other=0.0)
        done = 0
        while done < t:
            step = done + tl.arange(0, DEPTH)
            past = factor + (row * k + step) * n
            weight = tl.load(past + pick, mask=step < t, other=0.0)
            block = tl.load(
                past[:, None] + column[None, :],
                mask=(step < t)[:, None] & mine[None, :],
                other=0.0,
            )
            row_of_factor -= tl.sum(weight[:, None] * block, axis=0)
            done += DEPTH
        row_of_factor = row_of_factor / tl.sqrt(pivot)
        tl.store(factor + (row * k + t) * n + column, row_of_factor, mask=mine)

        left = (
            tl.load(u_old + row * n + column, mask=mine, other=0.0) - row_of_factor * row_of_factor
        )
        left = tl.where((left > DEPENDENT) & (column != pick), left, 0.0)
        tl.store(u_new + row * n + column, left, mask=mine)
