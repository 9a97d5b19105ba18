"""Top-k by leverage: how much of its own each token puts into the main directions of the features.

Paper: Papailiopoulos, Kyrillidis and Boutsidis, arXiv 1404.1530, Algorithm 1.

    X = U S V^T      the features of a view, not centred
    l_n = sum_{i <= r} U_ni^2      0 to 1; all of them add up to r
    keep the k largest l_n, r = k

Two alike tokens share the leverage of their direction, but nothing tells the second from the
first: both are kept or neither. Tokens beyond the rank of the features follow by the same scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import largest
from spare_demo.pruners.cosines import gram_matrix, in_largest_units
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens

DECIMALS = 10
"""Scores are compared up to so many: what is below is rounding, and ties go to the lower index."""

RANK = 1e-12
"""A squared singular value below this share of the largest is none: float32 features leave that."""


@dataclass(frozen=True)
class Leverage(ViewPruner):
    """Gain: the leverage score, of rank k."""

    name = "leverage"
    title = "Leverage scores"
    summary = "The k tokens that weigh most in the k main directions, however alike they are."
    paper = "Deterministic leverage scores, KDD 2014"
    link = "https://arxiv.org/abs/1404.1530"
    group = "controls"
    cost = (
        "O(n² d + n³): all products of two rows and all n singular vectors, which is several "
        "times the cost of SPARE, since that makes only the products of rows it is about to pick"
    )
    deviations = (
        "The rank is the budget (of each view, its share), and at most that of the features."
    )

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        score = leverage_scores(tokens.features[view], share).round(decimals=DECIMALS)
        place = largest(score, share)
        return place, score[place]


def leverage_scores(features: Tensor, r: int) -> Tensor:
    """(n, d) -> (n,) float64 squared lengths of the rows of the first r left singular vectors, on
    the CPU.
    """
    squares, vectors = torch.linalg.eigh(gram_matrix(in_largest_units(features)))  # ascending
    first = max(len(squares) - r, int((squares <= RANK * squares[-1]).sum()))
    return vectors[:, first:].square().sum(dim=1)
