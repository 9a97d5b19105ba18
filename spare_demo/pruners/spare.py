"""SPARE: keep the tokens from which the rest can be reconstructed, weighted by the text.

Paper: arXiv 2606.18681, Sec. 3.2-3.4, Algorithm 1 and Table A3. No code is published; what the
paper leaves open is in `deviations`, with what is taken here and how to take the other.

    lines 1-2   a_n   = mean_m( -cos(e_n, t_m) )          anti-relevance
    lines 3-4   rho_n = log(1 + exp((a_n - mean a) / std a))
    lines 5-13  k times: pick the largest rho_n r_n, r_n = ||x_n||^2 u_n the squared residual of
                token n outside the span of the picked ones, by modified Gram-Schmidt

The last step is `greedy.py` with merit rho_n ||x_n||^2. The features are not normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import by_setting, setting
from spare_demo.pruners.greedy import Greedy
from spare_demo.pruners.views import views_of
from spare_demo.relevance import Aggregation, aggregate, minmax_weight, raw_cosine, softplus_weight
from spare_demo.tokens import VisualTokens

_OPEN = (
    "No code is published. What the paper leaves open is taken as follows; where an option is "
    "named, it takes the other choice, as a control on the page does. Several views (crops) get "
    "equal shares of the budget, as in CDPruner's code; --together spends it over all of them at "
    "once. Residuals are in float64, of the rows themselves instead of their squared lengths; ties "
    "go to the lower index."
)
_OPEN_OF_TEXT = (
    f"{_OPEN} A question is one text embedding per stretch of 77 tokens; --relevance-text tokens "
    "takes one per token of it. Patches are read at the tower's last layer but one; "
    "--relevance-layer -1 reads the last. The z-score is over all views together; statistics=view "
    "takes each by itself. The standard deviation is the population's. With max aggregation the "
    "maximum is taken before the sign is turned."
)
_SUMMARY = "At each pick, the token with the most left to rebuild"
_FORMS = {  # guidance: name, title, summary, paper, needs_text, text_free, deviations
    "anti": (
        "spare",
        "SPARE",
        f"{_SUMMARY}, favouring tokens least like the question.",
        "SPARE, Algorithm 1",
        True,
        "spare-reconstruction",
        _OPEN_OF_TEXT,
    ),
    "none": (
        "spare-reconstruction",
        "SPARE, reconstruction only",
        f"{_SUMMARY}; the question plays no part.",
        "SPARE, Figure 5, Tables 5 and 6",
        False,
        None,
        _OPEN,
    ),
    "normal": (
        "spare-normal-relevance",
        "SPARE, normal relevance",
        f"{_SUMMARY}, favouring tokens most like the question.",
        "SPARE, Figure 5",
        True,
        "spare-reconstruction",
        _OPEN_OF_TEXT,
    ),
}


@dataclass(frozen=True)
class Spare(Greedy):
    """Gain: rho_n times the squared residual norm, in squared units of the features."""

    aggregation: Aggregation = setting(
        ("mean", "max"), "Aggregation", "How text pieces become one cosine."
    )
    squash: Literal["softplus", "minmax"] = setting(
        ("softplus", "minmax"),
        "Weight",
        "softplus: z-score, then softplus, as in Algorithm 1. minmax: CDPruner's min-max.",
    )
    guidance: Literal["anti", "none", "normal"] = setting(
        ("anti", "none", "normal"),
        "Text guidance",
        "anti favours tokens unlike the question, normal those like it, none ignores it.",
    )
    statistics: Literal["joint", "view"] = setting(
        ("joint", "view"),
        "Statistics of the weight",
        "joint: mean and deviation (or least and most) of all tokens of the picture. view: of "
        "each view (crop) by itself.",
    )

    name, title, summary, paper, needs_text, text_free, deviations = by_setting("guidance", _FORMS)
    link = "https://arxiv.org/abs/2606.18681"
    cost = "O(n² d + n² k)"

    def weight(self, tokens: VisualTokens) -> Tensor | None:
        """(n,) rho, which multiplies the squared residual once."""
        if self.guidance == "none":
            return None
        cosine = raw_cosine(*tokens.image_and_text())
        relevance = aggregate(cosine, self.aggregation)  # (n,) high: like the question
        favoured = -relevance if self.guidance == "anti" else relevance
        squash = softplus_weight if self.squash == "softplus" else minmax_weight
        if self.statistics == "joint":
            return squash(favoured)
        weight = torch.empty_like(favoured)
        for view in views_of(tokens):
            members = view.to(favoured.device)
            weight[members] = squash(favoured[members])
        return weight

    def factors(self, tokens: VisualTokens) -> tuple[Tensor, Tensor]:
        """(n,) ||x_n||^2 and (n,) rho_n, which is 1 without text guidance."""
        magnitude = tokens.features.detach().double().square().sum(dim=1)
        rho = self.weight(tokens)
        text = torch.ones_like(magnitude) if rho is None else rho.to(magnitude.device)
        return magnitude, text
