"""Packed attention is attention with a mask, only without the work that the mask throws away."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from spare_demo.scenes.training.packed import BLOCK, block_mask, packed_attention

BEFORE = 7


def owners(*lengths: int) -> torch.Tensor:
    """Questions of such lengths in a row, filled up to whole blocks."""
    row = [index for index, length in enumerate(lengths) for _ in range(length)]
    return torch.tensor([row + [-1] * (-len(row) % BLOCK)])


def square_mask(owner: torch.Tensor) -> torch.Tensor:
    """(B, 1, L, L) by its rule, entry by entry."""
    count, length = owner.shape
    mask = torch.zeros(count, 1, BEFORE + length, BEFORE + length, dtype=torch.bool)
    for row in range(count):
        whose = [None] * BEFORE + owner[row].tolist()
        for i in range(BEFORE + length):
            for j in range(i + 1):
                mask[row, 0, i, j] = j < BEFORE or whose[j] == whose[i]
    return mask


def test_it_equals_masked_attention() -> None:
    owner = torch.cat([owners(5, 40, BLOCK, 20), owners(BLOCK, BLOCK, 1, 16)])
    torch.manual_seed(0)
    states = [
        torch.randn(2, 3, BEFORE + owner.shape[1], 8, dtype=torch.float64, requires_grad=True)
        for _ in range(3)
    ]
    ours, _ = packed_attention(None, *states, block_mask(owner), 0.3)
    stock = F.scaled_dot_product_attention(*states, attn_mask=square_mask(owner), scale=0.3)
    there = torch.cat([torch.ones(2, BEFORE), owner >= 0], 1).bool()  # padding is never read
    stock = stock.transpose(1, 2)
    torch.testing.assert_close(ours[there], stock[there], atol=1e-6, rtol=0)
    push = torch.randn_like(stock) * there[..., None, None]
    for mine, theirs in zip(
        torch.autograd.grad((ours * push).sum(), states),
        torch.autograd.grad((stock * push).sum(), states),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)
