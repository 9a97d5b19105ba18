"""How far back the attention of a language model looks."""

from __future__ import annotations

import math
from typing import Any

from transformers import DynamicCache


def window(hf: Any) -> float:
    """Positions that every layer sees at least, its own included; infinity where none slides."""
    layers: list[Any] = DynamicCache(config=hf.config).layers
    return min(
        (layer.sliding_window for layer in layers if getattr(layer, "is_sliding", False)),
        default=math.inf,
    )
