"""MMTok: tokens that together cover the question's words and all other tokens.

Paper: arXiv 2508.18264. Released code: Ironieser/MMTok, core/semantic_selector.py.

    P     softmax over the tokens i of cos(word_r, x_i) / t, divided by the number of words
    Q     softmax over the tokens i of cos(h_j, h_i) / 0.2, divided by the number of tokens
    C     the rows of P, and alpha times those of Q
    pick  argmax_i  sum_r max(0, C_ri - max over the picked p of C_rp)    until k are picked

word: the language model's input embeddings of the question's keywords, a row per token of text.
x: the projector's output, h: its input. alpha is 0.5, t 0.02.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import setting
from spare_demo.pruners.spread import cover_greedily
from spare_demo.pruners.views import ViewPruner, budget_groups
from spare_demo.relevance import raw_cosine
from spare_demo.tokens import VisualTokens

_TOKEN_TEMPERATURE = 0.2


@dataclass(frozen=True)
class MMTok(ViewPruner):
    """Gain: what the token adds to the coverage of words and tokens."""

    alpha: float = setting(
        0.5,
        "Weight of the picture",
        "How much covering the other tokens counts, where covering the words counts 1.",
        limits=(0.0, 8.0),
    )
    temperature: float = setting(
        0.02,
        "Temperature of the words",
        "The lower, the fewer tokens a word is covered by. The selector of the released code "
        "has 0.01 where it is used alone.",
        limits=(1e-3, 1.0),
    )

    name = "mmtok"
    title = "MMTok"
    summary = "Tokens that together cover the question's words and all other tokens."
    paper = "MMTok, ICLR 2026"
    nested = True
    link = "https://arxiv.org/abs/2508.18264"
    needs_text = True
    text_field = "words"
    needs = frozenset({"states"})
    cost = "O(n² w + n² k)"
    deviations = (
        "float64 instead of float32. A keyword is taken as it stands inside a sentence, which "
        "the code leaves to the tokenizer. Padding can be picked, as by default in the code."
    )

    def weight(self, tokens: VisualTokens) -> Tensor:
        """(n,) the column sums of P: what share of the words falls on each token of its view."""
        self.check(tokens)
        weight = torch.empty(tokens.n, dtype=torch.float64, device=tokens.features.device)
        for view in budget_groups(tokens):
            weight[view] = self._words(tokens, view).sum(dim=0)
        return weight

    def _words(self, tokens: VisualTokens, view: Tensor) -> Tensor:
        """(m, s) P of one view of s tokens."""
        assert tokens.words is not None  # text_field
        rows = tokens.features[view].detach()
        cosines = raw_cosine(rows.double(), tokens.words().to(rows.device).double())  # (s, m)
        return (cosines.mT / self.temperature).softmax(dim=-1) / cosines.shape[1]

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        assert tokens.states is not None  # needs
        states = tokens.states[view]
        cosines = raw_cosine(states, states)  # (s, s)
        others = (cosines / _TOKEN_TEMPERATURE).softmax(dim=-1) / len(view)
        table = torch.cat([self._words(tokens, view), self.alpha * others]).cpu()
        return cover_greedily(table, table.new_ones(len(view)), share)
