"""DART before the language model: pivots, and the tokens least like them.

Paper: DART, arXiv 2502.11494; as the "diversity only" row of SPARE's Table 6, arXiv 2606.18681,
which uses it on visual tokens alone and does not say how. DART itself reads keys of the language
model and has pivots among the words; at the projector there are neither. Our reading:

    pivots     the p tokens with the largest norm of x_n, p = 8 as in DART's 4 + 4
    for each   in that order: take the t = (k - p) / p left tokens with the lowest cosine to it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import largest, setting
from spare_demo.pruners.spread import cosine_distances
from spare_demo.pruners.views import ViewPruner
from spare_demo.tokens import VisualTokens


@dataclass(frozen=True)
class DartDiversity(ViewPruner):
    """Gain: of a pivot its norm, of the others 1 - cosine to the pivot that took it."""

    pivots: int = setting(8, "Pivots", "How many tokens start the choice.", limits=(1, 576))
    norm: Literal["l1", "l2"] = setting(
        ("l1", "l2"), "Norm of the pivots", "l1 as DART has it for keys, l2 the length."
    )

    name = "dart-diversity"
    title = "DART, diversity only"
    summary = "A few tokens with a large norm as pivots, and for each the tokens least like it."
    paper = "SPARE, Table 6, after DART"
    link = "https://arxiv.org/abs/2502.11494"
    cost = "O(n² d)"
    deviations = (
        "Our reading of a row of that table, which no paper defines: pivots by the norm of the "
        "features, none among the words; left-over places go to the first pivots."
    )

    def _pick(self, tokens: VisualTokens, view: Tensor, share: int) -> tuple[Tensor, Tensor]:
        order_of_norm = 1 if self.norm == "l1" else 2
        x = tokens.features[view].detach().cpu().double()
        length = torch.linalg.vector_norm(x, ord=order_of_norm, dim=1)
        pivots = largest(length, min(self.pivots, share))
        order, likeness = spread_out(-cosine_distances(x)[pivots], pivots, share)
        return order, torch.cat([length[pivots], -likeness])


def spread_out(likeness: Tensor, kept: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Each pivot in turn adds the rows least like it.

    likeness: (p, v) of each row to each pivot. kept: (j,) rows kept from the start. k: rows in all,
    j <= k <= v; what does not divide by p goes to the first pivots.
    Returns (k,) rows in the order they were added, and of those added, (k - j,), how like they are
    to the pivot that added them; on the CPU.
    """
    order = [kept.cpu()]
    values: list[Tensor] = []
    free = torch.ones(likeness.shape[1], dtype=torch.bool)
    free[order[0]] = False
    share, rest = divmod(k - len(kept), len(likeness))
    for turn, row in enumerate(likeness.cpu()):
        count = share + (turn < rest)
        added = row.masked_fill(~free, torch.inf).sort(stable=True).indices[:count]
        free[added] = False
        order.append(added)
        values.append(row[added])
    return torch.cat(order), torch.cat(values)
