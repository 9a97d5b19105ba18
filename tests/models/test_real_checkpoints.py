"""The published checkpoints, whose weights cannot be had here: their true configurations built
without memory, and their older layouts of names and files, on tiny weights.

Sizes and names as in the checkpoints' own config.json and safetensors index on the hub.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from checkpoint_files import read_all, write_one
from PIL import Image

from spare_demo.models import load_model
from spare_demo.models.families import FAMILIES
from spare_demo.models.loading import checkpoint
from spare_demo.models.loading.catalogue import CATALOGUE, published_config
from spare_demo.models.loading.memory import TEXT_SIDE, LoadOptions, count_weights, needed_bytes
from spare_demo.models.loading.number_format import suited_format, uniform
from spare_demo.models.loading.text_tower import vision_is_openai_clip

QUESTION = "What colour is the circle?"

NAMES = sorted(set(CATALOGUE) - {"built-in"})


def layer_shapes(layer: str, width: int, inner: int, keys: int) -> dict[str, tuple]:
    """Of a layer as Llama has it, without biases."""
    shapes: dict[str, tuple] = {f"{layer}.self_attn.{x}_proj.weight": (width, width) for x in "qo"}
    shapes |= {f"{layer}.self_attn.{x}_proj.weight": (keys, width) for x in "kv"}
    shapes |= {f"{layer}.mlp.{x}_proj.weight": (inner, width) for x in ("gate", "up")}
    shapes[f"{layer}.mlp.down_proj.weight"] = (width, inner)
    norms = ("input_layernorm", "post_attention_layernorm")
    return shapes | {f"{layer}.{x}.weight": (width,) for x in norms}


def llama_shapes(width: int, inner: int, layers: int, keys: int = 0) -> dict[str, tuple]:
    shapes: dict[str, tuple] = {
        "lm_head.weight": (32064, width),
        "model.language_model.embed_tokens.weight": (32064, width),
        "model.language_model.norm.weight": (width,),
        "model.multi_modal_projector.linear_1.weight": (width, 1024),
        "model.multi_modal_projector.linear_1.bias": (width,),
        "model.multi_modal_projector.linear_2.weight": (width, width),
        "model.multi_modal_projector.linear_2.bias": (width,),
    }
    for i in range(layers):
        shapes |= layer_shapes(f"model.language_model.layers.{i}", width, inner, keys or width)
    return shapes | clip_shapes()


def clip_shapes() -> dict[str, tuple]:
    tower = "model.vision_tower"
    shapes: dict[str, tuple] = {
        f"{tower}.embeddings.class_embedding": (1024,),
        f"{tower}.embeddings.patch_embedding.weight": (1024, 3, 14, 14),
        f"{tower}.embeddings.position_embedding.weight": (577, 1024),
    }
    norms = ["pre_layrnorm", "post_layernorm"]
    for i in range(24):
        layer = f"encoder.layers.{i}"
        norms += [f"{layer}.layer_norm1", f"{layer}.layer_norm2"]
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes[f"{tower}.{layer}.self_attn.{name}.weight"] = (1024, 1024)
            shapes[f"{tower}.{layer}.self_attn.{name}.bias"] = (1024,)
        for name, out, given in (("fc1", 4096, 1024), ("fc2", 1024, 4096)):
            shapes[f"{tower}.{layer}.mlp.{name}.weight"] = (out, given)
            shapes[f"{tower}.{layer}.mlp.{name}.bias"] = (out,)
    return shapes | {f"{tower}.{n}.{x}": (1024,) for n in norms for x in ("weight", "bias")}


def qwen_shapes(text: dict[str, Any]) -> dict[str, tuple]:
    width, inner = text["hidden_size"], text["intermediate_size"]
    keys = 128 * text["num_key_value_heads"]
    shapes: dict[str, tuple] = {
        "model.language_model.embed_tokens.weight": (text["vocab_size"], width),
        "model.language_model.norm.weight": (width,),
        "model.visual.patch_embed.proj.weight": (1280, 3, 2, 14, 14),
        "model.visual.merger.ln_q.weight": (1280,),
        "model.visual.merger.mlp.0.weight": (5120, 5120),
        "model.visual.merger.mlp.0.bias": (5120,),
        "model.visual.merger.mlp.2.weight": (width, 5120),
        "model.visual.merger.mlp.2.bias": (width,),
    }
    if not text["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (text["vocab_size"], width)
    for i in range(text["num_hidden_layers"]):
        layer = f"model.language_model.layers.{i}"
        shapes |= layer_shapes(layer, width, inner, keys)
        for x, out in (("q", width), ("k", keys), ("v", keys)):
            shapes[f"{layer}.self_attn.{x}_proj.bias"] = (out,)
    for i in range(32):
        block = f"model.visual.blocks.{i}"
        shapes |= {f"{block}.norm{x}.weight": (1280,) for x in (1, 2)}
        for name, out, given in (
            ("attn.qkv", 3840, 1280),
            ("attn.proj", 1280, 1280),
            ("mlp.gate_proj", 3420, 1280),
            ("mlp.up_proj", 3420, 1280),
            ("mlp.down_proj", 1280, 3420),
        ):
            shapes[f"{block}.{name}.weight"] = (out, given)
            shapes[f"{block}.{name}.bias"] = (out,)
    return shapes


NEWLINE_7B, NEWLINE_13B = ({"model.image_newline": (w,)} for w in (4096, 5120))
SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_key_value_heads"),
    *("vocab_size", "tie_word_embeddings"),
)
QWEN_3B = dict(zip(SIZES, (2048, 11008, 36, 2, 151936, True), strict=True))
QWEN_7B = dict(zip(SIZES, (3584, 18944, 28, 4, 152064, False), strict=True))
SHAPES: dict[str, Any] = {
    "tiny-llava": lambda: llama_shapes(2048, 5632, 22, keys=256),
    "llava-1.5-7b": lambda: llama_shapes(4096, 11008, 32),
    "llava-1.5-13b": lambda: llama_shapes(5120, 13824, 40),
    "llava-next-7b": lambda: llama_shapes(4096, 11008, 32) | NEWLINE_7B,
    "llava-next-13b": lambda: llama_shapes(5120, 13824, 40) | NEWLINE_13B,
    "qwen2.5-vl-3b": lambda: qwen_shapes(QWEN_3B),
    "qwen2.5-vl-7b": lambda: qwen_shapes(QWEN_7B),
}
BILLIONS = {
    "tiny-llava": 1.41,
    "llava-1.5-7b": 7.06,
    "llava-1.5-13b": 13.35,
    "llava-next-7b": 7.06,
    "llava-next-13b": 13.35,
    "qwen2.5-vl-3b": 3.75,
    "qwen2.5-vl-7b": 8.29,
}


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_the_published_name_and_shape(name: str) -> None:
    config = published_config(name)
    family = FAMILIES[config.model_type]
    with torch.device("meta"):
        model = getattr(transformers, family.hf_class)(config)
    shapes = {key: tuple(p.shape) for key, p in model.named_parameters()}
    assert shapes == SHAPES[name]()
    count = count_weights(config, family).count
    assert count == sum(p.numel() for p in model.parameters())
    assert count / 1e9 == pytest.approx(BILLIONS[name], abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_names_as_much_memory_as_is_asked_for(name: str) -> None:
    config, entry = published_config(name), CATALOGUE[name]
    family = FAMILIES[config.model_type]
    options = LoadOptions(torch.device("cuda"))
    weights = count_weights(config, family)
    number_format = suited_format(config.dtype, weights.count, options.device)
    needed = needed_bytes(config, family, weights, options, number_format)
    said = re.search(r"(\d+) GB (?:of )?free.*; downloads (\d+) GB", entry.needs)
    assert said is not None
    room, download = int(said[1]) * 1e9, int(said[2]) * 1e9
    moved = weights.count * config.dtype.itemsize
    moved += TEXT_SIDE if family.clip_tower else 0
    assert moved <= download < moved + 1e9
    assert needed <= room <= needed + 2.5e9, f"{needed / 1e9:.1f} GB"
    assert bool(entry.note) == (not name.startswith("llava-1.5"))


class Quantised(torch.nn.Linear):
    """In the place of bitsandbytes' layers: whoever takes it has let its layer be quantised."""

    def __init__(self, given: int, out: int, bias: bool, *_: Any, **__: Any):
        super().__init__(given, out, bias=bias)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bits", [8, 4])
