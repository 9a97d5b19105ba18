"""PyramidDrop: in a few steps, keep a shrinking share of what the last token is about to look at.

Paper: arXiv 2410.17247. Released code: Cooperx521/PyramidDrop, modeling_llama_pdrop.py.

    score_i = mean over heads of the attention that the prompt's last token would pay to i in the
              layer that comes next (its own norm, query and key projections, rotary positions)

Before layers 8, 16 and 24 of 32, n lambda, n lambda^2 and n lambda^3 tokens go on, in raster order;
positions are packed together again. As released lambda is 0.5: an average of 270 of 576. For other
budgets lambda is the one that gives that average, rounded to whole tokens at each step. With these
layers a quarter of them always sees all tokens; for smaller budgets `early` steps at a quarter of
the depths, 2, 4 and 8, which no paper has tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spare_demo.pruners.base import setting
from spare_demo.pruners.inside.base import LayerPruner, most_attended, solve_amount
from spare_demo.pruners.plan import Choice, LayerReading, Stop

_LAYERS = {"released": (8, 16, 24), "early": (2, 4, 8)}


@dataclass(frozen=True)
class PyramidDrop(LayerPruner):
    """Positions of what goes on are packed, as in the code."""

    schedule: Literal["released", "early"] = setting(
        ("released", "early"),
        "Steps before",
        "released: layers 8, 16, 24 of 32. early: 2, 4, 8, for budgets below a quarter.",
    )

    name = "pyramiddrop"
    title = "PyramidDrop"
    summary = "In three steps, the tokens that the prompt's last token is about to attend to."
    paper = "PyramidDrop, CVPR 2025"
    link = "https://arxiv.org/abs/2410.17247"
    reads = ("attention of the prompt's last token, in the layer after",)
    cost = "a projection of the keys and one row of attention at each of 3 steps: O(n d²)"
    deviations = (
        "Released for shares of 1/2, 1/4 and 1/8 only; other budgets solve for the share. The "
        "schedule early is ours. Layers are scaled to the depth of the model."
    )
    repacks = True

    @property
    def stop_layers(self) -> tuple[int, ...]:  # type: ignore[override]
        return _LAYERS[self.schedule]

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        places = self.places(depth)

        def counts(share: float) -> list[float]:
            return [max(1.0, n * share**step) for step in (1, 2, 3)]

        solved = counts(solve_amount(n, depth, k, places, counts, 1.0))
        return tuple(Stop(place, round(count)) for place, count in zip(places, solved, strict=True))

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        return most_attended(reading, stop, ahead=True)
