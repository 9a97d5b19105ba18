"""The decoder's keys and values: what transformers calls them, and the bytes that they take."""

from __future__ import annotations

import inspect
from typing import Any

from transformers import DynamicCache
from transformers.masking_utils import create_causal_mask

_PARAMETERS = inspect.signature(create_causal_mask).parameters
CACHE = "cache" if "cache" in _PARAMETERS else "past_key_values"
"""The argument that models, decoder layers and masks take them by; renamed in transformers 5.24."""


def cache_bytes(cache: DynamicCache) -> int:
    """Bytes of the keys and values a cache holds, all layers."""
    layers: list[Any] = cache.layers
    return sum(t.nbytes for layer in layers for t in (layer.keys, layer.values))
