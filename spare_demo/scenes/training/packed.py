"""Attention of many questions that share one picture, without the pairs that may not look.

The tokens before the questions attend to each other, causally. A question's tokens attend to all of
those and to their own question, which is short; so the tokens of the questions are cut into blocks,
and a block looks at itself and at the block before it. On a CPU this takes half the time of one
square of scores, most of which a mask would throw away.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

NAME = "packed-questions"
BLOCK = 48
"""Tokens of a block of questions. No question may be longer: it would reach over two borders."""


def block_mask(owner: Tensor) -> Tensor:
    """Who may look at whom among the questions' tokens.

    Args:
        owner: (B, T) which question each token belongs to, T a multiple of `BLOCK`.

    Returns:
        (B, T / BLOCK, BLOCK, 2 BLOCK) bool: the rows of a block against the block before it and
        itself. A token sees its own question up to itself.
    """
    blocks = owner.view(len(owner), -1, BLOCK)
    whose = torch.cat([_one_before(blocks, -2), blocks], -1)  # no question is number -2
    rows = torch.arange(BLOCK, 2 * BLOCK, device=owner.device)[:, None]
    causal = torch.arange(2 * BLOCK, device=owner.device) <= rows
    return (whose[:, :, None, :] == blocks[..., None]) & causal


def packed_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """What Hugging Face's decoder calls for each layer; ``mask`` is that of `block_mask`.

    Args:
        query, key, value: (B, H, P + T, D), the questions' T tokens last.

    Returns:
        (B, P + T, H, D), and no weights.
    """
    # On CUDA autocast takes softmax, and with it every score, to float32.
    with torch.autocast(query.device.type, enabled=False):
        query, key = (query * scaling).to(value.dtype), key.to(value.dtype)
        return _attended(query, key, value, mask).transpose(1, 2), None


def _attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    count, heads, length, width = query.shape
    blocks = mask.shape[1]
    before = length - blocks * BLOCK
    # Split rather than sliced: the gradient of a slice is a whole tensor of zeros.
    parts = [states.split([before, length - before], 2) for states in (query, key, value)]
    (first_q, asked_q), (first_k, asked_k), (first_v, asked_v) = parts

    shape = (count, heads, blocks, BLOCK, width)
    q, k, v = (states.reshape(shape) for states in (asked_q, asked_k, asked_v))
    near = q @ torch.cat([_one_before(k, 0.0, 2), k], 3).mT  # (B, H, blocks, BLOCK, 2 BLOCK)
    near = near.masked_fill(~mask[:, None], -torch.inf)
    far = (asked_q @ first_k.mT).view(*shape[:4], before)
    far, near = torch.cat([far, near], -1).softmax(-1).split([before, 2 * BLOCK], -1)
    asked = far.reshape(count, heads, -1, before) @ first_v
    asked = asked + (near @ torch.cat([_one_before(v, 0.0, 2), v], 3)).view_as(asked)
    ahead = torch.ones(before, before, dtype=torch.bool, device=query.device).triu(1)
    first = (first_q @ first_k.mT).masked_fill(ahead, -torch.inf).softmax(-1) @ first_v
    return torch.cat([first, asked], 2)


def _one_before(blocks: Tensor, empty: float, dim: int = 1) -> Tensor:
    """Each block's predecessor along ``dim``; ``empty`` throughout before the first."""
    others, last = blocks.split([blocks.shape[dim] - 1, 1], dim)
    return torch.cat([torch.full_like(last, empty), others], dim)


AttentionInterface.register(NAME, packed_attention)
