"""A whole LLaVA checkpoint in a few hundred kilobytes, of the classes the real ones are made of.

56-pixel pictures in 14-pixel patches make 16 visual tokens. The vision tower is open_clip's,
converted, and that open_clip model lies in ``clip/``, so the two towers agree as they do in the
real models. Nothing is trained: the answers are noise, but exactly repeatable noise.
"""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import (
    CLIPImageProcessor,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from spare_demo.models.convert import clip_vision_from_open_clip

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


def write_clip_folder(folder: Path) -> open_clip.CLIP:
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
            "image_size": SIZE,
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


def write_llava_folder(folder: Path) -> None:
    """The checkpoint itself around the CLIP in ``clip/``, in several safetensors shards."""
    (folder / "clip").mkdir(parents=True)
    vision_config, vision_tower = clip_vision_from_open_clip(write_clip_folder(folder / "clip"))
    marks = ["<unk>", "<s>", "</s>", "<image>"]
    tokenizer = byte_bpe(360, marks, "<s>", "</s>", end=False)
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE}),
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            unk_token="<unk>",
            bos_token="<s>",
            eos_token="</s>",
            pad_token="</s>",
            additional_special_tokens=["<image>"],
            padding_side="left",
        ),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=vision_config,
            text_config=LlamaConfig(
                vocab_size=tokenizer.get_vocab_size(),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=512,
                bos_token_id=tokenizer.token_to_id("<s>"),
                eos_token_id=tokenizer.token_to_id("</s>"),
            ),
            image_token_index=tokenizer.token_to_id("<image>"),
            image_seq_length=(SIZE // PATCH) ** 2,
        )
    )
    for parameter in model.model.language_model.parameters():
        if parameter.ndim == 2:  # else the logits are nearly flat and every answer is the same
            parameter.data *= 8
    for parameter in model.lm_head.parameters():
        parameter.data *= 8
    model.model.vision_tower.load_state_dict(vision_tower.state_dict())
    model.generation_config.eos_token_id = tokenizer.token_to_id("</s>")
    model.save_pretrained(folder, max_shard_size="100KB")
    processor.save_pretrained(folder)
