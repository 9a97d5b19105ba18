"""VisionZip: the tokens the class token attends to, and the rest merged into a few by their keys.

Paper: arXiv 2412.04467. Released code: dvlab-research/VisionZip, visionzip/. Attention, keys and
states are all of the block whose output LLaVA reads, the last but one.

    dominant    the largest attention of the class token, summed over the heads; the class token
                itself is the first of them and is given to the language model
    contextual  of the rest, every s-th in raster order is a target, s = floor(rest / contextual);
                every other one goes to the target whose key (mean over the heads) is most like its
                own; a target becomes h_target + mean of the h that went to it

That sum is not divided, as released, so that contextual rows are about twice as long. Rows: class
token, dominant in raster order, contextual. For several views, each by itself: the first view's
rows, then all others' dominant in raster order, their class tokens, their contextual rows. Where
all views share one budget, the first one's class token stands for them.

54 + 10 of 64 is the released split; the share 10 / 64 makes 108 + 20, 162 + 30 and 27 + 5 of the
other usual budgets. A budget of 1 is one patch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import largest, setting
from spare_demo.pruners.merging import MergingPruner, merged_selection
from spare_demo.pruners.views import view_shares
from spare_demo.relevance import raw_cosine
from spare_demo.tokens import Selection, VisualTokens

_CLASS, _DOMINANT, _LATE_CLASS, _CONTEXTUAL = range(4)  # places of a row among its view's


@dataclass(frozen=True)
class VisionZip(MergingPruner):
    """Gain: the class token's attention, summed over heads; dominant tokens, then targets."""

    contextual: float = setting(
        10 / 64,
        "Share of merged tokens",
        "Of the budget; the rest are dominant.",
        limits=(0.0, 0.9),
    )

    name = "visionzip"
    title = "VisionZip"
    summary = "Tokens the class token attends to, that token itself, and the rest merged to a few."
    paper = "VisionZip"
    link = "https://arxiv.org/abs/2412.04467"
    acts = "before the projector"
    reads_features = False
    needs = frozenset({"states", "class_states", "project", "cls_attention", "vision_keys"})
    blocks = (-2,)
    cost = "O(m n w / h), m contextual rows"
    deviations = "Other budgets than the released 64 are split in the same shares."

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        assert tokens.cls_attention is not None and tokens.vision_keys is not None  # needs
        attention = tokens.cls_attention(self.blocks[0]).cpu().double().sum(dim=0)  # (n,)
        keys = tokens.vision_keys(self.blocks[0]).cpu().double().mean(dim=0)  # (n, w / h)
        order: list[Tensor] = []
        targets: list[Tensor] = []
        rows: list[tuple[tuple[int, int, int], Tensor, int]] = []  # place, sources, class token of
        for v, (view, share) in enumerate(view_shares(tokens, k)):
            merged = min(round(share * self.contextual), max(0, share - 2))
            with_class = share > 1
            dominant = view[largest(attention[view], share - merged - with_class)]
            order.append(dominant)
            rest = view[~torch.isin(view, dominant)]
            target_tokens, mixtures = _contextual(rest, keys, merged, tokens.n)
            targets.append(target_tokens)

            later = int(v > 0)
            nothing = torch.zeros(tokens.n, dtype=torch.float64)
            if with_class:
                rows.append(((later, _LATE_CLASS if later else _CLASS, v), nothing, v))
            for i in dominant.tolist():
                alone = nothing.clone()
                alone[i] = 1.0
                rows.append(((later, _DOMINANT, i), alone, -1))
            for mixture in mixtures:
                rows.append(((later, _CONTEXTUAL, v), mixture, -1))
        rows.sort(key=lambda row: row[0])  # stable: targets stay in raster order
        picks = torch.cat([*order, *targets])
        sources = torch.stack([mixture for _, mixture, _ in rows])
        class_of = torch.tensor([v for _, _, v in rows])
        return merged_selection(tokens, picks, attention[picks], sources, class_of)


def _contextual(rest: Tensor, keys: Tensor, count: int, n: int) -> tuple[Tensor, Tensor]:
    """(count,) target tokens among the rest, and (count, n) what goes into each."""
    stride = max(1, len(rest) // max(1, count))
    places = torch.arange(0, len(rest), stride)[:count]
    targets = rest[places]
    sources = torch.zeros(count, n, dtype=torch.float64)
    if count:
        others = rest[~torch.isin(rest, targets)]
        alike = raw_cosine(keys[others], keys[targets])
        home = alike.argmax(dim=1)  # (others,), the first of equals
        sources[home, others] = 1.0 / home.bincount(minlength=count).double()[home]
        sources[torch.arange(count), targets] = 1.0
    return targets, sources
