"""TRIM: tokens by their product with the question in CLIP's space, and the mean of the rest.

Paper: arXiv 2409.10994. Released code: FreedomIntelligence/TRIM, clip_encoder.py, llava_arch.py.

    s_n = -E_n . E_T           not normalised; E_T: the prompt, cut off where CLIP cuts it
    p   = softmax(s)           over the tokens
    keep the largest p, in raster order, and append the mean of the dropped states

The prompt is the question and, where the language model is given one, the line that asks for a
short answer; with `text="question"` it is the question alone, as the other methods have it.

The paper ranks by similarity, +E_n . E_T; the released code has the minus. Both are here under
their names. How many: as released, the number of outliers of p (above Q3 + 1.5 IQR), with
`size="adaptive"`, at least 1, where the code would keep the mean alone; with a budget of k rows,
k - 1 tokens and the mean. A budget of 1 has no room for the mean. Each of several views is a
picture by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import by_setting, largest, setting
from spare_demo.pruners.merging import SIZE, MergingPruner, Size, merged_selection, outliers
from spare_demo.pruners.views import budget_groups, view_shares
from spare_demo.tokens import Selection, VisualTokens

_FORMS = {  # form: name, title, summary
    "released": (
        "trim",
        "TRIM",
        "The tokens least like the question, and the mean of all others as one more.",
    ),
    "paper": (
        "trim-paper",
        "TRIM, sign of the paper",
        "The tokens most like the question, and the mean of all others as one more.",
    ),
}


@dataclass(frozen=True)
class Trim(MergingPruner):
    """Gain: s, the score before the softmax."""

    form: Literal["released", "paper"] = setting(
        ("released", "paper"),
        "Relevance",
        "released: the product negated, as in the code. paper: the product itself.",
    )
    size: Size = setting(*SIZE)
    text: Literal["prompt", "question"] = setting(
        ("prompt", "question"),
        "Text",
        "prompt: with the line that asks for a short answer, as in the code. question: without "
        "it. The same where the model is given no such line.",
    )

    name, title, summary = by_setting("form", _FORMS)
    paper = "TRIM"
    link = "https://arxiv.org/abs/2409.10994"
    acts = "before the projector"
    reads_features = False
    needs_text = True
    needs = frozenset({"states", "project"})
    cost = "O(n c)"
    deviations = (
        "With a budget the mean token counts in it; with size=adaptive the number of tokens is "
        "the picture's own, as released. Where no token stands out, the code gives the mean alone; "
        "here one token is kept beside it. Several views share the budget; the code takes one."
    )

    def weight(self, tokens: VisualTokens) -> Tensor:
        """(n,) the score that is ranked: the product with the question, negated as released."""
        image, text = tokens.image_and_text()
        embed = tokens.clip_sentence
        if self.text == "prompt" and tokens.clip_prompt is not None:
            embed = tokens.clip_prompt
        sentence = embed() if embed else text.mean(dim=0)
        product = image.detach().double() @ sentence.detach().to(image.device).double()
        return -product if self.form == "released" else product

    @property
    def sizes_itself(self) -> bool:  # type: ignore[override]
        return self.size == "adaptive"

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        score = self.weight(tokens).cpu()
        shares_of_all = torch.cat([score[view].softmax(dim=0) for view in budget_groups(tokens)])
        standing_out = max(1, outliers(shares_of_all))
        order, means = [], []
        for view, share in view_shares(tokens, k):
            if self.size == "adaptive":
                count = max(1, len(view) * standing_out // tokens.n)
                mean = count < len(view)
            else:
                count, mean = max(1, share - 1) if share else 0, share > 1
            place = largest(score[view], count)
            order.append(view[place])
            if mean:
                dropped = view[~torch.isin(view, view[place])]
                row = torch.zeros(tokens.n, dtype=torch.float64)
                row[dropped] = 1.0 / len(dropped)
                means.append(row)
        picks = torch.cat(order)
        kept = torch.zeros(len(picks), tokens.n, dtype=torch.float64)
        kept[torch.arange(len(picks)), picks.sort().values] = 1.0
        return merged_selection(tokens, picks, score[picks], torch.stack([*kept, *means]))
