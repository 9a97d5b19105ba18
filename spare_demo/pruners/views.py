"""One budget over several views of a picture (LLaVA-NeXT), once for all methods."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from spare_demo.pruners.base import Pruner
from spare_demo.tokens import Selection, VisualTokens

Pick = Callable[[Tensor, int], tuple[Tensor, Tensor | None]]
"""(s,) patch indices of one view and its share of the budget -> (share,) places within the view in
the order picked, and (share,) the criterion's value at each, if there is one."""


class ViewPruner(Pruner):
    """A method that picks in each view by itself: interleaved where it is nested, else view after
    view."""

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        return pick_by_view(tokens, k, partial(self._pick, tokens), interleaved=self.nested)

    @abstractmethod
    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor | None]:
        """As `Pick`, of these tokens."""


def budget_groups(tokens: VisualTokens) -> list[Tensor]:
    """The patch indices, ascending, of each part of the picture that has its own share of a budget:
    of each view, by number; of all tokens where they are spent `together`.
    """
    return [torch.arange(tokens.n)] if tokens.together else views_of(tokens)


def views_of(tokens: VisualTokens) -> list[Tensor]:
    """The patch indices, ascending, of each view, by number; of all tokens without views."""
    if tokens.view is None:
        return [torch.arange(tokens.n)]
    return [(tokens.view == v).nonzero().flatten() for v in tokens.view.unique()]


def rectangle(n: int) -> tuple[int, int]:
    """Rows and columns that a view of n tokens is taken to have, as nearly square as n allows.

    24 x 24 for 576. When n is prime it is a single row.
    """
    rows = max(r for r in range(1, math.isqrt(n) + 1) if n % r == 0)
    return rows, n // rows


def view_shares(tokens: VisualTokens, k: int) -> list[tuple[Tensor, int]]:
    """The patch indices of each of `budget_groups`, and how many of k picks it gets.

    Equal shares, the remainder to the first groups. What one has too few tokens for goes to the
    others.
    """
    groups = budget_groups(tokens)
    numbers = [torch.full((len(group),), number) for number, group in enumerate(groups)]
    counts = in_turn(numbers, k).bincount(minlength=len(groups))
    return list(zip(groups, counts.tolist(), strict=True))


def in_turn(views: list[Tensor], k: int) -> Tensor:
    """Per view a value for each of its picks -> the first k, round-robin, first view first.

    Any prefix is as balanced as the whole.
    """
    turn = torch.cat([torch.arange(len(v)) for v in views])
    # A stable sort by turn leaves the views within a turn in their own order.
    return torch.cat(views)[turn.sort(stable=True).indices[:k]]


def pick_by_view(tokens: VisualTokens, k: int, pick: Pick, interleaved: bool = True) -> Selection:
    """What each view gives for its share of k.

    interleaved: the result is nested if `pick` is; else view after view.
    """
    order, gain = [], []
    for view, share in view_shares(tokens, k):
        if share:
            place, value = pick(view, share)
            order.append(view[place.cpu()])  # a pick may be made where the features lie
            if value is not None:
                gain.append(value)

    def join(parts: list[Tensor]) -> Tensor:
        return in_turn(parts, k) if interleaved else torch.cat(parts)

    return Selection(join(order), join(gain) if gain else None)
