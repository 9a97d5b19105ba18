"""The greedy loop that SPARE and CDPruner share.

With u_i the squared sine of the angle between token i and the span of the tokens picked so far,
each step picks the largest merit_i * u_i. SPARE's merit is rho_i ||x_i||^2, CDPruner's is w_i^2.

This is SPARE's Algorithm 1, lines 5-13 (arXiv 2606.18681), whose r_i is ||x_i||^2 u_i: modified
Gram-Schmidt with pivoting. It is equally greedy pivoted Cholesky on the cosines of the rows, that
is greedy MAP for the determinantal point process with the kernel sqrt(merit_i) cos_ij
sqrt(merit_j), which is how CDPruner (arXiv 2506.10967) does it. Merit enters the comparison only,
so methods that differ in nothing else share one matrix of cosines.

The cosines square the condition number: on nearly rank-deficient features the released CDPruner
takes the root of a negative number and repeats picks. So the arithmetic is float64 whatever the
input, and picks stand only while rounding is far below the values compared (`plain.TRUST`). Where
it is not, the residuals of all rows are recomputed from the features and the loop continues from
there: each such round sees six more digits of u.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from spare_demo.cuda_graphs import Replay
from spare_demo.pruners import fused, plain
from spare_demo.pruners.base import Pruner, check_budget, largest
from spare_demo.pruners.cosines import project_out
from spare_demo.pruners.views import in_turn, view_shares
from spare_demo.tokens import Selection, VisualTokens, count_informed, cpu_by_default


class Picks(NamedTuple):
    """What `greedy` picks; (..., b, k) each.

    order: distinct indices into the n tokens of each view.
    gain: float64, merit_i * u_i when picked, >= 0.
    margin: float64, the lead of the best token over the next one as a share of its value, 0 to 1;
        1 where no comparison decided.
    """

    order: Tensor
    gain: Tensor
    margin: Tensor


class Greedy(Pruner):
    """A method that is this loop, and says only what merit is made of."""

    nested = True

    @abstractmethod
    def factors(self, tokens: VisualTokens) -> tuple[Tensor, Tensor]:
        """Magnitude and text weight, (n,) float64 each, >= 0; merit is their product."""

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        return _select(tokens, [self], k)[0]


def select_together(
    methods: Mapping[str, Greedy], tokens: VisualTokens, budget: int
) -> dict[str, Selection]:
    """`select` of every method, by label, with one matrix of cosines and one loop for all.

    Raises ValueError as `select` does.
    """
    if not methods:
        return {}
    k = check_budget(budget, tokens.n)
    for method in methods.values():
        method.check(tokens)
    with torch.no_grad(), cpu_by_default():
        return dict(zip(methods, _select(tokens, list(methods.values()), k), strict=True))


def _select(tokens: VisualTokens, methods: list[Greedy], k: int) -> list[Selection]:
    """For each method k of the n tokens, by merit times novelty, each view (crop) by itself."""
    members, shares = zip(*view_shares(tokens, k), strict=True)
    # Views of equal size are picked as one batch, as far as the largest share goes.
    equal = len({len(view) for view in members}) == 1
    blocks = [torch.stack(members)] if equal else [view[None] for view in members]
    device = tokens.features.device
    factors = [method.factors(tokens) for method in methods]
    merit = torch.stack([(magnitude * text).to(device) for magnitude, text in factors])  # (m, n)
    by_view: tuple[list[Tensor], ...] = ([], [], [])  # order, gain, margin: (count, m) of each view
    for block in blocks:  # (b, s)
        here = block.to(device)
        picks = greedy(tokens.features[here], merit[:, here], min(max(shares), block.shape[1]))
        place, gain, margin = (part.cpu().permute(1, 2, 0) for part in picks)  # (b, count, m)
        order = torch.stack([view[p] for view, p in zip(block, place, strict=True)])
        for found, part in zip(by_view, (order, gain, margin), strict=True):
            found.extend(part)
    of_methods = (in_turn(part, k).T.contiguous() for part in by_view)  # (m, k) each
    return [
        Selection(order, gain, margin=margin, informed=count_informed(gain))
        for order, gain, margin in zip(*of_methods, strict=True)
    ]


def greedy(features: Tensor, merit: Tensor, k: int) -> Picks:
    """The first k picks in each of b views at once, for each of m merits.

    features: (b, n, d), any float dtype; only the directions of the rows matter.
    merit: (m, b, n) or (b, n), >= 0.

    Ties, exact ones and those that differ by rounding alone (`plain.TIE`), go to the lower index.
    When no token is independent of the picked ones any more (sine <= `plain.DEPENDENT`; zero
    vectors and tokens of no merit never are), the rest follow by highest merit, with gain 0.
    """
    shape = (*merit.shape[:-1], k)
    features, merit = features.detach(), merit.reshape(-1, *features.shape[:2])
    picks = None
    if features.is_cuda and fused.available(features.device):
        *parts, complete = _replay(features, merit, k=k)
        picks = Picks(*parts) if bool(complete) else None
    if picks is None:
        rows, merit, scale, run = _first_round(features, merit, k)
        for i, v in (run.num_valid_steps < k).nonzero().tolist():
            _finish(rows[v], merit[i, v], run, i, v)
        picks = _picks(run, scale)
    return Picks(*(part.reshape(shape) for part in picks))


def _one_round(features: Tensor, merit: Tensor, k: int) -> tuple[Tensor, ...]:
    """Picks (m, b, k) of the first round alone, and whether there is nothing left to do."""
    _, _, scale, run = _first_round(features, merit, k)
    return *_picks(run, scale), (run.num_valid_steps == k).all()


_replay = Replay(_one_round)


def _first_round(features: Tensor, merit: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Run]:
    """Unit rows (b, n, d), merit (m, b, n) from 0 to 1, its scale (m, b, 1), and the round."""
    rows = features.to(torch.float64, copy=True)
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    rows /= norm.masked_fill(norm == 0, 1.0)
    start = (norm.squeeze(-1) > 0).double()  # u, exactly 1, however unit rows round
    merit = merit.double()
    scale = merit.amax(dim=-1, keepdim=True)
    merit = merit / scale.masked_fill(scale == 0, 1.0)
    return rows, merit, scale, _round(rows, start, merit, k)


def _picks(run: Run, scale: Tensor) -> Picks:
    margin = (1 - run.second / run.value.masked_fill(run.value == 0, 1.0)).clamp(0, 1)
    return Picks(run.order, run.value * scale, margin)


class Run(NamedTuple):
    """The steps of a round; (m, b, k) each, `num_valid_steps` (m, b).

    order: what was picked. value: merit_i * u_i of it. second: the second largest value.
    num_valid_steps: how many of the first steps are right; what follows them means nothing.
    """

    order: Tensor
    value: Tensor
    second: Tensor
    num_valid_steps: Tensor


def _round(rows: Tensor, start: Tensor, merit: Tensor, k: int) -> Run:
    """Up to k steps from rows (b, n, d) whose squared lengths are start (b, n); merit (m, b, n)."""
    by_kernel = rows.is_cuda and fused.available(rows.device)
    take_steps = fused.steps if by_kernel else plain.steps
    steps = take_steps(rows, start, merit, k)
    return Run(*steps, _num_valid_steps(*steps[:2], merit * start))


def _num_valid_steps(order: Tensor, value: Tensor, reach: Tensor) -> Tensor:
    """How many of the first t steps are right: (m, b) from (m, b, t) twice and reach (m, b, n).

    A step is, where something independent was left, and where what it picked is worth more than
    `plain.TRUST` of what any token not yet picked was worth when the round began.
    """
    picked = reach.gather(-1, order).masked_fill(value <= 0, 0.0)  # no step, no pick
    open_ = reach.scatter(-1, order, 0.0).amax(dim=-1, keepdim=True)  # never picked
    later = picked.flip(-1).cummax(dim=-1).values.flip(-1)  # picked at t or after
    right = (value > 0) & (value >= plain.TRUST * torch.maximum(open_, later))
    return right.long().cumprod(dim=-1).sum(dim=-1)


def _finish(rows: Tensor, merit: Tensor, run: Run, i: int, v: int) -> None:
    """Continue view v with merit i where its first round ended, writing into `run`.

    rows: (n, d) the unit rows; merit: (n,), used up.
    """
    order, value, second = (part[i, v] for part in run[:3])
    k, done = len(order), int(run.num_valid_steps[i, v])
    new_picks = order[:done]  # picks since the residuals were last recomputed
    while done < k:
        rows = project_out(rows, new_picks)
        start = rows.square().sum(dim=-1)
        merit[order[:done]] = 0.0
        alive = merit.masked_fill(start <= plain.DEPENDENT**2, 0.0)
        if not bool((alive > 0).any()):
            break
        more = _round(rows[None], start[None], alive[None, None], k - done)
        begin, done = done, done + int(more.num_valid_steps)
        for part, new in zip((order, value, second), more[:3], strict=True):
            part[begin:done] = new[0, 0, : done - begin]
        new_picks = order[begin:done]
    order[done:] = largest(merit.index_fill(0, order[:done], -1.0), k - done)
    value[done:] = second[done:] = 0.0
