"""The greedy steps on a CUDA device: one kernel a step.

A step of the plain loop is some twenty small kernels, and launching each takes longer than running
it. Here a step is one kernel, written in Triton: every program finds the pick by itself from all n
values, then brings its own columns up to date. Nothing waits for the host, so that a whole round
can be replayed as one graph (`cuda_graphs.Replay`).
"""

from __future__ import annotations

import functools
import logging

import torch
from torch import Tensor

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.pruners import plain

try:
    import triton
    import triton.language as tl
except ImportError:  # torch brings it where it can be used
    triton = None

_COLUMNS = 32
"""Columns that one program keeps up to date."""

_DEPTH = 64
"""Earlier rows of the factor that it takes off at once."""

_WARPS = 4
"""Of 32 threads; of one program."""

_log = logging.getLogger(__name__)


def available(device: torch.device) -> bool:
    """Whether the kernel can be compiled and run on a CUDA device."""
    return triton is not None and _runs(device)


@functools.cache
def _runs(device: torch.device) -> bool:
    one = torch.ones(1, 1, 1, dtype=torch.float64, device=device)
    try:
        return int(steps(one, one[0], one, 1)[0]) == 0
    except Exception as error:  # no compiler on this machine, a driver too old, ...
        if is_out_of_memory(error):  # now; the next choice tries again
            raise
        _log.warning("The fused selection cannot be used here; the plain loop is.", exc_info=True)
        return False


def steps(rows: Tensor, start: Tensor, merit: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """All k steps at once, as the plain loop in `plain.py` defines them.

    rows: (b, n, d); start: (b, n) their squared lengths; merit: (m, b, n); all float64 on one CUDA
    device. Returns order, value, second, each (m, b, k).
    """
    m, b, n = merit.shape
    table = rows @ rows.mT
    rounding = merit * start.sqrt()
    # A step reads one and writes the other. Not two halves of one tensor: with an odd number of
    # values the second is aligned otherwise, and Triton would compile the kernel twice.
    u = [merit.new_empty(m, b, n), merit.new_empty(m, b, n)]
    u[0].copy_(torch.where(start > plain.DEPENDENT**2, start, 0.0))
    factor = merit.new_empty(m, b, k, n)
    order = torch.empty(m, b, k, dtype=torch.long, device=merit.device)
    value, second = merit.new_empty(m, b, k), merit.new_empty(m, b, k)
    merit = merit.contiguous()
    grid = (triton.cdiv(n, _COLUMNS) + 1, m * b)
    with torch.cuda.device_of(merit):
        for t in range(k):
            _step[grid](
                *(table, merit, rounding, u[t % 2], u[1 - t % 2]),
                *(factor, order, value, second),
                *(t, b, n, k),
                TIE=plain.TIE,
                DEPENDENT=plain.DEPENDENT**2,
                ALL=triton.next_power_of_2(n),
                COLUMNS=_COLUMNS,
                DEPTH=_DEPTH,
                num_warps=_WARPS,
            )
    return order, value, second


if triton is not None:

    @triton.jit(do_not_specialize=["t", "b", "k"])
    def _step(  # type: ignore[no-untyped-def]  # its parameters are the kernel's
        table,
        merit,
        rounding,
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
        """Step t of row program_id(1): pick, then columns program_id(0) * COLUMNS and on.

        The last program has no columns and writes down what was picked, while the others work.
        """
        part = tl.program_id(0)
        row = tl.program_id(1).to(tl.int64)

        every = tl.arange(0, ALL)
        inside = every < n
        u = tl.load(u_old + row * n + every, mask=inside, other=0.0)
        now = u * tl.load(merit + row * n + every, mask=inside, other=0.0)
        now = tl.where(inside, now, -1.0)
        best = tl.max(now, axis=0)
        slack = TIE * tl.load(rounding + row * n + every, mask=inside, other=0.0)
        # A token that is picked, or lies in the span, has u of exactly 0 and ties with nothing.
        tied = inside & ((now == best) | ((u > 0) & (now + slack >= best)))
        pick = tl.min(tl.where(tied, every, ALL), axis=0)
        pivot = tl.sum(tl.where(every == pick, u, 0.0), axis=0)
        if part == tl.num_programs(0) - 1:
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
                past[:, None] + column[None, :], mask=(step < t)[:, None] & mine[None, :], other=0.0
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
