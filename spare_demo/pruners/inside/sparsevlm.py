"""SparseVLM: in three steps, keep what the words that matter look at, and merge some of the rest.

Paper: arXiv 2410.04417. Released code: Gumpest/SparseVLMs, branch v1.5, and main (v2.0, which its
authors call SparseVLM+).

    raters   the text tokens j after the picture with r_j above the mean of r, where
             r = mean over visual tokens of softmax over text tokens of V T^T (inputs, unscaled)
    score_i  mean over heads and raters of their attention to i, in the layer that just ran
    v1.5     of the tokens dropped at a step the best 30 % are clustered (DPC-kNN), and the mean of
             each cluster goes on after the kept ones; positions are packed together again
    v2.0     attention is first divided by what rotation alone makes of two vectors of ones; only
             the heads with most of it from raters to picture count; nothing is merged, positions
             stay

It acts on the outputs of layers 2, 6 and 15 (from 0, of 32). How many tokens stay was written down
by the authors for 576 tokens and budgets of 192, 128, 96 and 64; the paper's own rule, the rank of
an attention matrix, is not in that code. For any other budget, picture or depth: the shares of the
two neighbouring lists, mixed so that the average comes out, none below 1 token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import by_setting, largest, setting
from spare_demo.pruners.inside.base import PAPER_DEPTH, LayerPruner
from spare_demo.pruners.plan import Choice, LayerPlan, LayerReading, Stop
from spare_demo.tokens import where_float64_is

_PAPER_TOKENS = 576
_HEADS = 14  # that are listened to, or half of fewer than 28

_KEPT: dict[str, dict[int, tuple[int, int, int]]] = {  # version: budget: kept after each output
    "1.5": {64: (66, 30, 17), 96: (238, 48, 26), 128: (303, 110, 36), 192: (300, 200, 110)},
    "2.0": {64: (66, 34, 20), 96: (246, 54, 28), 128: (238, 108, 60), 192: (300, 200, 118)},
}
# Where the mixing begins and ends: nothing after layer 2 (two layers full of 32), and everything.
_NONE, _ALL = 36, _PAPER_TOKENS

_READS = ("attention of some words, in the layer before", "features")
_DEVIATIONS = (
    "Fixed numbers of tokens as in the code, not the paper's ranks; for other budgets, numbers "
    "between those of the code. {} Layers are scaled to the depth of the model."
)
_VERSIONS = {  # version: name, title, summary, reads, cost, deviations, merges, repacks
    "1.5": (
        "sparsevlm",
        "SparseVLM",
        "In three steps, the tokens that relevant words attend to; some others merged.",
        (*_READS, "states of dropped tokens"),
        "attention of m words, distances of r tokens at each of 3 steps: O((m n + r²) d)",
        _DEVIATIONS.format(
            "Logarithms of densities, which underflow in the code; no random noise to break ties. "
            "Where all underflow, 13 % of the pairs that the code merges are merged here."
        ),
        True,
        True,
    ),
    "2.0": (
        "sparsevlm-plus",
        "SparseVLM+",
        "In three steps, the tokens that relevant words attend to in the heads that do so most.",
        _READS,
        "attention of m words at each of 3 steps: O(m n d)",
        _DEVIATIONS.format("Half of the heads, where there are fewer than 28, in place of 14."),
        False,
        False,
    ),
}


@dataclass(frozen=True)
class SparseVLM(LayerPruner):
    """Text tokens vote on visual ones inside the language model."""

    version: Literal["1.5", "2.0"] = setting(
        ("1.5", "2.0"),
        "Version",
        "1.5: merges some dropped tokens, packs positions. 2.0: corrected attention of the "
        "best heads, no merging, positions stay.",
    )

    name, title, summary, reads, cost, deviations, merges, repacks = by_setting(
        "version", _VERSIONS
    )
    paper = "SparseVLM, ICML 2025"
    link = "https://arxiv.org/abs/2410.04417"
    stop_layers = (3, 7, 16)
    counting_note = "a layer counts as pruned once its output is"

    def lowest(self, n: int, depth: int) -> int:
        least = self._schedule(_NONE, n, depth)
        return math.ceil(self.counted(LayerPlan(self, n, depth, n, least)))

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        if (n, depth) == (_PAPER_TOKENS, PAPER_DEPTH) and k in _KEPT[self.version]:
            return self._schedule(k, n, depth)

        def average(nominal: float) -> float:
            schedule = self._schedule(nominal, n, depth)
            return self.counted(LayerPlan(self, n, depth, k, schedule))

        low, high = float(_NONE), float(_ALL)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if average(middle) < k else (low, middle)
        return self._schedule(min(low, high, key=lambda at: abs(average(at) - k)), n, depth)

    def counted(self, plan: LayerPlan) -> float:
        """A layer whose output is pruned counts as pruned itself."""
        early = tuple(Stop(s.layer - 1, s.keep, s.merged) for s in plan.stops)
        return LayerPlan(self, plan.n, plan.depth, plan.budget, early).average

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        votes = raters(reading.image_inputs, reading.text_inputs)
        rows = [reading.text.start + j for j in votes]
        weights = reading.attention(rows)  # (heads, raters, T)
        if self.version == "2.0":
            weights = weights / ones_rotated(reading.cos, reading.sin, rows)
        weights = weights[:, :, reading.visual]  # (heads, raters, v)
        if self.version == "2.0":
            count = min(_HEADS, math.ceil(len(weights) / 2))
            weights = weights[largest(weights.sum(dim=(1, 2)), count)]
        scores = weights.mean(dim=0).mean(dim=0)  # (v,)
        kept = largest(scores, stop.keep)
        if not stop.merged:
            return Choice(kept)
        dropped = torch.ones_like(scores, dtype=torch.bool)
        dropped[kept] = False
        left = dropped.nonzero().flatten()
        again = left[largest(scores[left], _recycled(len(left)))]
        shares = cluster(reading.hidden[reading.visual][again], stop.merged)
        merge = shares.new_zeros(len(shares), len(scores))
        merge[:, again] = shares
        return Choice(kept, merge)

    def _schedule(self, nominal: float, n: int, depth: int) -> tuple[Stop, ...]:
        """The stops at a point between the authors' lists, as if for 576 tokens and 32 layers."""
        stops, left = [], n
        for place, share in zip(self.places(depth), _shares(self.version, nominal), strict=True):
            keep = max(1, round(share * n))
            if keep >= left:
                continue
            merged = _clusters(_recycled(left - keep)) if self.version == "1.5" else 0
            stops.append(Stop(place, keep, merged))
            left = keep + merged
        return tuple(stops)


