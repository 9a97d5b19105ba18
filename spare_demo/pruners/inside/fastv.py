"""FastV: after a few layers, keep the visual tokens that the last token of the prompt looks at.

Paper: arXiv 2403.06764. Released code: pkunlp-icler/FastV, modelling of layer K and the variant
with a cache (fastv_kvcache.py), which selects once, in the prefill.

    score_i = mean over heads of the attention, in layer K-1, of the prompt's last token to i

Before layer K (from 0; 2 of 32) the R best go on, in raster order at their own positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spare_demo.pruners.base import setting
from spare_demo.pruners.inside.base import OneStop, most_attended
from spare_demo.pruners.plan import Choice, LayerReading, Stop


@dataclass(frozen=True)
class FastV(OneStop):
    """The research code keeps half after K = 2: an average of 306 of 576 over 32 layers."""

    counting: Literal["average", "rank"] = setting(
        ("average", "rank"),
        "Budget counts",
        "average: over all layers. rank: the tokens after layer K, as many papers count.",
    )

    name = "fastv"
    title = "FastV"
    summary = "After a few layers, the tokens that the prompt's last token attends to most."
    paper = "FastV, ECCV 2024"
    link = "https://arxiv.org/abs/2403.06764"
    reads = ("attention of the prompt's last token, in the layer before",)
    cost = "one row of attention: O(n d)"
    deviations = (
        "Chosen once, in the prefill, as the released variants with a cache do; the research code "
        "chooses again for every word. K is scaled to the depth of the model. The budget is the "
        "average over layers; with counting=rank the tokens after K, as released."
    )

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        return most_attended(reading, stop)
