"""The table of models, and what it says of LLaVA-1.5-7B, whose weights cannot be had here."""

from __future__ import annotations

from pathlib import Path

import open_clip
import torch

from spare_demo.models import CATALOGUE, LlavaModel
from spare_demo.models.loading import machine
from spare_demo.models.loading.catalogue import (
    BUILT_IN,
    LLAVA_7B,
    OPENAI_CLIP,
    PUBLISHED,
    published_config,
)
from spare_demo.models.loading.memory import count_weights
from spare_demo.models.loading.text_tower import vision_is_openai_clip


def test_the_table_of_models() -> None:
    assert list(CATALOGUE) == [
        "built-in",
        "tiny-llava",
        "llava-1.5-7b",
        "llava-1.5-13b",
        "llava-next-7b",
        "llava-next-13b",
        "qwen2.5-vl-3b",
        "qwen2.5-vl-7b",
    ]
    entries = CATALOGUE.values()
    assert all(entry.title and entry.needs and entry.description for entry in entries)
    assert BUILT_IN.description == (
        "A small model trained on drawn scenes. It knows nothing about photos; for photos, use "
        "`--model tiny-llava`."
    )
    assert BUILT_IN.source == Path(__file__).resolve().parents[3] / "assets" / "built-in"


def test_7b_fits_a_24_gb_gpu_with_its_text_side() -> None:
    llava_7b = published_config(LLAVA_7B.name)
    weights = 2 * count_weights(llava_7b, LlavaModel).count  # half precision
    assert 14.0e9 < weights < 14.3e9

    config = open_clip.get_model_config(OPENAI_CLIP[0])
    with torch.device("meta"):
        clip = open_clip.CLIP(**config)
    visual = sum(p.numel() for p in clip.visual.parameters())
    text_side = 4 * (sum(p.numel() for p in clip.parameters()) - visual + 1024 * 768 + 2 * 1024)
    assert text_side < 0.55e9

    text = llava_7b.text_config
    per_token = 2 * text.num_hidden_layers * text.num_key_value_heads * 128 * 2
    assert per_token == 512 * 1024
    cache = per_token * 1200  # 576 visual, a long question, a long answer
    activations = 0.5e9  # one prefill of 1,200 tokens: the widest tensor (11,008) takes 26 MB
    context = 0.8e9  # what CUDA itself takes
    needed = weights + text_side + cache + activations + context
    assert 0.95 * needed < machine.needed(LLAVA_7B.name, "cuda") < 24e9 * 0.95


def test_7bs_text_side_is_that_of_its_vision_tower() -> None:
    llava_7b = published_config(LLAVA_7B.name)
    config = open_clip.get_model_config(OPENAI_CLIP[0])
    vision = llava_7b.vision_config
    assert llava_7b.vision_feature_layer == -2
    theirs = config["vision_cfg"]
    assert (vision.hidden_size, vision.num_hidden_layers) == (theirs["width"], theirs["layers"])
    assert (vision.image_size, vision.patch_size) == (theirs["image_size"], theirs["patch_size"])
    assert config["quick_gelu"] and vision.hidden_act == "quick_gelu"
    towers = [published_config(name).vision_config for name in PUBLISHED if "llava" in name]
    assert len(towers) == 5 and all(map(vision_is_openai_clip, towers))


def test_the_models_of_the_papers_are_asked_as_the_papers_asked() -> None:
    """With Vicuna's system sentence: 35 tokens before the picture, of Llama's tokenizer."""
    with_system = {name for name, entry in CATALOGUE.items() if entry.system == "vicuna_v1"}
    assert with_system == {"llava-1.5-7b", "llava-1.5-13b", "llava-next-7b", "llava-next-13b"}
