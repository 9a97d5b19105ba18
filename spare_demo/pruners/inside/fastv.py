"""FastV: after a few layers, keep the visual tokens that the last token of the prompt looks at.

Paper: arXiv 2403.06764. Released code: pkunlp-icler/FastV, modelling of layer K and the variant
with a cache (fastv_kvcache.py), which selects once, in the prefill.

    score_i = mean over heads of the attention, in layer K-1, of the prompt's last token to i

Before layer K (from 0; 2 of 32) the R best go on, in raster order at their own positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spare_demo.pruners.base import setting
from spare_demo.pruners.plan import (
    PAPER_DEPTH,
    Choice,
    LayerPlan,
    LayerPruner,
    Reading,
    Stop,
    best,
    depths,
    left_after,
    lowest_average,
)


@dataclass(frozen=True)
class FastV(LayerPruner):
    """The research code keeps half after K = 2: an average of 306 of 576 over 32 layers."""

    layer: int = field(
        default=2,
        metadata=setting(
            "Layer K",
            "First layer with fewer tokens, of a model with 32 layers.",
            limits=(1, PAPER_DEPTH - 1),
        ),
    )
    counting: Literal["average", "rank"] = field(
        default="average",
        metadata=setting(
            "Budget counts",
            "average: over all layers. rank: the tokens after layer K, as many papers count.",
            ("average", "rank"),
        ),
    )

    name = "fastv"
    title = "FastV"
    summary = "After a few layers, the tokens that the prompt's last token attends to most."
    paper = "FastV, ECCV 2024"
    link = "https://arxiv.org/abs/2403.06764"
    looks_at = ("attention of the prompt's last token, in the layer before",)
    cost = "one row of attention: O(n d)"
    deviations = (
        "Chosen once, in the prefill, as the released variants with a cache do; the research code "
        "chooses again for every word. K is scaled to the depth of the model."
    )

    @property
    def counting_note(self) -> str:
        return "tokens after layer K only" if self.counting == "rank" else ""

    def lowest(self, n: int, depth: int) -> int:
        first = self._first(depth)
        return 1 if self.counting == "rank" else lowest_average(n, depth, first)

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        first = self._first(depth)
        return (Stop(first, k if self.counting == "rank" else left_after(n, depth, first, k)),)

    def counted(self, plan: LayerPlan) -> float:
        return float(plan.last) if self.counting == "rank" else plan.average

    def choose(self, reading: Reading, stop: Stop) -> Choice:
        last = len(reading.hidden) - 1
        scores = reading.attention([last])[:, 0].mean(dim=0)  # (T,)
        return Choice(best(scores[reading.visual], stop.keep))

    def _first(self, depth: int) -> int:
        return depths((self.layer,), depth, self.title)[0]
