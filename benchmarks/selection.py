"""How fast tokens are chosen: this project's loop, the loop as published, and one matrix product.

    python benchmarks/selection.py [--device auto] [--runs 9] [--json FILE]

The floor is the float32 product X·Xᵀ of the same features in the same run. The published-style loop
is CDPruner's greedy determinantal MAP, one n-vector updated per step, in float32; on CUDA also in
the half precision in which it was published. Times are of the whole choice, from features and
weights to picks.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from measuring import Figure, finish, in_turns, read_arguments, where
from torch import Tensor

from spare_demo.pruners.greedy import greedy
from spare_demo.render.base import number
from spare_demo.table import counted
from spare_demo.tokens.selection import NEAR_TIE

# views, tokens in each, width, picks in each: LLaVA-1.5-7B, its five-crop successor, one long row
SHAPES = ((1, 576, 4096, 64), (1, 576, 4096, 192), (5, 576, 4096, 64), (1, 2880, 4096, 640))


def in_words(b: int, n: int, d: int, k: int) -> str:
    """One of `SHAPES`, as its figures name it."""
    return f"{counted(b, 'view')}, n={n}, d={d}, k={k}"


def published(features: Tensor, weight: Tensor, k: int) -> Tensor:
    """(b, n, d), (b, n) -> (b, k): the usual loop in the features' own precision."""
    unit = features / features.norm(dim=-1, keepdim=True)
    kernel = weight[:, :, None] * (unit @ unit.mT) * weight[:, None, :]
    b, n, _ = features.shape
    rows = torch.arange(b, device=features.device)
    factor = torch.zeros(k, b, n, dtype=kernel.dtype, device=kernel.device)
    variance = kernel.diagonal(dim1=1, dim2=2).clone()
    picked = torch.empty(k, b, dtype=torch.long, device=kernel.device)
    for t in range(k):
        j = variance.argmax(dim=-1)
        picked[t] = j
        seen = torch.einsum("tb,tbn->bn", factor[:t, rows, j], factor[:t])
        row = (kernel[rows, j] - seen) / variance[rows, j].sqrt()[:, None]
        factor[t] = row
        variance -= row.square()
        variance[rows, j] = -torch.inf
    return picked.T


def features(b: int, n: int, d: int) -> Tensor:
    """Clusters of alike directions with log-normal lengths."""
    g = torch.Generator().manual_seed(0)
    centre = torch.randn(n // 6, d, generator=g)
    x = centre[torch.randint(0, len(centre), (b, n), generator=g)]
    x = x + 0.5 * torch.randn(b, n, d, generator=g)
    return x * torch.exp(0.6 * torch.randn(b, n, 1, generator=g))


def measure(device: torch.device, dtype: torch.dtype, runs: int) -> list[Figure]:
    """Both loops at every shape."""
    figures = []
    for b, n, d, k in SHAPES:
        x = features(b, n, d).to(device, dtype)
        g = torch.Generator().manual_seed(1)
        w = (torch.rand(b, n, generator=g) + 0.1).to(device)
        single = x.float()
        loops: dict[str, Callable[[], Any]] = {
            "greedy loop": lambda x=x, w=w, k=k: greedy(x, w.double().square(), k).order,
            "published-style loop": lambda x=single, w=w, k=k: published(x, w, k),
        }
        if dtype != torch.float32:
            loops["published-style loop, in half precision"] = lambda x=x, w=w, k=k: published(
                x, w.to(x.dtype), k
            )
        seconds = in_turns(
            runs if n < 1000 else max(3, runs // 3),
            device,
            floor=lambda x=single: x @ x.mT,
            **loops,
        )
        near_ties = int((greedy(x, w.double().square(), k).margin < NEAR_TIE).sum())
        exact = published(x.double(), w.double(), k)
        shape = in_words(b, n, d, k)
        for name, loop in loops.items():
            step = statistics.median(seconds[name]) / k
            note = (
                f"{int((loop() == exact).sum())} of {b * k} picks as in float64, "
                f"{number(step * 1e6)} µs a step"
            )
            if name == "greedy loop":
                note += f", {counted(near_ties, 'near tie')}"
            figures.append(
                Figure(
                    name,
                    *where(device, dtype),
                    shape,
                    seconds[name],
                    "float32 X·Xᵀ",
                    seconds["floor"],
                    note,
                )
            )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args, device = read_arguments(parser, runs=9)
    figures = []
    halves = (torch.float16, torch.bfloat16) if device.type == "cuda" else ()
    for dtype in (torch.float32, *halves):
        figures += measure(device, dtype, args.runs)
    finish("Choosing tokens", figures, args.json)
    for figure in figures:
        if figure.note:
            print(f"{figure.dtype}, {figure.shape}: {figure.note}")


if __name__ == "__main__":
    main()
