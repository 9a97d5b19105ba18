"""Greedy column subset selection: each step takes the token that lowers the error most.

Paper: Farahat, Elgohary, Ghodsi and Kamel, arXiv 1312.6838.

    E    what the picked tokens leave of the features X: E = X - X P, not centred
    G    = E E^T
    each step picks  argmax_n  sum_j G_nj^2 / G_nn      by so much ||E||^2 falls

SPARE without text (arXiv 2606.18681) looks at one token's own residual, G_nn, which is a part of
that sum: this is what it would pick if it looked one step ahead. The two differ where a long token
is alone in its direction. It is greedy, so not the best set of k, which nobody can find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from spare_demo.pruners.base import largest
from spare_demo.pruners.cosines import gram_matrix, in_largest_units, project_out
from spare_demo.pruners.plain import DEPENDENT
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import Selection, VisualTokens, count_informed

TIE = 2e-14
"""Falls this close, where nothing of a token has been explained yet, differ by rounding alone; the
more of it has been, the more. Of equal falls the lower index is picked. Where one direction is
left, all falls are equal."""

TRUST = 1e-4
"""Where a pick has less than this share left of what it had when the products were last made,
rounding would show in what it takes from the others. The products are then made again first."""


@dataclass(frozen=True)
class ColumnSubset(ViewPruner):
    """Gain: by how much the squared error of the view falls, as a share of ||X||^2."""

    name = "column-subset"
    title = "Greedy column subset"
    summary = "At each step the token that lowers the reconstruction error most."
    paper = "Greedy column subset selection"
    nested = True
    link = "https://arxiv.org/abs/1312.6838"
    group = "controls"
    cost = (
        "O(n² d + n² k): all products of two rows, where SPARE makes those of the rows it is about "
        "to pick"
    )
    deviations = "Exact products in place of random ones; tokens within the span follow by length."

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        selection = super()._select(tokens, k)
        return replace(selection, informed=count_informed(selection.gain))

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        return lower_error(tokens.features[view], share)


def lower_error(features: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(n, d) -> (k,) distinct picks in order, and (k,) float64 the fall of each, on the CPU.

    When every token lies in the span of the picked ones (sine <= `DEPENDENT`), the rest follow by
    length, with a fall of 0.
    """
    rows = in_largest_units(features)
    gram = gram_matrix(rows)
    length = begin = gram.diagonal().clone()  # begin: what the last products made had left of each
    order, fall = torch.empty(k, dtype=torch.long), gram.new_zeros(k)
    places = torch.arange(len(gram))
    t = 0
    while t < k:
        left = gram.diagonal()
        value = torch.linalg.vector_norm(gram, dim=1).square() / left
        value = value.where(left > DEPENDENT**2 * length, 0.0)  # a zero token: 0 / 0
        best = value.max()
        if not best > 0:
            # Not by `length`: the products of equal rows round by where they stand in the matrix.
            norm = torch.linalg.vector_norm(rows, dim=1).cpu()
            order[t:] = largest(norm.index_fill(0, order[:t], -1.0), k - t)
            break
        slack = TIE * value * (begin * length).sqrt() / left.where(value > 0, 1.0)
        pick = places.masked_fill(value + slack < best, len(gram)).min()
        if left[pick] < TRUST * begin[pick]:
            gram = gram_matrix(project_out(rows, order[:t].to(rows.device)))
            begin = gram.diagonal().clone()
            continue
        order[t], fall[t] = pick, value[pick]
        column = gram[:, pick] / left[pick].sqrt()
        gram.addr_(column, column, alpha=-1)
        gram[pick, :] = gram[:, pick] = 0.0  # what rounding leaves of a picked token
        t += 1
    total = length.sum()
    return order, fall / total if total > 0 else fall
