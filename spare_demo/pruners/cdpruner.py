"""CDPruner: keep tokens that differ from each other, weighted by the text (conditional DPP).

Paper: arXiv 2506.10967. Released code: Theia-4869/CDPruner, llava_arch.py (encode_images) and
clip_encoder.py.

    S_ij = cos(x_i, x_j)                                  conditional similarity
    w_i  = (a_i - min a + 1e-6) / (max a - min a)         a: mean over the text pieces
    L    = diag(w) S diag(w), greedy MAP of det(L_kept)   the weight enters squared

The text of the paper describes a = +cos (relevance); the released code has a = -cos. Both are
here under their names. Statistics run over all views jointly, picks view by view, as released.
The last line is `greedy.py` with merit w_i^2. As released means formulas and signs, not rounding,
which makes a NaN in the released code at times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import by_setting, setting
from spare_demo.pruners.greedy import Greedy
from spare_demo.relevance import aggregate, minmax_weight, raw_cosine
from spare_demo.tokens import VisualTokens

_EXACT = "Exact where the released code rounds: unit rows in float64 instead of half precision,"
_FORMS = {  # form: name, title, summary, needs_text, text_free, deviations
    "released": (
        "cdpruner",
        "CDPruner",
        "At each pick, the token least like those picked, favouring tokens least like the "
        "question, as released.",
        True,
        "cdpruner-diversity",
        f"{_EXACT} and no token twice, where the code repeats tokens once it is past the rank of "
        "the features. Where recorded picks differ, 52 to 58 % are the same.",
    ),
    "paper": (
        "cdpruner-paper",
        "CDPruner, sign of the paper",
        "At each pick, the token least like those picked, favouring tokens most like the "
        "question, as the paper's text describes it.",
        True,
        "cdpruner-diversity",
        f"{_EXACT} no token twice.",
    ),
    "none": (
        "cdpruner-diversity",
        "CDPruner, diversity only",
        "At each pick, the token least like those picked; the question plays no part. Starts at "
        "the first token.",
        False,
        None,
        f"{_EXACT} no token twice.",
    ),
}


@dataclass(frozen=True)
class CDPruner(Greedy):
    """Gain: w_i^2 times the squared sine to the picked tokens, the DPP's conditional variance."""

    form: Literal["released", "paper", "none"] = setting(
        ("released", "paper", "none"),
        "Relevance",
        "released: negated cosine, as in the code. paper: cosine, as in the text. none: no text.",
    )

    name, title, summary, needs_text, text_free, deviations = by_setting("form", _FORMS)
    paper = "CDPruner"
    link = "https://arxiv.org/abs/2506.10967"
    cost = "O(n² d + n² k)"

    def weight(self, tokens: VisualTokens) -> Tensor | None:
        """(n,) w, which enters the criterion squared; over all views jointly."""
        if self.form == "none":
            return None
        relevance = aggregate(raw_cosine(*tokens.image_and_text()))
        return minmax_weight(-relevance if self.form == "released" else relevance)

    def factors(self, tokens: VisualTokens) -> tuple[Tensor, Tensor]:
        """(n,) ones, for only directions count, and (n,) w_n^2.

        Without text the diagonal is exactly 1: the first pick is index 0 by the tie rule.
        """
        ones = torch.ones(tokens.n, dtype=torch.float64, device=tokens.features.device)
        w = self.weight(tokens)
        return ones, ones if w is None else w.to(ones.device).square()
