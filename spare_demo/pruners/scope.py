"""SCOPE: tokens that the class token attends to and that cover what the picked ones do not.

Paper: arXiv 2510.24214. Released code: kinredon/SCOPE, scope/clip_encoder.py. States h and
attention are of the block whose output LLaVA reads, the last but one.

    a_i   attention of the class token, summed over the heads
    m_j   max over the picked i of cos(h_j, h_i), 0 at first: how well token j is covered
    pick  argmax_i  a_i^alpha sum_j max(0, cos(h_j, h_i) - m_j)    until k are picked

alpha is 1 in the released scripts; 0 leaves coverage alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from spare_demo.pruners.base import setting
from spare_demo.pruners.spread import cover_greedily
from spare_demo.pruners.views import ViewPruner
from spare_demo.relevance import raw_cosine
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class Scope(ViewPruner):
    """Gain: a_i^alpha times what the token adds to the coverage."""

    alpha: float = setting(
        1.0,
        "Power of attention",
        "How much the class token's attention counts next to coverage; 0 is coverage alone.",
        limits=(0.0, 8.0),
    )

    name = "scope"
    title = "SCOPE"
    summary = "Tokens the class token attends to, as long as they are like many not covered yet."
    paper = "SCOPE, NeurIPS 2025"
    nested = True
    link = "https://arxiv.org/abs/2510.24214"
    acts = "before the projector"
    reads_features = False
    needs = frozenset({"states", "cls_attention"})
    blocks = (-2,)
    cost = "O(n² w + n² k)"
    deviations = (
        "float64 instead of half precision. Several views share the whole budget; the code leaves "
        "the remainder of the division unspent."
    )

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        assert tokens.states is not None and tokens.cls_attention is not None  # needs
        attention = tokens.cls_attention(self.blocks[0]).cpu().double().sum(dim=0)[view]  # (s,)
        states = tokens.states[view]
        cosines = raw_cosine(states, states).cpu()  # (s, s)
        return cover_greedily(cosines, attention**self.alpha, share)
