"""What the methods that merge tokens share: rows mixed from the tower's states, and outliers.

Mixing comes before the projector, so a merged row is the projector's output for a mixture, not a
mixture of its outputs. A row that is one token unchanged is that token's own features.

A row that stands for s tokens gets the attention of one; with `size_bias="log"` the log of s is
added to its scores, as if its keys and values were there s times. RESTORE (ICML 2026) has a bias
like it, and more that is not here: log(N / n) for each of n rows of N tokens in layer 0, a term
log(2 - mean cos(d w)) over the rotary frequencies w, and positions at the median of a group.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from spare_demo.pruners.base import Pruner, setting
from spare_demo.tokens import Selection, VisualTokens

Size = Literal["budget", "adaptive"]

SIZE = (
    ("budget", "adaptive"),
    "How many tokens",
    "budget: as many as the budget says. adaptive: as many as stand out in this picture, whatever "
    "the budget, as released.",
)
"""The words of the setting `size`, as `setting` takes them."""


@dataclass(frozen=True, kw_only=True)
class MergingPruner(Pruner):
    """A method whose rows may be mixed from several tokens."""

    size_bias: Literal["none", "log"] = setting(
        ("none", "log"),
        "Attention to merged rows",
        "none: as to one token, as released. log: as to as many as are in the row, by the log "
        "of their number added to the scores in every layer; then answers are made one by one.",
    )

    merges = True

    def select(self, tokens: VisualTokens, budget: int) -> Selection:
        """As `Pruner.select`, with the bias that is set."""
        selection = super().select(tokens, budget)
        if self.size_bias == "none":
            return selection
        assert selection.sources is not None  # of every method that merges
        return dataclasses.replace(selection, bias=log_sizes(selection.sources))


def log_sizes(sources: Tensor) -> Tensor:
    """(r,) the log of how many tokens have a part in each row of (r, n) sources.

    0 for a row that is one token, or none, such as the class token.
    """
    return (sources != 0).sum(dim=1).clamp_min(1).float().log()


def merged_selection(
    tokens: VisualTokens,
    order: Tensor,
    gain: Tensor,
    sources: Tensor,
    class_of: Tensor | None = None,
) -> Selection:
    """A selection whose rows are the projector's output for mixtures of the states.

    order, gain: (k,) the tokens the rows grew from, as `Selection` has them.
    sources: (r, n) float64 CPU, how much of each token's state goes into each row.
    class_of: (r,) the number of the view whose class token the row is, or -1; None for no such row.
    """
    states, project = tokens.states, tokens.project
    assert states is not None and project is not None  # needs
    mixtures = sources @ states.detach().cpu().double()  # (r, w)
    if class_of is not None:
        assert tokens.class_states is not None  # needs
        rows = class_of >= 0
        mixtures[rows] = tokens.class_states.detach().cpu().double()[class_of[rows]]
    unmixed = ((sources != 0).sum(dim=1) == 1) & (sources.amax(dim=1) == 1)
    features = tokens.features.detach()
    rows = features.new_empty(len(mixtures), features.shape[1])
    rows[unmixed.to(rows.device)] = features[sources[unmixed].argmax(dim=1).to(rows.device)]
    if not bool(unmixed.all()):
        projected = project(mixtures[~unmixed].to(features.device))
        rows[~unmixed.to(rows.device)] = projected.to(features.device, features.dtype)
    return Selection(order, gain, rows, sources.float())


def outliers(values: Tensor) -> int:
    """How many of the values lie more than 1.5 interquartile ranges above the third quartile."""
    values = values.double()
    low, high = torch.quantile(values, torch.tensor([0.25, 0.75], dtype=values.dtype)).tolist()
    return int((values > high + 1.5 * (high - low)).sum())
