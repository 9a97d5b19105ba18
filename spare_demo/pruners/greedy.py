"""The greedy loop that SPARE and CDPruner share.

With u_i the squared sine of the angle between token i and the span of the tokens picked so far,
each step picks the largest merit_i * u_i. SPARE's merit is rho_i ||x_i||^2, CDPruner's is w_i^2.

This is SPARE's Algorithm 1, lines 5-13 (arXiv 2606.18681), whose r_i is ||x_i||^2 u_i: modified
Gram-Schmidt with pivoting. It is equally greedy pivoted Cholesky on the Gram matrix of the rows
sqrt(merit_i) x_i / ||x_i||, that is greedy MAP for the determinantal point process with that
kernel, which is how CDPruner (arXiv 2506.10967) does it. The Gram matrix squares the condition
number: on nearly rank-deficient features the released CDPruner takes the root of a negative
number and repeats picks. So the loop works on the rows, in float64 whatever the input.
For n = 576, d = 4096 all 576 picks take a fraction of a second on one core.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spare_demo.pruners.views import pick_per_view
from spare_demo.tokens import Selection, VisualTokens

DEPENDENT = 1e-6
"""A token whose sine to the span of the picked ones is no larger lies in it: features come in
float32 at best, and a sine of this size is what rounding leaves of a true dependence there."""

TIE = 1e-14
"""Residual lengths this close, against the tokens' own lengths, differ by rounding alone."""


def select_greedily(tokens: VisualTokens, merit: Tensor, k: int) -> Selection:
    """Pick k of the n tokens by merit (n,) times novelty, each view (crop) by itself."""

    def rank(members: Tensor, count: int) -> tuple[Tensor, Tensor]:
        members = members.to(tokens.features.device)
        return greedy(tokens.features[members], merit.to(members.device)[members], count)

    return pick_per_view(tokens, k, rank)


def greedy(features: Tensor, merit: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k picks in each of b views at once.

    features: (b, n, d), any float dtype; only the directions of the rows matter.
    merit: (b, n), >= 0.
    Returns order (b, k), distinct indices into n, and gain (b, k) float64, the value of
    merit_i * u_i when picked, >= 0.

    Ties, exact ones and those that differ by rounding alone (`TIE`), go to the lower index.
    When no token is independent of the picked ones any more (sine <= `DEPENDENT`; zero vectors
    and tokens of no merit never are), the rest follow by highest merit, with gain 0.
    """
    b, n, d = features.shape
    rows = features.double()
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    rows = rows / norm.masked_fill(norm == 0, 1.0)
    if d > n:  # n coordinates hold the same angles
        rows = torch.linalg.qr(rows.mT, mode="r").R.mT

    length = merit.double().sqrt()  # (b, n), of the weighted rows
    scale = length.amax(dim=-1, keepdim=True)
    length = length / scale.masked_fill(scale == 0, 1.0)
    slack = TIE * length
    sine = ((norm.squeeze(-1) > 0) & (length > 0)).double()  # exactly 1, however unit rows round
    # Negative, hence after every independent token: -1 for the highest merit, then -2, ...
    rest = -1.0 - length.sort(dim=-1, descending=True, stable=True).indices.argsort(dim=-1).double()

    places = torch.arange(n, device=features.device).expand(b, n)
    order = torch.empty(b, k, dtype=torch.long, device=features.device)
    gain = rows.new_empty(b, k)
    for t in range(k):
        value = torch.where(sine > DEPENDENT, length * sine, rest)
        best = value.amax(dim=-1, keepdim=True)
        pick = places.masked_fill(value + slack < best, n).amin(dim=-1, keepdim=True)  # (b, 1)
        order[:, t : t + 1] = pick
        gain[:, t : t + 1] = value.gather(1, pick).clamp_min(0).square()

        pivot = sine.gather(1, pick)[..., None]  # (b, 1, 1), the norm of the residual row
        q = rows.gather(1, pick[..., None].expand(b, 1, rows.shape[-1]))
        q = (q / pivot.clamp_min(DEPENDENT)).masked_fill(pivot <= DEPENDENT, 0.0)
        rows = rows - (rows @ q.mT) @ q  # what is left of each row outside the span
        sine = torch.where(sine > 0, torch.linalg.vector_norm(rows, dim=-1), 0.0)
        sine = sine.scatter(1, pick, 0.0)
        rest = rest.scatter(1, pick, -torch.inf)
    return order, gain * scale.square()
