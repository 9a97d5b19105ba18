"""HoloV: every stretch of the picture gets a share of the budget, so that none is left out.

Paper: arXiv 2510.02912. Released code: obananas/HoloV, llava/model/utils.py.

The tokens are cut in raster order into 16 runs, which of 24 x 24 tokens are one and a half rows
each, not squares. a is the class token's attention, mean over heads, in the last block but one.

    v_i    of token i: mean square of (s_ij - mean of s_ij) over the run, s_ij the cosine of two
           projected tokens, 0 for j = i; both means divide by the number of other tokens
    score  of a run: mean over its tokens of 1000 a_i + 0.09 v_i (mean 1000 a) / (mean v + 1e-6)
    share  floor(k score / sum of scores); what that leaves goes to the best runs, one each
    keep   in each run the tokens with the largest a

The mean over a run undoes the rescaling: score is 1.09 times the mean of 1000 a, unless the mean of
v is as small as 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import largest
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens

_RUNS = 16
_ATTENTION_SCALE = 1000.0
_VARIANCE_SHARE = 0.09
_EPSILON = 1e-6


@dataclass(frozen=True)
class HoloV(ViewPruner):
    """Gain: the class token's attention, mean over heads."""

    name = "holov"
    title = "HoloV"
    summary = "In each of 16 runs of tokens, some of those the class token attends to most."
    paper = "HoloV, NeurIPS 2025"
    link = "https://arxiv.org/abs/2510.02912"
    needs = frozenset({"cls_attention"})
    blocks = (-2,)
    cost = "O(n² d / m), m runs"
    deviations = (
        "As released, runs are not squares, and similarity hardly counts: its term is rescaled to "
        "the run's attention before the mean. Where a run's share is more than its tokens, the "
        "code fills up with zero vectors; here the best tokens left are kept. Tokens go on in "
        "raster order, in the code by attention within a run. Each of several views is cut into "
        "runs by itself; the code cuts all of them as one."
    )

    def _pick(self, tokens: VisualTokens, view: Tensor, count: int) -> tuple[Tensor, Tensor]:
        assert tokens.cls_attention is not None  # needs
        attention = tokens.cls_attention(self.blocks[0]).cpu().double().mean(dim=0)  # (n,)
        a = attention[view]
        runs = [run for run in torch.arange(len(view)).tensor_split(_RUNS) if len(run)]
        longer = len(view) % _RUNS  # the first runs have a token more
        scores = [
            run_scores(tokens.features[view[places]].cpu(), a[places])
            for places in map(torch.stack, filter(None, (runs[:longer], runs[longer:])))
        ]
        kept = [
            run[largest(a[run], share)]
            for run, share in zip(runs, run_shares(torch.cat(scores), count), strict=True)
        ]
        place = torch.cat(kept)
        left = a.index_fill(0, place, -torch.inf)
        place = torch.cat([place, largest(left, count - len(place))])
        return place, a[place]


def run_scores(features: Tensor, attention: Tensor) -> Tensor:
    """(r,) float64, what each run's share of the budget follows.

    features: (r, s, d) projected tokens of r runs. attention: (r, s) float64, the class token's.
    A run of one token is scored by its attention unscaled, as released.
    """
    others = attention.shape[1] - 1
    if others == 0:
        return attention[:, 0]
    rows = features.double()
    rows = rows / (torch.linalg.vector_norm(rows, dim=-1, keepdim=True) + _EPSILON)
    alike = rows @ rows.mT
    alike.diagonal(dim1=1, dim2=2).zero_()
    mean = alike.sum(dim=-1, keepdim=True) / others
    variance = (alike - mean).square().sum(dim=-1) / others  # (r, s)
    scaled = _ATTENTION_SCALE * attention
    factor = scaled.mean(dim=-1) / (variance.mean(dim=-1) + _EPSILON)  # (r,)
    return (scaled + _VARIANCE_SHARE * factor[:, None] * variance).mean(dim=-1)


def run_shares(scores: Tensor, k: int) -> list[int]:
    """How many of k tokens each run gets: in proportion to (r,) scores, the rest to the best."""
    shares = (scores / (scores.sum() + _EPSILON) * k).long()
    shares[largest(scores, k - int(shares.sum()))] += 1
    return shares.tolist()