def test_quantising_takes_the_language_model_and_is_counted(
    name: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which layers transformers itself replaces, given our settings: those of the decoder, and
    neither tower, projector nor head."""
    from transformers.integrations import bitsandbytes

    layers = SimpleNamespace(Linear8bitLt=Quantised, Linear4bit=Quantised)
    monkeypatch.setattr(bitsandbytes, "bnb", SimpleNamespace(nn=layers), raising=False)
    monkeypatch.setattr(checkpoint.importlib.util, "find_spec", lambda name: object())
    config = published_config(name)
    family, options = FAMILIES[config.model_type], LoadOptions(torch.device("cuda"), bits=bits)
    settings = checkpoint._quantisation(options, family, torch.float16)
    with torch.device("meta"):
        model = getattr(transformers, family.hf_class)(config)
        expected = {module for module, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
        bitsandbytes.replace_with_bnb_linear(model, settings.llm_int8_skip_modules, settings)
    taken = {module: m for module, m in model.named_modules() if isinstance(m, Quantised)}
    assert set(taken) == {n for n in expected if n.startswith("model.language_model.")}
    assert len(taken) == 7 * config.get_text_config().num_hidden_layers
    weights = count_weights(config, family)
    assert weights.linear == sum(m.weight.numel() for m in taken.values())

    whole, small = (
        needed_bytes(
            config, family, weights, LoadOptions(options.device, bits=b), uniform(torch.float16)
        )
        for b in (16, bits)
    )
    # 4 bits carry 4 bytes for every 64 weights.
    assert whole - small == pytest.approx(
        weights.linear * (2 - bits / 8 - (4 / 64 if bits == 4 else 0)), abs=1
    )


def test_sizes_that_pages_and_papers_speak_of() -> None:
    configs = {name: published_config(name) for name in NAMES}
    most = {name: FAMILIES[c.model_type].most_tokens_of(c) for name, c in configs.items()}
    assert most["llava-1.5-13b"] == 576 and most["llava-next-7b"] == 2880
    assert most["qwen2.5-vl-7b"] == 2048
    assert vision_is_openai_clip(configs["llava-next-13b"].vision_config)
    assert not vision_is_openai_clip(configs["qwen2.5-vl-3b"].vision_config)


# --- layouts that checkpoints are found in ---


def rename(folder: Path, rules: list[tuple[str, str]]) -> set[str]:
    state = read_all(folder)
    for old, new in rules:
        state = {re.sub(old, new, name): tensor for name, tensor in state.items()}
    write_one(folder, state)
    return set(state)


def split_processor(folder: Path) -> None:
    """As before transformers 5: preprocessor_config.json, and chat_template.json beside it."""
    whole = json.loads((folder / "processor_config.json").read_text())
    images = whole.pop("image_processor")
    whole.pop("video_processor", None)
    images["processor_class"] = whole["processor_class"]
    if images["image_processor_type"].startswith("Qwen"):
        size = images.pop("size")
        images |= {"min_pixels": size["shortest_edge"], "max_pixels": size["longest_edge"]}
        (folder / "processor_config.json").unlink()
        template = (folder / "chat_template.jinja").read_text()
        (folder / "chat_template.jinja").unlink()
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    else:
        (folder / "processor_config.json").write_text(json.dumps(whole))
    (folder / "preprocessor_config.json").write_text(json.dumps(images))


def flatten_qwen(folder: Path) -> None:
    """As published: text sizes beside vision_config, rope_scaling with its section."""
    config = json.loads((folder / "config.json").read_text())
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text.pop("model_type", None)
    text.pop("layer_types", None)
    scaling = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    config |= {**text, "rope_theta": rope["rope_theta"], "rope_scaling": scaling}
    config["model_type"] = "qwen2_5_vl"
    (folder / "config.json").write_text(json.dumps(config))


def same_answers(folder: Path, expected: Any, photo: Image.Image) -> None:
    found = load_model(str(folder), device="cpu", warm_up=False)
    assert type(found) is type(expected)
    for aspect in expected.aspects:
        a, b = (model.encode(photo, QUESTION, aspect) for model in (found, expected))
        assert torch.equal(a.pixel_values, b.pixel_values)
        ours, theirs = (m.answer(v, max_new_tokens=8) for m, v in ((found, a), (expected, b)))
        assert ours.token_ids == theirs.token_ids
        assert torch.equal(ours.first_logits, theirs.first_logits)


def test_llava_next_in_its_published_layout(
    tiny_next: Any, tiny_next_folder: Path, tmp_path: Path, photo: Image.Image
) -> None:
    folder = tmp_path / "old"
    shutil.copytree(tiny_next_folder, folder)
    names = rename(folder, [(r"^vision_tower\.", "vision_tower.vision_model.")])
    assert {"image_newline", "language_model.lm_head.weight"} <= names
    assert "language_model.model.layers.0.mlp.up_proj.weight" in names
    assert "vision_tower.vision_model.encoder.layers.0.mlp.fc1.bias" in names
    split_processor(folder)
    same_answers(folder, tiny_next, photo)


def test_qwen_in_its_published_layout(
    tiny_qwen: Any, tiny_qwen_folder: Path, tmp_path: Path, photo: Image.Image
) -> None:
    folder = tmp_path / "old"
    shutil.copytree(tiny_qwen_folder, folder)
    names = rename(folder, [])
    assert {"model.layers.0.mlp.up_proj.weight", "visual.merger.ln_q.weight"} <= names
    flatten_qwen(folder)
    split_processor(folder)
    same_answers(folder, tiny_qwen, photo)


@pytest.mark.parametrize("kind", ["next", "qwen"])
def test_the_layout_with_all_names_under_model(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, photo: Image.Image
) -> None:
    """As transformers 4.52 to 4.57 saved them."""
    folder = tmp_path / "new"
    shutil.copytree(request.getfixturevalue(f"tiny_{kind}_folder"), folder)
    rules = [
        (r"^model\.", "model.language_model."),
        (r"^visual\.", "model.visual."),
        (r"^language_model\.model\.", "model.language_model."),
        (r"^language_model\.lm_head", "lm_head"),
        (r"^(vision_tower|multi_modal_projector|image_newline)", r"model.\1"),
    ]
    names = rename(folder, rules)
    assert "model.language_model.layers.0.mlp.up_proj.weight" in names
    same_answers(folder, request.getfixturevalue(f"tiny_{kind}"), photo)
