"""HiPrune: tokens attended to in an early block with their neighbours, then those in a late one.

Paper: arXiv 2508.00553. Released code: Danielement321/HiPrune, LLaVA/llava/model/llava_arch.py.
The attention that a token gets is the mean over the heads and over all queries, not only the class
token's.

    anchors     the round(alpha k / 5) tokens that get most in block 9 of 24
    buffer      of each anchor, the tokens before and after it in raster order and those a row above
                and below; beyond the first or last token it is that one
    registers   the others that get most in the last block but one, until k are kept

As released, neighbours are steps in raster order, so that they go on in the next row at the edge
of the picture, and tokens named twice are counted once. round(0.5) is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import Pruner, largest, setting
from spare_demo.pruners.views import rectangle, view_shares, views_of
from spare_demo.tokens import Selection, VisualTokens

_GROUP = 5  # an anchor and its four neighbours


@dataclass(frozen=True)
class HiPrune(Pruner):
    """Gain: the attention that the token gets, of a register in the late block, else the early."""

    alpha: float = setting(
        0.1,
        "Share of anchors",
        "Of the budget, with their neighbours; the rest get attention in a late block.",
        limits=(0.0, 1.0),
    )

    name = "hiprune"
    title = "HiPrune"
    summary = (
        "A few tokens that get attention in an early block, with their neighbours, and those that "
        "get it in a late one."
    )
    paper = "HiPrune"
    link = "https://arxiv.org/abs/2508.00553"
    acts = "before the projector"
    reads_features = False
    needs = frozenset({"attention_received"})
    blocks = (9, -2)
    cost = "O(n² w)"
    deviations = (
        "Attention in float32 instead of half precision. A tower of another depth is read at the "
        "same share of the way. A row is as long as the view's; where a view is cut to its "
        "picture, as long as in the most nearly square view of so many tokens. Anchors that would "
        "not fit into the budget with their neighbours are left out, where the code fails."
    )

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        assert tokens.attention_received is not None  # needs
        early, late = (tokens.attention_received(b).cpu().double() for b in self.blocks)  # (n,)
        neighbours = _neighbours(tokens)
        order, gain = [], []
        for view, share in view_shares(tokens, k):
            count = min(round(share * self.alpha / _GROUP), share // _GROUP)
            anchors = view[largest(early[view], count)]
            named = torch.cat([anchors, neighbours[:, anchors].flatten()]).tolist()
            first = torch.tensor(list(dict.fromkeys(named)), dtype=torch.long)  # each once
            rest = view[~torch.isin(view, first)]
            registers = rest[largest(late[rest], share - len(first))]
            order += [first, registers]
            gain += [early[first], late[registers]]
        return Selection(torch.cat(order), torch.cat(gain))


def _neighbours(tokens: VisualTokens) -> Tensor:
    """(4, n) of each token those before, after, above and below it in its view."""
    around = torch.empty(4, tokens.n, dtype=torch.long)
    for view in views_of(tokens):
        _, columns = rectangle(len(view))
        steps = torch.tensor([-1, 1, -columns, columns])
        places = torch.arange(len(view)) + steps[:, None]
        around[:, view] = view[places.clamp(0, len(view) - 1)]
    return around
