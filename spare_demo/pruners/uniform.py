"""Uniform: the centre points of a gh x gw grid laid over the picture, the control without content.

gh x gw >= k cells as square as possible; cell (i, j) keeps the token in its centre, row
floor((i + 0.5) rows / gh), column floor((j + 0.5) columns / gw); the gh gw - k extra cells are
dropped evenly. A plain stride over the raster would alias into columns instead.

The n tokens of a view are taken as the `rectangle` of `views.py`. Not nested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.views import ViewPruner, rectangle
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class Uniform(ViewPruner):
    """There is no gain, and the order is the raster's, view after view."""

    name = "uniform"
    title = "Uniform grid"
    summary = "Evenly spaced tokens, whatever the picture shows."
    reads_features = False
    cost = "O(k)"

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, None]:
        return grid_points(len(view), share), None


def grid_points(n: int, k: int) -> Tensor:
    """(k,) distinct places among n, ascending."""
    rows, columns = rectangle(n)
    gh = min(rows, max(1, round(math.sqrt(k * rows / columns))))
    gw = min(columns, math.ceil(k / gh))
    gh = max(gh, math.ceil(k / gw))  # where the picture is too narrow for that many columns
    points = (centres(rows, gh)[:, None] * columns + centres(columns, gw)).flatten()  # (gh gw,)
    return points[centres(len(points), k)]


def centres(n: int, k: int) -> Tensor:
    """(k,) floor((i + 0.5) n / k), the middles of k equal parts of n places.

    In whole numbers: floats would be of PyTorch's default format, which transformers sets to half
    precision for all threads while it makes a model.
    """
    return (2 * torch.arange(k) + 1) * n // (2 * k)
