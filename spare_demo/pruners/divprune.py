"""DivPrune: keep tokens that lie far from each other (max-min diversity).

Paper: arXiv 2503.02175. Released code: vbdi/divprune, llava_arch.py.

    d_ij = 1 - cos(x_i, x_j)
    first      argmax_i  min_{j != i} d_ij      the token whose nearest neighbour is farthest
    then       argmax_i  min_{j picked} d_ij    until k are picked
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import setting
from spare_demo.pruners.spread import cosine_distances, euclidean_distances, farthest_first
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class DivPrune(ViewPruner):
    """Gain: the distance to the nearest picked token; of the first pick, to its neighbour."""

    metric: Literal["cosine", "euclidean"] = setting(
        ("cosine", "euclidean"),
        "Distance",
        "cosine: 1 - cos, as in the paper. euclidean: a variant of ours, where length counts; "
        "in shares of the largest distance.",
    )

    name = "divprune"
    title = "DivPrune"
    summary = "Tokens as far from each other as can be; the question plays no part."
    paper = "DivPrune"
    nested = True
    link = "https://arxiv.org/abs/2503.02175"
    cost = "O(n² d + n k)"
    deviations = (
        "Exact distances instead of half precision, and no token twice; each view has its share "
        "of the budget. Where recorded picks differ, 34 to 97 % are the same."
    )

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        distances = cosine_distances if self.metric == "cosine" else euclidean_distances
        distance = distances(tokens.features[view])
        neighbour = distance.clone().fill_diagonal_(torch.inf).amin(dim=1)
        first = neighbour.masked_fill(neighbour.isinf(), 0.0)  # of one token alone
        return farthest_first(distance, torch.ones_like(first), first, share)
