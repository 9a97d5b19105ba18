"""The arithmetic of schedules: at which layers tokens leave, and how many for an average.

Papers number the layers of a model that has 32; here they are scaled to the one at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

PAPER_DEPTH = 32
"""Layers of the language model that the papers' layer numbers are for (LLaVA-1.5-7B)."""


def depths(layers: Sequence[int], depth: int, title: str) -> tuple[int, ...]:
    """Where stops of a 32-layer model lie in one of `depth` layers: the same share of the way.

    Rounded to the nearest layer (halves down), at least 1, each after the one before and with a
    layer left for each after it, so that in a shallow model the stops crowd together but never
    coincide. Raises ValueError where even that leaves one no layer of its own.
    """
    if len(layers) >= depth:
        raise ValueError(
            f"{title} needs a language model of more than {layers_word(len(layers))}, and this one "
            f"has {depth}. Choose a deeper model or another method."
        )
    places: list[int] = []
    for turn, layer in enumerate(layers):
        nearest = math.ceil(layer * depth / PAPER_DEPTH - 0.5)
        latest = depth - len(layers) + turn
        places.append(min(latest, max(nearest, places[-1] + 1 if places else 1)))
    return tuple(places)


def layers_word(count: int) -> str:
    """ "1 layer", "2 layers"."""
    return "1 layer" if count == 1 else f"{count} layers"


def left_after(n: int, depth: int, first: int, k: int) -> int:
    """How many of n tokens go on after `first` layers for an average of k over all layers.

    Rounded, so that the average is k up to half a token.
    """
    return round((depth * k - first * n) / (depth - first))


def solve_amount(
    n: int,
    depth: int,
    k: int,
    places: Sequence[int],
    counts: Callable[[float], Sequence[float]],
    most: float,
) -> float:
    """The amount from 0 to `most` that leaves an average of k over all layers.

    places: at which layers tokens leave. counts: an amount -> how many of n go on after each place,
    not yet rounded; the average grows with it.
    """
    spans = [b - a for a, b in pairwise((0, *places, depth))]
    low, high = 0.0, most
    for _ in range(60):
        amount = (low + high) / 2
        total = sum(s * c for s, c in zip(spans, (n, *counts(amount)), strict=True))
        low, high = (amount, high) if total < k * depth else (low, amount)
    return high
