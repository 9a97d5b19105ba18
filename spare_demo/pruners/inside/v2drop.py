"""V2Drop: in three steps, keep the visual tokens that the layer before changed most.

Paper: arXiv 2509.01552. Released code: xuyang-liu16/V2Drop, llava/model/language_model/V2Drop.py.

    score_i = || h_i - h'_i ||     h: what the next layer gets, h': what the last one got

Before layers 3, 17 and 22 of 32 (from 0) a half, half of those, and 1 token go on, in raster order
at their own positions; the code writes 0 for the last share and keeps at least 1. That is an
average of 203 of 576. For another budget both halves become the share that gives that average. If
all tokens before layer 22 and 1 after it are still too few, more than 1 go on after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spare_demo.pruners.base import largest
from spare_demo.pruners.inside.base import LayerPruner, solve_amount
from spare_demo.pruners.plan import Choice, LayerReading, Stop


@dataclass(frozen=True)
class V2Drop(LayerPruner):
    """Reads no attention."""

    name = "v2drop"
    title = "V2Drop"
    summary = "In three steps, the tokens that the layer before changed most."
    paper = "V2Drop, CVPR 2026"
    link = "https://arxiv.org/abs/2509.01552"
    reads = ("states before and after the last layer",)
    cost = "distances of n tokens at each of 3 steps: O(n d)"
    deviations = (
        "Released for shares of 1/2, 1/4 and 1 token only, an average of 203 of 576; other budgets "
        "solve for the share. Layers are scaled to the depth of the model."
    )
    stop_layers = (3, 17, 22)

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        places = self.places(depth)

        def counts(amount: float) -> tuple[float, float, float]:
            """Up to 1 the share kept at the first two steps; what is above 1 is the last one's."""
            share = min(amount, 1.0)
            return max(1.0, n * share), max(1.0, n * share**2), max(1.0, n * (amount - 1))

        solved = counts(solve_amount(n, depth, k, places, counts, 2.0))
        stops, left = [], n
        for place, count in zip(places, map(round, solved), strict=True):
            if count < left:
                stops.append(Stop(place, count))
                left = count
        return tuple(stops)

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        visual = reading.visual
        change = reading.hidden[visual].float() - reading.before[visual].float()
        return Choice(largest(torch.linalg.vector_norm(change, dim=-1), stop.keep))
