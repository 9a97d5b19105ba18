"""Top-k by the text alone: the control without any notion of redundancy.

Paper: SPARE, arXiv 2606.18681, Fig. 3: keep the k tokens with the lowest (anti) or highest
(normal) mean cosine to the question. A monotone squash of the score would change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from spare_demo.pruners.base import by_setting, largest, setting
from spare_demo.pruners.views import ViewPruner
from spare_demo.relevance import aggregate, raw_cosine
from spare_demo.tokens import VisualTokens

_FORMS = {  # guidance: name, title, summary
    "anti": (
        "anti-relevance",
        "Lowest relevance",
        "The k tokens least like the question, however alike they are.",
    ),
    "normal": (
        "normal-relevance",
        "Highest relevance",
        "The k tokens most like the question, however alike they are.",
    ),
}


@dataclass(frozen=True)
class TopRelevance(ViewPruner):
    """Gain: the score itself, minus or plus the mean raw cosine, so it may be negative."""

    guidance: Literal["anti", "normal"] = setting(
        ("anti", "normal"),
        "Text guidance",
        "anti keeps the tokens least like the question, normal those most like it.",
    )

    name, title, summary = by_setting("guidance", _FORMS)
    paper = "SPARE, Figure 3"
    link = "https://arxiv.org/abs/2606.18681"
    needs_text = True
    nested = True
    reads_features = False
    cost = "O(n c)"

    def weight(self, tokens: VisualTokens) -> Tensor:
        """(n,) the score that is ranked: the mean raw cosine, negated for anti."""
        relevance = aggregate(raw_cosine(*tokens.image_and_text()))
        return -relevance if self.guidance == "anti" else relevance

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        score = self.weight(tokens).cpu()[view]
        # A product with one text piece rounds equal rows differently, by their place.
        place = largest(score.round(decimals=12), share)
        return place, score[place]
