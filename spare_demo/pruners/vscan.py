"""VScan, its stage before the language model: local and global attention, and averages of the rest.

Paper: arXiv 2505.22654. Released code: Tencent/SelfEvolvingAgent, VScan/llava/model/llava_arch.py.
Of k tokens, a the class token's attention, mean over heads:

    local    floor(floor(k / 2) / 16) in each of 4 x 4 windows (6 x 6 of 24 x 24 tokens), by the
             largest a of block 6 (of 24)
    global   the rest, by the largest a of the last block but one among those not picked yet
    merge    every other token joins the kept one whose features have the largest cosine to its own;
             a kept token becomes the plain mean of itself and those that joined it

Merging is after the projector. The whole method prunes again inside the language model
(`inside/vscan.py`); here a budget counts what enters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import largest
from spare_demo.pruners.merging import MergingPruner
from spare_demo.pruners.views import view_shares
from spare_demo.relevance import raw_cosine
from spare_demo.tokens import Selection, VisualTokens

_WINDOWS = 4  # along each side


@dataclass(frozen=True)
class VScan(MergingPruner):
    """Gain: the attention of the block that a token was picked by."""

    name = "vscan"
    title = "VScan, vision stage"
    summary = (
        "Tokens the class token attends to, half of them by windows in an early block; the rest "
        "averaged in."
    )
    paper = "VScan, TMLR 2026"
    link = "https://arxiv.org/abs/2505.22654"
    needs = frozenset({"cls_attention"})
    blocks = (6, -2)
    cost = "O(n k d)"
    deviations = (
        "The stage inside the language model is left out; vscan-whole has it. Read from a "
        "description of the released code; that tokens join by the cosine of their features is our "
        "reading. Below 32 tokens a view's windows get none. Block 6 is scaled to the depth of the "
        "tower, and windows to views of other sizes; each view is scanned by itself."
    )

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        assert tokens.cls_attention is not None  # needs
        early, late = (tokens.cls_attention(b).cpu().double().mean(dim=0) for b in self.blocks)
        order, gain, homes = [], [], torch.empty(tokens.n, dtype=torch.long)
        for view, share in view_shares(tokens, k):
            if not share:
                homes[view] = -1
                continue
            place, value = scan(early[view], late[view], share)
            order.append(view[place])
            gain.append(value)
            homes[view] = view[nearest(tokens.features[view], place)]
        picks = torch.cat(order)
        kept = picks.sort().values
        sources = (homes[None] == kept[:, None]).float()  # (k, n)
        weights = (sources / sources.sum(dim=1, keepdim=True)).to(tokens.features.device)
        # Of a token that none joined this is the token itself, exactly.
        rows = weights.double() @ tokens.features.detach().double()
        return Selection(picks, torch.cat(gain), rows.to(tokens.features.dtype), sources)


def scan(early: Tensor, late: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(k,) places of the tokens kept of one view, and the attention each was picked by.

    early, late: (s,) the class token's attention in the two blocks; s tokens fill a square, row by
    row, as far as they go.
    """
    side = math.ceil(math.sqrt(len(early)))
    place = torch.arange(len(early))
    window = (place // side * _WINDOWS // side) * _WINDOWS + place % side * _WINDOWS // side
    quota = k // 2 // _WINDOWS**2
    windows = [(window == w).nonzero().flatten() for w in range(_WINDOWS**2)]
    local = torch.cat([inside[largest(early[inside], quota)] for inside in windows])
    left = late.index_fill(0, local, -torch.inf)
    best = largest(left, k - len(local))
    return torch.cat([local, best]), torch.cat([early[local], late[best]])


def nearest(features: Tensor, kept: Tensor) -> Tensor:
    """(s,) CPU, the place of the kept token most like each of (s, d) tokens; of a kept one its own.

    kept: (k,) places. Cosines; of equal ones the lowest place.
    """
    kept = kept.sort().values
    alike = raw_cosine(features, features[kept.to(features.device)]).cpu()  # (s, k)
    home = kept[alike.argmax(dim=1)]  # the first of equals
    home[kept] = kept
    return home
