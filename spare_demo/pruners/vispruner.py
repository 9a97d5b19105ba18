"""VisPruner: half by the class token's attention, half by thinning what is alike; and FasterVLM.

Paper: arXiv 2412.01818. Released code: Theia-4869/VisPruner, llava_arch.py. States h and attention
a (mean over the heads) are of the block whose output LLaVA reads, the last but one.

    important  the floor(k * share) tokens of the largest a
    diverse    the others in order of falling a, thinned in rounds until k are left in all: of the
               list, each token at an even place is scored by its largest cosine to those at odd
               places; the r = min(8, too many) of the highest score are dropped; the other even
               ones, by falling score, and then the odd ones are the list of the next round

With a share of 1 it is FasterVLM, the paper's first version: attention alone, as released in
Theia-4869/FasterVLM, llava_arch.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import Pruner, by_setting, largest, setting
from spare_demo.pruners.spread import cosine_distances
from spare_demo.pruners.views import pick_by_view
from spare_demo.tokens import Selection, VisualTokens

_PER_ROUND = 8
_FORMS = {  # attention_only: name, title, paper, summary, needs, cost, deviations
    True: (
        "fastervlm",
        "FasterVLM",
        "FasterVLM",
        "The tokens that the class token attends to most, however alike they are.",
        frozenset({"cls_attention"}),
        "O(n)",
        "Attention in float32 instead of half precision.",
    ),
    False: (
        "vispruner",
        "VisPruner",
        "VisPruner, ICCV 2025",
        "Tokens the class token attends to, and of the others those unlike each other.",
        frozenset({"cls_attention", "states"}),
        "O(n² w + n³)",
        "float64 instead of half precision. The code thins a list by halves and fails where its "
        "length is odd, as for half of an odd budget; here the half of the even places then has "
        "one more.",
    ),
}


@dataclass(frozen=True)
class VisPruner(Pruner):
    """Gain: the class token's attention; the important tokens come first."""

    important: float = setting(
        0.5,
        "Share by attention",
        "Of the budget; the rest are tokens unlike each other. 1 is FasterVLM.",
        limits=(0.0, 1.0),
    )

    name, title, paper, summary, needs, cost, deviations = by_setting("attention_only", _FORMS)
    link = "https://arxiv.org/abs/2412.01818"
    blocks = (-2,)
    acts = "before the projector"
    reads_features = False

    @property
    def attention_only(self) -> bool:
        """Whether nothing but attention decides: FasterVLM."""
        return self.important == 1

    nested = attention_only

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        assert tokens.cls_attention is not None  # needs
        attention = tokens.cls_attention(self.blocks[0]).cpu().double().mean(dim=0)  # (n,)

        def pick(view: Tensor, share: int) -> tuple[Tensor, Tensor]:
            a = attention[view]
            important = int(share * self.important)
            ranked = largest(a, len(view))
            place = ranked[:important]
            if share > important:
                assert tokens.states is not None  # needs
                diverse = ranked[important:]
                cosines = (1 - cosine_distances(tokens.states[view[diverse]])).cpu()
                place = torch.cat([place, diverse[_thin(cosines, share - important)]])
            return place, a[place]

        return pick_by_view(tokens, k, pick)


def _thin(cosines: Tensor, count: int) -> Tensor:
    """(m, m) cosines of a list of tokens -> (count,) the places that its rounds leave, in order."""
    left = torch.arange(len(cosines))
    while (too_many := len(left) - count) > 0:
        even, odd = left[::2], left[1::2]
        score = cosines[even][:, odd].amax(dim=1)
        dropped = min(_PER_ROUND, too_many)
        left = torch.cat([even[largest(score, len(even))[dropped:]], odd])
    return left
