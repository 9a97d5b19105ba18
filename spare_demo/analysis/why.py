"""Why a greedy method kept or lost a patch, and what stands in for a lost one.

SPARE (arXiv 2606.18681, Algorithm 1) and CDPruner (arXiv 2506.10967) pick, again and again, the
token with the largest product of three factors:

    novelty u         squared sine of the angle to the span of the picked ones, 0 to 1
    magnitude         SPARE: ||x||^2, the token's squared norm; CDPruner: 1
    text weight       SPARE: rho; CDPruner: w^2; 1 without text

so both can be read in the same terms (`Method.factors`). Other methods have a rank and what is
left over, but no factors. Everything here is float64 and in raw units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.selections import Exploration
from spare_demo.pruners import Method
from spare_demo.pruners.views import budget_groups
from spare_demo.tokens import VisualTokens, as_indices
from spare_demo.tokens.checks import Indices

STAND_INS = 8
"""How many kept tokens are named as standing in for a lost one."""


@dataclass(frozen=True, eq=False)
class Weighing:
    """The three factors of all n tokens before one pick of a greedy method, on the CPU.

    Attributes:
        novelty: (n,) u, from 0 to 1; 0 for the tokens picked before.
        magnitude: (n,) SPARE's ||x||^2, CDPruner's 1.
        text: (n,) SPARE's rho, CDPruner's w^2, 1 without text.
        picked: the token that was picked then; None after the last pick.
    """

    novelty: Tensor
    magnitude: Tensor
    text: Tensor
    picked: int | None

    @property
    def value(self) -> Tensor:
        """(n,) the product of the three, of which the largest is picked."""
        return self.novelty * self.magnitude * self.text


@dataclass(frozen=True)
class Factors:
    """The three factors of one token at one step, and their product."""

    novelty: float
    magnitude: float
    text: float
    value: float


@dataclass(frozen=True)
class StandIns:
    """The projection of a lost token on the kept ones: x is near the sum of coefficient * kept.

    Attributes:
        tokens: kept tokens, the largest coefficient (in absolute value) first.
        coefficients: one per token, in that order; they may be negative.
        shares: each one's length in the projection over the lost token's own,
            |coefficient| * ||kept|| / ||x||; they do not add up to 1, for kept tokens overlap.
        leftover: share of the token's squared norm that no combination of the kept ones reaches.
    """

    tokens: tuple[int, ...]
    coefficients: tuple[float, ...]
    shares: tuple[float, ...]
    leftover: float


@dataclass(frozen=True)
class Reason:
    """One patch under one method at one budget; plain numbers, ready for JSON.

    Attributes:
        patch: its index.
        rank: 1 for the first pick; None if it is not among the kept ones.
        step: the step that `factors` and `winning` are of.
        factors: None for a method without factors.
        winner: the token picked at that step; None where nothing was.
        winning: the winner's factors at that step.
        cosine: raw cosine with the question; None without one.
        leftover: share of it that the kept tokens cannot reconstruct; 0 for a kept one. None for
            a method that merges tokens, whose rows are not patches.
        stand_ins: for a lost patch of a method that does not merge, what stands in for it.
    """

    patch: int
    rank: int | None
    step: int
    factors: Factors | None
    winner: int | None
    winning: Factors | None
    cosine: float | None
    leftover: float | None
    stand_ins: StandIns | None


def weigh(method: Method, tokens: VisualTokens, order: Indices, step: int) -> Weighing | None:
    """The factors of all tokens before pick number `step` of `order`.

    order: the method's picks, at least `step` of them; `step` 0 is before the first.
    Returns None for a method that is not the greedy product of three factors.
    """
    factors = method.factors(tokens)
    if factors is None:
        return None
    picks = as_indices(order)
    magnitude, text = (part.detach().cpu().double() for part in factors)
    picked = int(picks[step]) if step < len(picks) else None
    return Weighing(_novelty(tokens, picks[:step]), magnitude, text, picked)


def stand_ins(features: Tensor, kept: Indices, patch: int) -> StandIns:
    """The projection of one token onto the span of the kept ones, by its largest coefficients.

    features: (n, d). kept: (k,) indices, k >= 1, any order.
    Where kept tokens depend on each other there are many ways to write the projection; this is
    the one with the smallest coefficients (least squares of least norm). Coefficients that are
    rounding alone are left out.
    """
    rows = as_indices(kept)
    x = measures.compact(features).cpu()
    norms = torch.linalg.vector_norm(x, dim=1)
    target = x[patch]
    if float(norms[patch]) == 0:
        return StandIns((), (), (), 0.0)
    length = norms[rows].masked_fill(norms[rows] == 0, 1.0)
    unit = x[rows] / length[:, None]  # alike in length, so that the cut below is one of angles
    along = target @ torch.linalg.pinv(unit, rtol=measures.DEPENDENT)
    shares = along.abs() / norms[patch]
    coefficients = along / length
    rest = float(((target - along @ unit) / norms[patch]).square().sum())
    first = coefficients.abs().sort(descending=True, stable=True).indices
    largest = [int(i) for i in first if float(shares[i]) > 1e-9][:STAND_INS]
    return StandIns(
        tuple(rows[largest].tolist()),
        tuple(coefficients[largest].tolist()),
        tuple(shares[largest].tolist()),
        min(rest, 1.0),
    )


def why(
    exploration: Exploration,
    label: str,
    patch: int,
    budget: int,
    step: Literal["own", "first", "last"] = "own",
) -> Reason:
    """Why one method keeps or loses one patch at a budget.

    label: of one that acts before the language model.
    step: which pick to look at: the "first" or the "last" one within the budget in the patch's own
        view, whose patches alone it is weighed with; "own" is the one at which it was picked, and
        the last for a lost patch.

    Raises ValueError, with a sentence to show: no such patch or budget.
    """
    tokens, method = exploration.view.tokens, exploration.methods[label]
    if not 0 <= patch < tokens.n:
        raise ValueError(f"There is no patch {patch}. Choose one from 0 to {tokens.n - 1}.")
    selection = exploration.selections(budget)[label]
    order = selection.order.tolist()
    rank = order.index(patch) + 1 if patch in order else None
    steps = _own_steps(tokens, selection.order, patch)
    number = rank - 1 if rank and step == "own" else steps[0 if step == "first" else -1]
    weighing = weigh(method, tokens, selection.order, number)
    winner = weighing.picked if weighing else None
    relevance = exploration.view.relevance
    left, substitutes = None, None
    if not selection.merged:
        left = 0.0
        if rank is None:
            compact = exploration.view.picture.compact_features
            substitutes = stand_ins(compact, selection.order, patch)
            left = substitutes.leftover
    return Reason(
        patch=patch,
        rank=rank,
        step=number,
        factors=_factors_of(weighing, patch) if weighing else None,
        winner=winner,
        winning=_factors_of(weighing, winner) if weighing and winner is not None else None,
        cosine=None if relevance is None else float(relevance[patch]),
        leftover=left,
        stand_ins=substitutes,
    )


def _own_steps(tokens: VisualTokens, order: Tensor, patch: int) -> list[int]:
    """The picks in a patch's own view, by their numbers; all where its view has none."""
    own = next(group for group in budget_groups(tokens) if bool((group == patch).any()))
    steps: list[int] = torch.isin(order.cpu(), own.cpu()).nonzero().flatten().tolist()
    return steps or list(range(max(1, len(order))))


def _factors_of(weighing: Weighing, token: int) -> Factors:
    parts = (weighing.novelty, weighing.magnitude, weighing.text, weighing.value)
    return Factors(*(float(part[token]) for part in parts))


def _novelty(tokens: VisualTokens, picks: Tensor) -> Tensor:
    """(n,) u of every token to the picks in its own view; picked tokens have none left."""
    novelty = torch.empty(tokens.n, dtype=torch.float64)
    for group in budget_groups(tokens):
        place = {int(token): i for i, token in enumerate(group)}
        own = [place[int(pick)] for pick in picks if int(pick) in place]
        novelty[group] = measures.leftover_share(tokens.features[group], own).cpu()
    return novelty