def _shares(version: str, nominal: float) -> list[float]:
    """The share of all tokens kept at each step, between the lists on both sides."""
    lists = {_NONE: (0, 0, 0), **_KEPT[version], _ALL: (_ALL, _ALL, _ALL)}
    for low, high in pairwise(lists):
        if nominal <= high:
            t = (nominal - low) / (high - low)
            steps = zip(lists[low], lists[high], strict=True)
            return [((1 - t) * a + t * b) / _PAPER_TOKENS for a, b in steps]
    raise AssertionError("a nominal budget is at most all tokens")


def _recycled(dropped: int) -> int:
    """How many of the dropped tokens are merged rather than lost."""
    return min(dropped, int(dropped * 0.3) + 1)


def _clusters(recycled: int) -> int:
    """Into how many rows they are merged."""
    return int(recycled / 10) + 1


def raters(image: Tensor, text: Tensor) -> list[int]:
    """Which text tokens vote: those that visual tokens resemble more than they do the average one.

    image: (n, d), text: (m, d), both as the language model first gets them. All of the text, where
    none stands out.
    """
    relevance = (image.float() @ text.float().T).softmax(dim=1).mean(dim=0)  # (m,)
    votes = (relevance > relevance.mean()).nonzero().flatten().tolist()
    return votes or list(range(len(text)))


def ones_rotated(cos: Tensor, sin: Tensor, rows: list[int]) -> Tensor:
    """(len(rows), T) scaled attention scores if all queries and keys were vectors of ones.

    cos, sin: (T, h) rotary factors, whose halves belong together as in Llama.
    """
    cos, sin, half = cos.float(), sin.float(), cos.shape[1] // 2
    rotated = torch.cat([cos[:, :half] - sin[:, :half], cos[:, half:] + sin[:, half:]], dim=1)
    return rotated[rows] @ rotated.T / math.sqrt(cos.shape[1])


def cluster(states: Tensor, count: int) -> Tensor:
    """Density-peak clustering -> (count, s) shares of s states in the mean of each cluster.

    states: (s, d), any float dtype. Density falls with the mean squared distance to the `count`
    nearest, itself included; centres are the densest states far from any denser one; the rest join
    the nearest. Returned in float32 on the device of `states`.

    Of equal densities the lower index is the denser one; the code adds noise. They are compared by
    their logarithms: states whose mean squared distances are above 745 have density exp(-distance)
    = 0 even in float64, and the first of them would all be centres.
    """
    rows = where_float64_is(states).double()
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distance / math.sqrt(rows.shape[1])
    nearest = distance.sort(dim=1).values[:, :count]
    log_density = -nearest.square().mean(dim=1)  # (s,)
    index = torch.arange(len(rows), device=rows.device)
    ties = (log_density[None] == log_density[:, None]) & (index[None] < index[:, None])
    denser = (log_density[None] > log_density[:, None]) | ties  # (s, s) whether the column is
    gap = distance.masked_fill(~denser, float(distance.max())).amin(dim=1)
    centres = largest(gap.log() + log_density, count)
    member = distance[centres].argmin(dim=0)  # (s,) which centre is nearest
    member[centres] = torch.arange(count, device=rows.device)
    members = torch.nn.functional.one_hot(member, count).T.float()  # (count, s)
    return (members / (members.sum(dim=1, keepdim=True) + 1e-6)).to(states.device)
