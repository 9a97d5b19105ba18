"""Random checkpoints of the true size, in the layout in which they are published on the hub.

Names of weights as the hub's files have them (older than transformers' own), shards with an index,
tokenizer and processor files with the true number of words. Speed, memory and failures are then
true; answers are noise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import measuring  # noqa: F401 (puts the package on the path)
import open_clip
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    CLIPImageProcessor,
    LlavaNextImageProcessor,
    LlavaNextProcessor,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from spare_demo.models.families import FAMILIES
from spare_demo.models.loading.catalogue import published_config

CLIP = ("ViT-L-14-336-quickgelu", "timm/vit_large_patch14_clip_336.openai")
"""open_clip's name and the repository of LLaVA's tower."""

_SHARD = 5_000_000_000  # bytes, as published
_LLAMA_WORDS, _QWEN_WORDS = 32_000, 151_643  # special tokens come after them
_LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>\n"
    "{% else %}{{ part['text'] + ' ' }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
_SQUARE: dict[str, Any] = {
    "size": {"shortest_edge": 336},
    "crop_size": {"height": 336, "width": 336},
}
_LLAVA_OPTIONS: dict[str, Any] = {
    "patch_size": 14,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
    "chat_template": _LLAVA_TEMPLATE,
}
_QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_QWEN_MARKS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>"),
    *("<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)


def write_model(name: str, folder: Path) -> None:
    """A model of the table with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = published_config(name)
    dtype = config.dtype
    family = FAMILIES[config.model_type]
    config.architectures = [family.hf_class]
    _processor(name, config).save_pretrained(folder)
    with torch.device("meta"):
        model = getattr(transformers, family.hf_class)(config)
    shapes = {_published(key, name): tuple(t.shape) for key, t in model.state_dict().items()}
    if config.tie_word_embeddings:
        shapes.pop("lm_head.weight", None)  # not stored twice
    _write_shards(shapes, dtype, folder)
    config.save_pretrained(folder)  # the last file: with it the folder is whole


def write_clip(folder: Path) -> None:
    """open_clip's ViT-L/14-336, in single precision as published, with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    config = open_clip.get_model_config(CLIP[0])
    assert config is not None
    with torch.device("meta"):
        state = open_clip.CLIP(**config).state_dict()
    shapes = {key: tuple(t.shape) for key, t in state.items()}
    _write_file(shapes, torch.float32, folder / "open_clip_model.safetensors")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))


def _published(key: str, name: str) -> str:
    """A weight's name as the older files on the hub have it."""
    if name.startswith("qwen"):
        return re.sub(r"^model\.(visual\.)|^(model\.)language_model\.", r"\1\2", key)
    key = key.removeprefix("model.")
    key = re.sub(r"^vision_tower\.", "vision_tower.vision_model.", key)
    key = re.sub(r"^language_model\.", "language_model.model.", key)
    return re.sub(r"^lm_head\.", "language_model.lm_head.", key)


def _write_shards(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, folder: Path) -> None:
    parts: list[dict[str, tuple[int, ...]]] = [{}]
    size = 0
    for key in sorted(shapes):
        count = torch.Size(shapes[key]).numel() * dtype.itemsize
        if size and size + count > _SHARD:
            parts.append({})
            size = 0
        parts[-1][key] = shapes[key]
        size += count
    names = [f"model-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name, part: _write_file(part, dtype, folder / name), names, parts))
    weight_map = {key: n for n, part in zip(names, parts, strict=True) for key in part}
    total = sum(torch.Size(shape).numel() for shape in shapes.values()) * dtype.itemsize
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_file(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, path: Path) -> None:
    """A safetensors file, written tensor by tensor."""
    kind = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}[dtype]
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for key, shape in shapes.items():
        size = torch.Size(shape).numel() * dtype.itemsize
        entries[key] = {"dtype": kind, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for key, shape in shapes.items():
            size = torch.Size(shape).numel() * dtype.itemsize
            block = _block(*_scale_and_shift(key), dtype)
            while size:
                size -= file.write(block[:size])


_NOISE = (torch.randn(1 << 24, generator=torch.Generator().manual_seed(0)) * 0.02).half().float()


def _scale_and_shift(key: str) -> tuple[float, float]:
    """Norms of 1, biases of 0, and for all else small random numbers."""
    if key.endswith(".bias"):
        return 0.0, 0.0
    if re.search(r"(norm\d?|ln_\w+|layrnorm)\.weight$", key):
        return 0.0, 1.0
    return 1.0, 0.0


@cache
def _block(scale: float, shift: float, dtype: torch.dtype) -> memoryview:
    """The bytes that a weight repeats from its begin on."""
    return memoryview((_NOISE * scale + shift).to(dtype).view(torch.uint8).numpy())


def _processor(name: str, config: Any) -> Any:
    """The processor of a model of the table."""
    if name.startswith("qwen"):
        return _qwen_processor()
    return _llava_next_processor(config) if "next" in name else llava_processor()


def llava_processor() -> LlavaProcessor:
    return LlavaProcessor(CLIPImageProcessor(**_SQUARE), _llama_tokenizer(), **_LLAVA_OPTIONS)


def _llava_next_processor(config: Any) -> LlavaNextProcessor:
    pinpoints = config.image_grid_pinpoints
    images = LlavaNextImageProcessor(**_SQUARE, image_grid_pinpoints=pinpoints)
    return LlavaNextProcessor(images, _llama_tokenizer(), **_LLAVA_OPTIONS)


def _llama_tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=_words(["<unk>", "<s>", "</s>"], _LLAMA_WORDS, ["<image>", "<pad>"]),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
        pad_token="<pad>",
        padding_side="left",
    )


def _qwen_processor() -> Qwen2_5_VLProcessor:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_words([], _QWEN_WORDS, list(_QWEN_MARKS)),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(_QWEN_MARKS[1:]),
        padding_side="left",
    )
    return Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(), tokenizer, Qwen2VLVideoProcessor(), chat_template=_QWEN_TEMPLATE
    )


def _words(first: list[str], count: int, last: list[str]) -> Tokenizer:
    """A byte-level tokenizer with as many words as the published one, most of which no text makes.

    first: its marks before all words; last: those after them.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fill = [f"word{i}" for i in range(count - len(first) - len(alphabet))]
    vocabulary = {word: i for i, word in enumerate([*first, *alphabet, *fill])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if "<s>" in first:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", first.index("<s>"))]
        )
    tokenizer.add_special_tokens(last)
    return tokenizer
