"""Random visual tokens with every field that a method may read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from spare_demo import VisualTokens


def picture(
    n: int = 36,
    d: int = 12,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    view: torch.Tensor | None = None,
) -> VisualTokens:
    g = torch.Generator().manual_seed(seed)
    return VisualTokens(
        (torch.randn(n, d, generator=g) * torch.exp(torch.randn(n, 1, generator=g) / 2)).to(dtype),
        torch.randn(n, 6, generator=g).to(dtype),
        torch.randn(2, 6, generator=g).to(dtype),
        view,
        **tower_fields(n, d, g, view),
    )


def tower_fields(
    n: int, d: int, g: torch.Generator, view: torch.Tensor | None = None
) -> dict[str, Any]:
    """The further fields of n tokens from a tower 10 wide with 2 heads, as a model fills them."""
    scores = {joined: torch.randn(1 if joined else 2, n, generator=g) for joined in (False, True)}
    keys, values = (torch.randn(2, n, 5, generator=g) for _ in range(2))
    query = torch.randn(2, 1, 5, generator=g).expand(2, n, 5)
    attention = {
        # The class token keeps a part to itself; the rest is shared out in each view.
        joined: 0.9 * per_view(scores[joined], torch.zeros(n) if view is None else view)
        for joined in scores
    }
    return {
        "states": torch.randn(n, 10, generator=g),
        "class_states": torch.randn(1 if view is None else len(view.unique()), 10, generator=g),
        "project": projector(d),
        "cls_attention": lambda block, joined=False: attention[joined],
        "attention_received": lambda block: attention[block < 0].mean(dim=0),
        "vision_keys": lambda block: keys,
        "vision_values": lambda block: values,
        "class_queries": lambda block: query,
        "words": word_rows(d),
    }


def per_view(scores: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """(h, n) -> its softmax within each view."""
    weights = torch.empty_like(scores)
    for v in view.unique():
        weights[:, view == v] = scores[:, view == v].softmax(dim=1)
    return weights


def projector(d: int) -> Callable[[torch.Tensor], torch.Tensor]:
    weight = torch.randn(10, d, generator=torch.Generator().manual_seed(d))
    return lambda rows: torch.tanh(rows @ weight.to(rows))


def word_rows(d: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(
        4, d, generator=torch.Generator().manual_seed(d), dtype=torch.float32
    )


def over(tokens: VisualTokens, **fields: Any) -> VisualTokens:
    """The tokens with other features, clip_image or clip_text, and words as wide."""
    width = fields.get("features", tokens.features).shape[1]
    fields = {"words": word_rows(width), **fields}
    return dataclasses.replace(tokens, **fields, project=projector(width))


def read_through(
    tokens: VisualTokens, change: Callable[[int, torch.Tensor], torch.Tensor]
) -> VisualTokens:
    """The tokens, with change(block, values) in the place of what is read of each block."""

    def changed(read: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return lambda block, *more, **named: change(block, read(block, *more, **named))

    names = ["cls_attention", "attention_received", "vision_keys", "vision_values", "class_queries"]
    return dataclasses.replace(tokens, **{name: changed(getattr(tokens, name)) for name in names})


def tower_tokens(h: torch.Tensor, attention: torch.Tensor) -> VisualTokens:
    """Tokens of states (n, w) and the class token's attention (heads, n) in the last block but one,
    the only one that can be read.
    """
    blocks = {-2: attention}
    return VisualTokens(
        torch.ones(len(h), 1), states=h, cls_attention=lambda block, joined=False: blocks[block]
    )


def vscan_tokens(
    side: int, seed: int, views: int = 1, width: int = 6
) -> tuple[VisualTokens, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """VScan's: side x side random tokens in each view, 2 heads: tokens, features, (early, late)."""
    g = torch.Generator().manual_seed(seed)
    n = views * side * side

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    features, early, late = draw(n, width), draw(2, n).softmax(dim=1), draw(2, n).softmax(dim=1)
    tokens = VisualTokens(
        features,
        view=None if views == 1 else torch.arange(n) // side**2,
        cls_attention=lambda block, joined=False: {6: early, -2: late}[block],
    )
    return tokens, features.numpy(), (early.numpy(), late.numpy())
