"""ZOO-Prune: tokens to which the projector is sensitive, far from each other.

Paper: arXiv 2509.24837. Released code: ZOO-Prune, LLaVA/llava/model/llava_arch.py.

    s_n = mean_u || f(h_n + eps u) - f(h_n - eps u) || / (2 eps)     u: m random unit directions,
                                                                      the same for all tokens
    w_n = (s_n - min s) / (max s - min s + 1e-8)                      1 where s is constant
    first      argmax_n w_n
    then       argmax_n w_n min_{j picked} (1 - cos(x_n, x_j))

f is the projector, h_n what it is given, x_n = f(h_n); in half precision the difference is mostly
rounding. Each of several views is a picture by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.pruners.base import Pruner, setting
from spare_demo.pruners.spread import ROUNDING, cosine_distances, farthest_first
from spare_demo.pruners.views import pick_by_view
from spare_demo.tokens import Selection, VisualTokens


@dataclass(frozen=True)
class ZooPrune(Pruner):
    """Gain: w_n times the distance to the nearest picked token; of the first pick, w_n."""

    directions: int = setting(
        64, "Directions", "How many random directions are tried.", limits=(1, 1024)
    )
    step: float = setting(
        0.01, "Step", "How far along each direction the projector is tried.", limits=(1e-4, 10.0)
    )
    seed: int = setting(
        0, "Seed", "The same seed tries the same directions.", limits=(0, 2**32 - 1)
    )

    name = "zoo-prune"
    title = "ZOO-Prune"
    summary = "Tokens to which the projector is most sensitive, far from each other."
    paper = "ZOO-Prune"
    nested = True
    link = "https://arxiv.org/abs/2509.24837"
    seeded = True
    needs = frozenset({"states", "project"})
    cost = "O(n² d + n k), and 2m passes of the projector, m directions"
    deviations = (
        "float32 instead of half precision; several views keep the model's own projector, not a "
        "factored one. Where recorded picks differ, 75 to 97 % are the same."
    )

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        sensitivity = self.sensitivity(tokens)

        def pick(view: Tensor, share: int) -> tuple[Tensor, Tensor]:
            w = scaled(sensitivity[view])
            return farthest_first(cosine_distances(tokens.features[view]), w, w, share)

        return pick_by_view(tokens, k, pick)

    def sensitivity(self, tokens: VisualTokens) -> Tensor:
        """(n,) float64 s, how much the projector's output moves per unit of its input."""
        states, project = tokens.states, tokens.project
        assert states is not None and project is not None  # needs
        generator = torch.Generator().manual_seed(self.seed)
        u = torch.randn(self.directions, states.shape[1], generator=generator, dtype=torch.float64)
        u = u / torch.linalg.vector_norm(u, dim=1, keepdim=True).clamp_min(1e-12)
        rows, u = states.detach().double(), self.step * u.to(states.device)
        total = rows.new_zeros(len(rows))
        for shift in u:  # one at a time: 64 times the features would not fit beside a large model
            change = project(rows + shift).double() - project(rows - shift).double()
            total += torch.linalg.vector_norm(change, dim=1)
        return total.to(tokens.features.device) / (2 * self.step * self.directions)


def scaled(sensitivity: Tensor) -> Tensor:
    """(s,) float64 of a view -> w, 0 to 1; 1 where all differ by rounding alone."""
    low, high = sensitivity.aminmax()
    if high - low <= ROUNDING * high:
        return torch.ones_like(sensitivity)
    return (sensitivity - low) / (high - low + 1e-8)
