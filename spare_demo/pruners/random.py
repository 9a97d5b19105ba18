"""Random: k tokens without replacement, the control that every method has to beat.

One permutation of all n tokens per seed; a budget keeps its first k (of each view, in turn), so
that budgets are nested. A single seed says little: show the spread over several
(`measures.random_spread`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import setting
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class Random(ViewPruner):
    """There is no gain: nothing is maximised."""

    seed: int = setting(0, "Seed", "The same seed gives the same tokens.", limits=(0, 2**32 - 1))

    name = "random"
    title = "Random"
    summary = "Tokens drawn at random; the seed decides which."
    seeded = True
    nested = True
    reads_features = False
    cost = "O(n)"

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, None]:
        generator = torch.Generator().manual_seed(self.seed)
        turn = torch.randperm(tokens.n, generator=generator).argsort()  # (n,) when each is drawn
        return turn[view].argsort()[:share], None
