"""Farthest points of the grid: the control that knows where tokens lie and nothing else.

    first      the token nearest to the middle of its view
    then       argmax_n  min_{j picked} ||p_n - p_j||      p: row and column

A greedy method whose picks are no better than these gains nothing by reading features. Unlike the
uniform grid its budgets are nested. The n tokens of a view are taken as for that grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.spread import euclidean_distances, farthest_first
from spare_demo.pruners.views import ViewPruner, rectangle
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class SpatialFarthest(ViewPruner):
    """Gain: the distance to the nearest picked token, as a share of the longest in the view; of
    the first pick, the distance to the middle, negative.
    """

    name = "spatial-farthest"
    title = "Farthest points"
    summary = "Tokens as far from each other on the picture as can be, whatever it shows."
    reads_features = False
    nested = True
    cost = "O(n² + n k)"

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        rows, columns = rectangle(len(view))
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).double()
        middle = torch.tensor([(rows - 1) / 2, (columns - 1) / 2], dtype=torch.float64)
        diagonal = max(1.0, float(torch.linalg.vector_norm(2 * middle)))
        first = -torch.linalg.vector_norm(places - middle, dim=1) / diagonal
        distance = euclidean_distances(places)
        return farthest_first(distance, torch.ones_like(first), first, share)
