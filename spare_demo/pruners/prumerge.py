"""PruMerge and PruMerge+: tokens the class token attends to, each merged with those like it.

Paper: arXiv 2403.15388. Released code: 42Shawn/LLaVA-PruMerge, clip_encoder.py. Queries and keys
are those of the tower's last block, all heads as one; features those before the projector.

    c_n   class token's attention to patch n, softmax(q k^T / sqrt(w))
    keep  the m largest c; PruMerge+ also patches on a grid, so that no part of the picture is lost
    merge x_i + sum_j c_j x_j over the 32 tokens j, kept or not, whose keys are most like i's
    add   one row more, sum over the dropped of c_j x_j

Neither sum is divided by anything, as released. The rows come in the order of attention, then the
grid's, then the one row more.

How many: as released, m is the number of outliers (above Q3 + 1.5 IQR), and PruMerge+ adds every
s-th patch, s = floor(floor(n / m) / 3), that is not kept yet (`size="adaptive"`; where the code
fails, m and s are 1). With a budget of k rows, m = k - 1, and PruMerge+ gives half of them to a
grid: every (R / g)-th of the R patches that attention left. A budget of 1 has no room for the row
more, nor has a picture of which nothing is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import by_setting, largest, setting
from spare_demo.pruners.merging import SIZE, MergingPruner, Size, merged_selection, outliers
from spare_demo.pruners.uniform import centres
from spare_demo.pruners.views import view_shares
from spare_demo.relevance import raw_cosine
from spare_demo.tokens import Selection, VisualTokens

_DEVIATIONS = (
    "The released code has no budget; with size=adaptive the number of tokens is the picture's "
    "own, as released, but at least one. Each of several views is merged by itself, for which the "
    "code has no rule."
)
_FORMS = {  # form: name, title, summary, deviations
    "plain": (
        "prumerge",
        "PruMerge",
        "Tokens the class token attends to, each merged with those like it.",
        _DEVIATIONS,
    ),
    "plus": (
        "prumerge-plus",
        "PruMerge+",
        "Tokens the class token attends to and tokens on a grid, each merged with those like it.",
        f"{_DEVIATIONS} With a budget, a rule of ours: half by attention, half on a grid of the "
        "rest.",
    ),
}


@dataclass(frozen=True)
class PruMerge(MergingPruner):
    """Gain: the class token's attention to the token."""

    form: Literal["plain", "plus"] = setting(
        ("plain", "plus"),
        "Form",
        "plain: by attention alone. plus: half of them on a grid (PruMerge+).",
    )
    neighbours: int = setting(
        32, "Merged into each", "How many of the most alike tokens.", limits=(0, 4096)
    )
    size: Size = setting(*SIZE)

    name, title, summary, deviations = by_setting("form", _FORMS)
    paper = "LLaVA-PruMerge"
    link = "https://arxiv.org/abs/2403.15388"
    acts = "before the projector"
    reads_features = False
    needs = frozenset({"states", "project", "cls_attention", "vision_keys"})
    blocks = (-1,)
    cost = "O(k n w)"

    @property
    def sizes_itself(self) -> bool:  # type: ignore[override]
        return self.size == "adaptive"

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        assert tokens.cls_attention is not None and tokens.vision_keys is not None  # needs
        attention = tokens.cls_attention(self.blocks[0], joined=True)[0].cpu().double()  # (n,)
        keys = tokens.vision_keys(self.blocks[0]).cpu().double().transpose(0, 1).flatten(1)  # n, w
        standing_out = max(1, outliers(attention))
        order, sources = [], []
        for view, share in view_shares(tokens, k):
            c = attention[view]
            if self.size == "adaptive":
                kept = self._pick_adaptive(c, standing_out, tokens.n)
                extra = len(kept) < len(view)
            elif share:
                kept, extra = self._pick_by_budget(c, max(1, share - 1)), share > 1
            else:
                continue
            mixture = torch.zeros(len(kept) + extra, tokens.n, dtype=torch.float64)
            mixture[:, view] = self._mixture(c, keys[view], kept, extra)
            order.append(view[kept])
            sources.append(mixture)
        picks = torch.cat(order)
        return merged_selection(tokens, picks, attention[picks], torch.cat(sources))

    def _pick_by_budget(self, c: Tensor, m: int) -> Tensor:
        if self.form == "plain":
            return largest(c, m)
        kept = largest(c, m - m // 2)
        places = torch.arange(len(c))
        left = places[~torch.isin(places, kept)]
        return torch.cat([kept, left[centres(len(left), m // 2)]])

    def _pick_adaptive(self, c: Tensor, standing_out: int, n: int) -> Tensor:
        """The released numbers for one view of a picture with n tokens in all."""
        kept = largest(c, max(1, len(c) * standing_out // n))
        if self.form == "plain":
            return kept
        grid = torch.arange(0, max(1, len(c) - 1), max(1, n // standing_out // 3))
        return torch.cat([kept, grid[~torch.isin(grid, kept)]])

    def _mixture(self, c: Tensor, keys: Tensor, kept: Tensor, extra: bool) -> Tensor:
        """(m or m + 1, s) how much of each of the view's s tokens goes into each row."""
        alike = raw_cosine(keys[kept], keys)  # (m, s)
        alike[torch.arange(len(kept)), kept] = -torch.inf  # the others, itself last
        near = alike.sort(dim=1, descending=True, stable=True).indices[:, : self.neighbours]
        mixture = torch.zeros(len(kept), len(c), dtype=torch.float64).scatter(1, near, c[near])
        mixture[torch.arange(len(kept)), kept] = 1.0
        return torch.cat([mixture, c.index_fill(0, kept, 0.0)[None]]) if extra else mixture
