"""The settings of the table's published checkpoints, as in their config.json on the hub.

So their sizes are known without a download. What is not said here is as transformers has it by
default, such as LLaVA's tower, which is CLIP ViT-L/14-336.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import LlavaConfig, LlavaNextConfig, Qwen2_5_VLConfig

_LLAMA = {"model_type": "llama", "vocab_size": 32_064, "max_position_embeddings": 4096}
_13B = {
    "hidden_size": 5120,
    "intermediate_size": 13_824,
    "num_attention_heads": 40,
    "num_hidden_layers": 40,
    "num_key_value_heads": 40,
}
_TINY = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_attention_heads": 32,
    "num_hidden_layers": 22,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
}
_QWEN_3B = {
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "intermediate_size": 11_008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
_QWEN_7B = {
    "vocab_size": 152_064,
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
}

_CHECKPOINTS: dict[str, tuple[Any, dict[str, Any], torch.dtype]] = {
    "tiny-llava": (LlavaConfig, _TINY, torch.float32),
    "llava-1.5-7b": (LlavaConfig, {}, torch.float16),
    "llava-1.5-13b": (LlavaConfig, _13B, torch.float16),
    "llava-next-7b": (LlavaNextConfig, {}, torch.float16),
    "llava-next-13b": (LlavaNextConfig, _13B, torch.float16),
    "qwen2.5-vl-3b": (Qwen2_5_VLConfig, _QWEN_3B, torch.bfloat16),
    "qwen2.5-vl-7b": (Qwen2_5_VLConfig, _QWEN_7B, torch.bfloat16),
}
"""By its name in the table: its settings' class, its sizes, and the number format of its files."""

STORED = {name: dtype for name, (_, _, dtype) in _CHECKPOINTS.items()}
"""The number format of each checkpoint's files."""


@cache
def published_config(name: str) -> Any:
    """The transformers config of a model of the table that is not the built-in one; KeyError."""
    kind, sizes, dtype = _CHECKPOINTS[name]
    text = {**_LLAMA, **sizes}
    config = _qwen(sizes) if kind is Qwen2_5_VLConfig else kind(text_config=text)
    config.dtype = dtype
    return config


def _qwen(sizes: dict[str, Any]) -> Qwen2_5_VLConfig:
    """Published flat: the text model's sizes stand beside vision_config."""
    vision = {
        "hidden_size": 1280,
        "out_hidden_size": sizes["hidden_size"],
        "tokens_per_second": 2,
    }
    text: dict[str, Any] = {
        "max_position_embeddings": 128_000,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "rms_norm_eps": 1e-6,
        **sizes,
    }
    return Qwen2_5_VLConfig(vision_config=vision, **text)
