"""LiteLVLM: the tokens least like the text in CLIP's space, filled up with the picture's context.

Paper: arXiv 2605.13178. Released code: sejong-rcv/LiteLVLM, .../multimodal_encoder/clip_encoder.py.

    of each of m texts   the floor(k / m) tokens with the smallest E_n . E_T, not normalised
    the union of these   and, until there are k, the tokens with the largest p_n ||v_n||
    p = softmax(cos(q, k_n) / sqrt(w))   over the tokens of a view; q the class token's query, k_n
                                         and v_n key and value, all heads as one, last block

The cosine is divided by sqrt(w) too, so that p is nearly flat and the values' norms decide. With
one text the floor is k itself: nothing is filled up, and the choice is the lowest relevance of
SPARE's Fig. 3 by inner products in place of cosines.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from spare_demo.pruners.base import largest
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class LiteLVLM(ViewPruner):
    """Gain: minus the smallest product with a text; of tokens filled up with, p_n ||v_n||."""

    name = "litelvlm"
    title = "LiteLVLM"
    summary = (
        "The tokens least like the question, or one of several texts, by inner products that are "
        "not normalised."
    )
    paper = "LiteLVLM, ICML 2026"
    link = "https://arxiv.org/abs/2605.13178"
    needs_text = True
    acts = "before the projector"
    reads_features = False
    needs = frozenset({"vision_keys", "vision_values", "class_queries"})
    blocks = (-1,)
    cost = "O(n c m + n w), m texts"
    deviations = (
        "A question is one text, cut off where CLIP cuts it, as released. Several texts are the "
        "rows of clip_text where no clip_sentence is given. Tokens go on in raster order; in the "
        "code those that fill up the budget come first. Each of several views is a picture by "
        "itself; the code takes one."
    )

    def weight(self, tokens: VisualTokens) -> Tensor:
        """(n,) minus the smallest product with a text."""
        return self._products(tokens).amin(dim=1).neg()

    def _products(self, tokens: VisualTokens) -> Tensor:
        """(n, m) float64 CPU."""
        image, texts = tokens.image_and_text()
        if tokens.clip_sentence:
            texts = tokens.clip_sentence()[None]
        return image.detach().cpu().double() @ texts.detach().cpu().double().T

    def _pick(self, tokens: VisualTokens, view: Tensor, count: int) -> tuple[Tensor, Tensor]:
        products = self._products(tokens)[view]  # (s, m)
        quota = count // products.shape[1]
        least = products.sort(dim=0, stable=True).indices[:quota].unique()
        unlike = products.amin(dim=1).neg()
        place = least[largest(unlike[least], len(least))]
        gain = unlike[place]
        if len(place) < count:
            context = context_weights(tokens, view)
            left = context.index_fill(0, place, -torch.inf)
            further = largest(left, count - len(place))
            place, gain = torch.cat([place, further]), torch.cat([gain, context[further]])
        return place, gain


def context_weights(tokens: VisualTokens, view: Tensor) -> Tensor:
    """(s,) float64 CPU p_n ||v_n|| of the tokens of a view."""
    fields = (tokens.class_queries, tokens.vision_keys, tokens.vision_values)
    query, key, value = (
        read(LiteLVLM.blocks[0]).cpu().double().transpose(0, 1).flatten(1)[view]  # (s, w)
        for read in fields
        if read is not None  # needs
    )
    p = (cosine_similarity(query, key, dim=1) / key.shape[1] ** 0.5).softmax(dim=0)
    return p * torch.linalg.vector_norm(value, dim=1)
