"""Whole checkpoints in a few hundred kilobytes, of the classes the real ones are made of.

56-pixel views in 14-pixel patches make 16 visual tokens each. The vision tower is open_clip's,
converted, and that open_clip model lies in ``clip/``, so the two towers agree as they do in the
real models. Nothing is trained: the answers are noise, but exactly repeatable noise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tokenizers.processors import TemplateProcessing
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    CLIPVisionModel,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextImageProcessor,
    LlavaNextProcessor,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from spare_demo.models.loading.convert import clip_vision_from_open_clip

SIZE, PATCH, EMBED = 56, 14, 16
CORPUS = [
    "USER: What colour is the circle to the left of the red square? ASSISTANT: blue",
    "Which number is written on the small triangle? How many stars are there? Three.",
    "Is the green word above the yellow one? No, it says hello — schön, 日本語, 🙂.",
]


def byte_bpe(vocab: int, special: list[str], bos: str, eos: str, end: bool) -> Tokenizer:
    """A byte-level BPE that writes `bos` before every text and, with `end`, `eos` after it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A {eos}" if end else f"{bos} $A",
        special_tokens=[(mark, tokenizer.token_to_id(mark)) for mark in (bos, eos)],
    )
    return tokenizer


def write_clip_folder(folder: Path, size: int = SIZE) -> open_clip.CLIP:
    """A random open_clip model with its tokenizer, as ``local-dir:`` reads it; returns it."""
    marks = ["<pad>", "<start>", "<end>"]
    tokenizer = byte_bpe(330, marks, "<start>", "<end>", end=True)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<start>", eos_token="<end>"
    ).save_pretrained(folder)
    config = {
        "embed_dim": EMBED,
        "quick_gelu": True,
        "vision_cfg": {
            "image_size": size,
            "patch_size": PATCH,
            "width": 32,
            "layers": 3,
            "head_width": 16,
        },
        "text_cfg": {
            "context_length": 77,
            "vocab_size": tokenizer.get_vocab_size(),
            "width": 32,
            "heads": 2,
            "layers": 2,
            "hf_tokenizer_name": "local",
            "tokenizer_kwargs": {"clean": "lower"},
            "pool_type": "eos",
            "eos_id": tokenizer.token_to_id("<end>"),
        },
    }
    model = open_clip.CLIP(**config).eval()  # type: ignore[arg-type]
    for parameter in model.parameters():  # away from the start values: norms of 1, biases of 0
        parameter.data += 0.1 * torch.randn_like(parameter)
    (folder / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": config, "preprocess_cfg": {}})
    )
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return model


def write_llava_folder(folder: Path, layers: int = 3) -> None:
    """A LLaVA-1.5 around the CLIP in ``clip/``, in several safetensors shards."""
    vision_config, vision_tower = _clip(folder)
    tokenizer = _tokenizer()
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE}),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    config = LlavaConfig(
        vision_config=vision_config,
        text_config=_text_config(tokenizer),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=(SIZE // PATCH) ** 2,
    )
    config.text_config.num_hidden_layers = layers
    _save(LlavaForConditionalGeneration(config), processor, folder, vision_tower)


PINPOINTS = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]  # height, width


def write_llava_next_folder(folder: Path, size: int = SIZE, width: int = 32) -> None:
    """A LLaVA-NeXT around the CLIP in ``clip/``: a base view and up to four tiles.

    size: of a view in pixels; 336 makes the 2,880 tokens of the real one. width: of a token.
    """
    vision_config, vision_tower = _clip(folder, size)
    tokenizer = _tokenizer()
    pinpoints = [[h * size // SIZE, w * size // SIZE] for h, w in PINPOINTS]
    processor = LlavaNextProcessor(
        LlavaNextImageProcessor(
            size={"shortest_edge": size},
            crop_size={"height": size, "width": size},
            image_grid_pinpoints=pinpoints,
        ),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    views = (size // PATCH) ** 2
    config = LlavaNextConfig(
        vision_config=vision_config,
        text_config=_text_config(tokenizer, width, max(512, 8 * views)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=pinpoints,
        image_seq_length=views,
    )
    _save(LlavaNextForConditionalGeneration(config), processor, folder, vision_tower)


QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_qwen_folder(folder: Path) -> None:
    """A Qwen2.5-VL: windowed and full attention in the tower, rotary positions of three axes."""
    marks = ["<unk>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    pads = ["<|image_pad|>", "<|video_pad|>"]
    plain = byte_bpe(360, [*marks, *pads], "<unk>", "<unk>", end=False)
    plain.post_processor = processors.ByteLevel(trim_offsets=False)  # no BOS, as Qwen has none
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<unk>",
        additional_special_tokens=[*marks[1:], *pads],
        padding_side="left",
    )
    images = {"size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 60}}
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(**images),
        tokenizer,
        Qwen2VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [2, 3, 3],
        },
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "out_hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "window_size": 56,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    )
    _save(Qwen2_5_VLForConditionalGeneration(config), processor, folder)


def _clip(folder: Path, size: int = SIZE) -> tuple[CLIPVisionConfig, CLIPVisionModel]:
    (folder / "clip").mkdir(parents=True)
    return clip_vision_from_open_clip(write_clip_folder(folder / "clip", size))


def _tokenizer() -> PreTrainedTokenizerFast:
    marks = ["<unk>", "<s>", "</s>", "<image>"]
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_bpe(360, marks, "<s>", "</s>", end=False),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        additional_special_tokens=["<image>"],
        padding_side="left",
    )


def _text_config(
    tokenizer: PreTrainedTokenizerFast, width: int = 32, positions: int = 512
) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


def _save(
    model: Any, processor: Any, folder: Path, vision_tower: CLIPVisionModel | None = None
) -> None:
    for parameter in model.model.language_model.parameters():
        if parameter.ndim == 2:  # else the logits are nearly flat and every answer is the same
            parameter.data *= 8
    for parameter in model.lm_head.parameters():
        parameter.data *= 8
    if vision_tower is not None:
        model.model.vision_tower.load_state_dict(vision_tower.state_dict())
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.save_pretrained(folder, max_shard_size="100KB")
    processor.save_pretrained(folder)
