"""Top-k by length: the control that shows what magnitude alone is worth.

SPARE (arXiv 2606.18681) multiplies the squared length of a token by how new its direction is and by
a weight from the question. Here the length alone ranks; squaring it would change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import largest
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class Magnitude(ViewPruner):
    """Gain: the length ||x||."""

    name = "magnitude"
    title = "Longest tokens"
    summary = "The k tokens with the largest norm, however alike they are."
    group = "controls"
    nested = True
    cost = "O(n d)"

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        length = torch.linalg.vector_norm(tokens.features[view].detach().double(), dim=1).cpu()
        place = largest(length, share)
        return place, length[place]
