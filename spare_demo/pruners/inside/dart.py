"""DART: early in the language model, keep what resembles a few pivot tokens least.

Paper: arXiv 2502.11494. Released code: ZichenWen1/DART, as its ports agree on it.

    pivots  4 visual and 4 text tokens with the largest L1 norm of their keys in layer K-1
    keep    the visual pivots; then each pivot in turn, visual ones first, adds the t tokens left
            whose states (after the final norm) have the lowest cosine to its own

It acts before layer K (from 0; 2 of 32); positions are kept. The released count is T visual tokens
in name and 4 + 8 floor(T / 8) in fact, after layer K.

Norms are of the keys of all heads together, as in one port; the original's own files could not be
read. Text pivots come from the text after the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from spare_demo.pruners.base import largest, setting
from spare_demo.pruners.dart import spread_out
from spare_demo.pruners.inside.base import OneStop
from spare_demo.pruners.plan import Choice, LayerReading, Stop


@dataclass(frozen=True)
class Dart(OneStop):
    """Redundancy to pivots, no attention: duplicates go first."""

    image_pivots: int = setting(
        4, "Visual pivots", "Visual tokens that others are compared with.", limits=(1, 64)
    )
    text_pivots: int = setting(
        4, "Text pivots", "Text tokens that others are compared with.", limits=(0, 64)
    )
    counting: Literal["average", "released"] = setting(
        ("average", "released"),
        "Budget counts",
        "average: over all layers. released: T, of which the code makes 4 + 8 floor(T / 8).",
    )

    name = "dart"
    title = "DART"
    summary = "After a few layers, the tokens least like a few pivots with large keys."
    paper = "DART, EMNLP 2025"
    link = "https://arxiv.org/abs/2502.11494"
    reads = ("keys of the layer before", "states after the final norm")
    cost = "cosines of n tokens to 8 pivots: O(n d)"
    deviations = (
        "Keys as they are cached, after rotation; pivots in the order of their norm, visual ones "
        "first. In the copy of the code that was read, a set gives their order, which leaves 96 to "
        "97 % of recorded picks the same, and a reshape of keys mixes heads and rows, which leaves "
        "11 to 18 % of recorded picks the same. Left-over places go to the first pivots. K is "
        "scaled to the depth of the model. The budget is the average over layers; with "
        "counting=released the code's own T."
    )

    @property
    def counting_note(self) -> str:  # type: ignore[override]
        return f"{'' if self.budget_is_average else 'nominal '}{super().counting_note}"

    def nominal(self, n: int, k: int) -> int:
        pivots = self.image_pivots + self.text_pivots
        return min(n, self.image_pivots + pivots * (k // pivots))

    def choose(self, reading: LayerReading, stop: Stop) -> Choice:
        norms = reading.keys().abs().sum(dim=-1)  # (T,)
        states = torch.nn.functional.normalize(reading.normed().float(), dim=-1)
        visual = largest(norms[reading.visual], min(self.image_pivots, stop.keep))
        text = largest(norms[reading.text], self.text_pivots)
        pivots = torch.cat([states[reading.visual][visual], states[reading.text][text]])
        likeness = pivots @ states[reading.visual].T  # (pivots, v) cosines
        return Choice(spread_out(likeness, visual, stop.keep)[0])
