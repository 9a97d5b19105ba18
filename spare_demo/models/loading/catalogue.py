"""The table of models: the built-in one, and the published ones by short names.

Of these also the settings, as in their config.json on the hub, so that their sizes are known
without a download. What is left out is transformers' default, such as LLaVA's tower, which is CLIP
ViT-L/14-336.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from transformers import LlavaConfig, LlavaNextConfig, Qwen2_5_VLConfig

_PACKAGE = Path(str(files("spare_demo")))
# Installed, the assets lie inside the package; in a checkout beside it.
ASSETS = next(p for p in (_PACKAGE / "assets", _PACKAGE.with_name("assets")) if p.is_dir())
AUTO = "auto"
# LLaVA-1.5's frozen tower. open_clip's name without quickgelu runs another activation.
OPENAI_CLIP = ("ViT-L-14-336-quickgelu", "openai")


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    Attributes:
        source: a folder with its text side in ``clip/``, or a repository of the Hugging Face hub,
            of which those with CLIP's tower have OPENAI_CLIP's.
        needs: in words, for the table.
        note: what a visitor should know of its results, or "".
        system: the system sentence that its prompts begin with; see `generate/prompt.py`.
    """

    name: str
    title: str
    description: str
    source: Path | str
    needs: str
    note: str = ""
    system: str = "none"


BUILT_IN = Entry(
    name="built-in",
    title="Built-in model",
    description=(
        "A small model trained on drawn scenes. It knows nothing about photos; for photos, use "
        "`--model tiny-llava`."
    ),
    source=ASSETS / "built-in",
    needs="any computer; its weights come with the program",
)
TINY_LLAVA = Entry(
    name="tiny-llava",
    title="TinyLLaVA",
    description=(
        "TinyLLaVA, 1.4 billion parameters behind LLaVA-1.5's own vision tower. It answers "
        "questions about photos on any recent computer."
    ),
    source="bczhou/tiny-llava-v1-hf",
    needs="6 GB of free memory, no GPU; downloads 7 GB the first time",
    note="Relevance uses OpenAI's CLIP text side; it is exact only if TinyLLaVA left that tower as "
    "it was.",
)
LLAVA_7B = Entry(
    name="llava-1.5-7b",
    title="LLaVA-1.5-7B",
    description="LLaVA-1.5-7B, the model of both papers. It answers questions about photos.",
    source="llava-hf/llava-1.5-7b-hf",
    needs="18 GB free on a CUDA GPU, else minutes for an answer; downloads 15 GB the first time",
    system="vicuna_v1",
)
NO_CLIP = (
    "No relevance by CLIP, so methods read the question by guidance_text=words or not at all: "
)
NO_CLIP_TOWER = f"{NO_CLIP}this model's vision tower is not CLIP's."
_TUNED = (
    "Relevance uses OpenAI's CLIP text side. LLaVA-NeXT trained its vision tower further, so the "
    "two sides fit each other less well than in LLaVA-1.5."
)


def _large(name: str, title: str, source: str, gpu: int, download: int, **more: Any) -> Entry:
    return Entry(
        name=name,
        title=title,
        description=f"{title}. It answers questions about photos.",
        source=source,
        needs=f"{gpu} GB free on a CUDA GPU; downloads {download} GB the first time",
        **more,
    )


# The gigabytes are those that `memory.needed_bytes` gives, rounded up; tests hold them to it.
_NEXT = "llava-hf/llava-v1.6-vicuna"
_VICUNA: dict[str, Any] = {"system": "vicuna_v1"}
_TUNED_VICUNA: dict[str, Any] = {**_VICUNA, "note": _TUNED}
_QWEN: dict[str, Any] = {"note": NO_CLIP_TOWER}
LARGER = (
    _large("llava-1.5-13b", "LLaVA-1.5-13B", "llava-hf/llava-1.5-13b-hf", 32, 28, **_VICUNA),
    _large("llava-next-7b", "LLaVA-NeXT-7B", f"{_NEXT}-7b-hf", 20, 15, **_TUNED_VICUNA),
    _large("llava-next-13b", "LLaVA-NeXT-13B", f"{_NEXT}-13b-hf", 35, 28, **_TUNED_VICUNA),
    _large("qwen2.5-vl-3b", "Qwen2.5-VL-3B", "Qwen/Qwen2.5-VL-3B-Instruct", 9, 8, **_QWEN),
    _large("qwen2.5-vl-7b", "Qwen2.5-VL-7B", "Qwen/Qwen2.5-VL-7B-Instruct", 19, 17, **_QWEN),
)
CATALOGUE = {entry.name: entry for entry in (BUILT_IN, TINY_LLAVA, LLAVA_7B, *LARGER)}


AUTO_MEANS = (
    f"{LLAVA_7B.name} where a CUDA GPU has room for it; else {TINY_LLAVA.name} on a Space or "
    f"where its weights are here; else {BUILT_IN.name}."
)

_LLAMA = {"model_type": "llama", "vocab_size": 32_064, "max_position_embeddings": 4096}


def _sizes(
    hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, **more: Any
) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        **more,
    }


_13B = _sizes(5120, 13_824, 40, 40, 40)
_TINY = _sizes(2048, 5632, 22, 32, 4, max_position_embeddings=2048)
_QWEN_3B = _sizes(2048, 11_008, 36, 16, 2, vocab_size=151_936, tie_word_embeddings=True)
_QWEN_7B = _sizes(3584, 18_944, 28, 28, 4, vocab_size=152_064, tie_word_embeddings=False)

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

PUBLISHED = tuple(_CHECKPOINTS)
"""The names of all models of the table but the built-in one."""


@cache
def published_config(name: str) -> Any:
    """The transformers config of one of `PUBLISHED`, its dtype that of the files; else KeyError."""
    kind, sizes, dtype = _CHECKPOINTS[name]
    text = {**_LLAMA, **sizes}
    config = _qwen(sizes) if kind is Qwen2_5_VLConfig else kind(text_config=text)
    config.dtype = dtype
    return config


def _qwen(sizes: dict[str, Any]) -> Qwen2_5_VLConfig:
    """Published flat: the text model's sizes stand beside vision_config."""
    vision = {"hidden_size": 1280, "out_hidden_size": sizes["hidden_size"], "tokens_per_second": 2}
    text: dict[str, Any] = {
        "max_position_embeddings": 128_000,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "rms_norm_eps": 1e-6,
        **sizes,
    }
    return Qwen2_5_VLConfig(vision_config=vision, **text)
