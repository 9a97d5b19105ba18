"""One budget over several views of a picture (LLaVA-NeXT), once for all nested methods."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from spare_demo.tokens import Selection, VisualTokens

# (b, s) patch indices of b views of s tokens each, and a count -> (b, count) places within each
# view in the order picked, and (b, count) the criterion's value at each pick, if there is one.
Rank = Callable[[Tensor, int], tuple[Tensor, Tensor | None]]

# (s,) patch indices of one view and its share of the budget -> (share,) places within the view in
# the order picked, and (share,) the criterion's value at each.
Pick = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def view_members(tokens: VisualTokens) -> list[Tensor]:
    """The patch indices of each view that has a share of the budget of its own, ascending; views
    by their number. Without views, or with all `together`, one.
    """
    return [torch.arange(tokens.n)] if tokens.together else views_of(tokens)


def views_of(tokens: VisualTokens) -> list[Tensor]:
    """The patch indices of each view, ascending, whatever shares the budget; views by number."""
    if tokens.view is None:
        return [torch.arange(tokens.n)]
    return [(tokens.view == v).nonzero().flatten() for v in tokens.view.unique()]


def rectangle(n: int) -> tuple[int, int]:
    """Rows and columns that a view of n tokens is taken to have, as nearly square as n allows.

    24 x 24 for 576. When n is prime it is a single row.
    """
    rows = max(r for r in range(1, math.isqrt(n) + 1) if n % r == 0)
    return rows, n // rows


def rounds_for(members: list[Tensor], k: int) -> int:
    """How many times every view must be asked for one more token until k are picked."""
    rounds = 1
    while sum(min(rounds, len(m)) for m in members) < k:
        rounds += 1
    return rounds


def shares(members: list[Tensor], k: int) -> list[int]:
    """How many of the k picks each view gets: equal shares, the remainder to the first views.

    What a view has too few tokens for goes to the others.
    """
    full = rounds_for(members, k) - 1
    share = [min(full, len(m)) for m in members]
    for v, m in enumerate(members):
        if sum(share) < k and len(m) > full:
            share[v] += 1
    return share


def view_blocks(tokens: VisualTokens, k: int) -> tuple[list[Tensor], int]:
    """(b, s) patch indices of b views of s tokens each, for k picks over all of them.

    Views of equal size make one block, to be ranked as one batch; else each makes its own. Also
    how many picks each view must give, as far as it has as many tokens.
    """
    members = view_members(tokens)
    equal = len({len(m) for m in members}) == 1
    blocks = [torch.stack(members)] if equal else [m[None] for m in members]
    return blocks, rounds_for(members, k)


def in_turn(views: list[Tensor], k: int) -> Tensor:
    """Per view a value for each of its picks -> the first k, round-robin, first view first.

    Any prefix is as balanced as the whole.
    """
    turn = torch.cat([torch.arange(len(v)) for v in views])
    # A stable sort by turn leaves the views within a turn in their own order.
    return torch.cat(views)[turn.sort(stable=True).indices[:k]]


def pick_per_view(tokens: VisualTokens, k: int, rank: Rank) -> Selection:
    """Give each view its share of k, interleaved; the result is nested if `rank` is."""
    blocks, rounds = view_blocks(tokens, k)
    order: list[Tensor] = []  # one (count,) per view
    gain: list[Tensor] = []
    for block in blocks:
        place, value = rank(block, min(rounds, block.shape[1]))
        order.extend(block.gather(1, place.cpu()))
        if value is not None:
            gain.extend(value.cpu())
    return Selection(in_turn(order, k), in_turn(gain, k) if gain else None)


def pick_in_views(tokens: VisualTokens, k: int, pick: Pick) -> Selection:
    """Give each view its share of k, for methods that are not nested: one view after the other."""
    order, gain = [], []
    members = view_members(tokens)
    for view, share in zip(members, shares(members, k), strict=True):
        if share:
            place, value = pick(view, share)
            order.append(view[place])
            gain.append(value)
    return Selection(torch.cat(order), torch.cat(gain))


def pick_largest(tokens: VisualTokens, k: int, score: Tensor) -> Selection:
    """Give each view its share of k by the largest of (n,) scores on the CPU; nested.

    Ties go to the lower index. The gain is the score.
    """

    def rank(members: Tensor, count: int) -> tuple[Tensor, Tensor]:
        value, place = score[members].sort(dim=-1, descending=True, stable=True)
        return place[:, :count], value[:, :count]

    return pick_per_view(tokens, k, rank)
