"""Random checkpoints of the true size, in the layout in which they are published on the hub.

Names of weights as the hub's files have them (older than transformers' own), shards with an index,
tokenizer and processor files with the true number of words. Speed, memory and failures are then
true; answers are noise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import open_clip
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

CLIP = ("ViT-L-14-336-quickgelu", "timm/vit_large_patch14_clip_336.openai")
"""open_clip's name and the repository of LLaVA's tower."""

_SHARD = 5_000_000_000  # bytes, as published
_WORDS = 32_000  # of Llama's tokenizer; <image> and <pad> come after them
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>\n"
    "{% else %}{{ part['text'] + ' ' }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
_TINY = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
}

SIZES: dict[str, tuple[str, dict[str, Any], torch.dtype]] = {
    "tiny-llava": ("bczhou/tiny-llava-v1-hf", _TINY, torch.float32),
    "llava-1.5-7b": (
        "llava-hf/llava-1.5-7b-hf",
        {"max_position_embeddings": 4096},
        torch.float16,
    ),
}
"""By catalogue name: repository, what differs from LlamaConfig, and the format of its files."""


def write_llava(name: str, folder: Path) -> None:
    """A LLaVA of `SIZES` with random weights."""
    _, text, dtype = SIZES[name]
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _llama_tokenizer()
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=24,
            num_attention_heads=16,
            image_size=336,
            patch_size=14,
            projection_dim=768,
        ),
        text_config=LlamaConfig(vocab_size=32_064, bos_token_id=1, eos_token_id=2, **text),
        image_token_index=_WORDS,
        pad_token_id=_WORDS + 1,
    )
    config.dtype = dtype
    config.architectures = ["LlavaForConditionalGeneration"]
    config.save_pretrained(folder)
    images = CLIPImageProcessor(
        size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}
    )
    LlavaProcessor(
        images,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    ).save_pretrained(folder)
    with torch.device("meta"):
        state = LlavaForConditionalGeneration(config).state_dict()
    _write_shards({_published(key): tuple(t.shape) for key, t in state.items()}, dtype, folder)


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


def _published(key: str) -> str:
    """A weight's name as the older files on the hub have it."""
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
    for name, part in zip(names, parts, strict=True):
        _write_file(part, dtype, folder / name)
    weight_map = {key: n for n, part in zip(names, parts, strict=True) for key in part}
    total = sum(torch.Size(shape).numel() for shape in shapes.values()) * dtype.itemsize
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_file(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, path: Path) -> None:
    """A safetensors file, written tensor by tensor."""
    kind = {torch.float16: "F16", torch.float32: "F32"}[dtype]
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
            for values in _values(key, torch.Size(shape).numel(), dtype):
                file.write(memoryview(values.view(torch.uint8).numpy()))


_NOISE = (torch.randn(1 << 24, generator=torch.Generator().manual_seed(0)) * 0.02).half().float()


def _values(key: str, count: int, dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Norms of 1, biases of 0, and for all else small random numbers, the same over and over."""
    scale, shift = 1.0, 0.0
    if key.endswith(".bias"):
        scale = 0.0
    elif re.search(r"(norm\d?|ln_\w+|layrnorm)\.weight$", key):
        scale, shift = 0.0, 1.0
    while count:
        part = min(count, len(_NOISE))
        yield (_NOISE[:part] * scale + shift).to(dtype)
        count -= part


def _llama_tokenizer() -> PreTrainedTokenizerFast:
    """With as many words as Llama's, most of which no text ever makes."""
    marks = ["<unk>", "<s>", "</s>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fill = [f"word{i}" for i in range(_WORDS - len(marks) - len(alphabet))]
    vocabulary = {word: i for i, word in enumerate([*marks, *alphabet, *fill])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(["<image>", "<pad>"])  # 32000 and 32001
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<image>"],
        pad_token="<pad>",
        padding_side="left",
    )
