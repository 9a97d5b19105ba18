"""The one order in which scores are ranked, whatever the method."""

from __future__ import annotations

from torch import Tensor


def largest(values: Tensor, count: int) -> Tensor:
    """(count,) places of the largest of (n,) values, largest first; ties to the lower place."""
    return values.sort(descending=True, stable=True).indices[:count]
