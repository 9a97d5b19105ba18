"""The built-in model's sizes, tokenizers and empty networks, all of stock classes.

The vision side is an open_clip CLIP; its tower becomes Hugging Face's ``CLIPVisionModel`` inside a
``LlavaForConditionalGeneration``, as in LLaVA-1.5: 336 pixels, patches of 14, 576 visual tokens,
the layer before the last, a two-layer GELU projector, a Llama decoder.
"""

from __future__ import annotations

import functools
from typing import Any

import open_clip
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    CLIPImageProcessor,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from spare_demo.models.loading.convert import clip_vision_from_open_clip
from spare_demo.scenes.practice import caption, practise
from spare_demo.scenes.world import World, rng_of, sample_scene

SIDE, PATCH = 336, 14
GRID = SIDE // PATCH
MEAN, STD = open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD

_VOCABULARY = 1000  # 256 bytes, so that any question can be spelt, and the world's own words
_SCENES = 3000  # whose captions, questions and answers the tokenizers are made of
_PROMPT = "USER: <image>\n{question} ASSISTANT:"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %} "
    "{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)

VISION: dict[str, Any] = {
    "image_size": SIDE, "patch_size": PATCH,
    "width": 192, "layers": 5, "head_width": 64, "mlp_ratio": 4.0,
}  # fmt: skip
TEXT: dict[str, Any] = {
    "context_length": 77, "width": 128, "heads": 2, "layers": 3, "pool_type": "eos",
}  # fmt: skip
EMBEDDING = 128
LANGUAGE: dict[str, Any] = {
    "hidden_size": 192, "num_hidden_layers": 5, "intermediate_size": 512,
    "num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 2048,
}  # fmt: skip


@functools.cache
def _corpus() -> list[str]:
    lines = []
    for seed in range(_SCENES):
        rng = rng_of("train", seed)
        scene = sample_scene(World(), rng)
        lines.append(caption(scene, rng))
        for question in practise(scene, rng, 12):
            lines.append(_PROMPT.format(question=question.text) + f" {question.answer}")
    return lines


def _tokenizer(
    bos: str, eos: str, others: list[str], template: str, **options: Any
) -> PreTrainedTokenizerFast:
    """A byte-level BPE on the world's own sentences; template: where the marks go."""
    specials = ["<pad>", bos, eos, *others]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY, special_tokens=specials, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(_corpus(), trainer)
    named = [(token, tokenizer.token_to_id(token)) for token in specials]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=named)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token="<pad>", **options
    )


def language_tokenizer() -> PreTrainedTokenizerFast:
    """The decoder's tokenizer, BOS put first."""
    marks: dict[str, Any] = {"additional_special_tokens": ["<image>"], "padding_side": "left"}
    return _tokenizer("<s>", "</s>", ["<image>"], "<s> $A", **marks)


def text_tokenizer() -> PreTrainedTokenizerFast:
    """CLIP's tokenizer, closed by a BOS and an EOS as CLIP's own is."""
    longest = TEXT["context_length"]
    return _tokenizer("<start>", "<end>", [], "<start> $A <end>", model_max_length=longest)


def processor(tokenizer: PreTrainedTokenizerFast) -> LlavaProcessor:
    size, crop = {"shortest_edge": SIDE}, {"height": SIDE, "width": SIDE}
    images = CLIPImageProcessor(size=size, crop_size=crop, image_mean=MEAN, image_std=STD)
    return LlavaProcessor(
        images, tokenizer, patch_size=PATCH, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=CHAT_TEMPLATE,
    )  # fmt: skip


def clip_config(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """What open_clip reads from ``open_clip_config.json``."""
    text = {
        **TEXT, "vocab_size": len(tokenizer), "eos_id": tokenizer.eos_token_id,
        "hf_tokenizer_name": "built-in",  # any name: the files lie in the same folder
        "tokenizer_kwargs": {"clean": "whitespace"},
    }  # fmt: skip
    return {"embed_dim": EMBEDDING, "vision_cfg": dict(VISION), "text_cfg": text}


def _sines(side: int, width: int) -> torch.Tensor:
    """(side², width) two-dimensional sines and cosines: a tower that starts from them knows places
    after minutes instead of hours."""
    speed = 1.0 / 100.0 ** (torch.arange(width // 4) / (width // 4))
    turns = torch.arange(side)[:, None] * speed
    wave = torch.cat([turns.sin(), turns.cos()], 1)
    return torch.cat([wave.repeat_interleave(side, 0), wave.repeat(side, 1)], -1)


def new_clip(tokenizer: PreTrainedTokenizerFast) -> open_clip.CLIP:
    """An untrained CLIP, its position embeddings started from sines."""
    clip = open_clip.CLIP(**clip_config(tokenizer))
    with torch.no_grad():
        clip.visual.positional_embedding[1:] = 0.1 * _sines(GRID, VISION["width"])
    return clip


def new_llava(
    clip: open_clip.CLIP, tokenizer: PreTrainedTokenizerFast
) -> LlavaForConditionalGeneration:
    """LLaVA around the trained tower of ``clip``, its projector and decoder untrained."""
    vision_config, tower = clip_vision_from_open_clip(clip)
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    tokens = {name: getattr(tokenizer, name) for name in names}
    text_config = LlamaConfig(vocab_size=len(tokenizer), **LANGUAGE, **tokens)
    image_token: Any = tokenizer.convert_tokens_to_ids("<image>")
    config = LlavaConfig(
        vision_config=vision_config, text_config=text_config, image_token_index=image_token
    )
    llava = LlavaForConditionalGeneration(config)
    llava.model.vision_tower.load_state_dict(tower.state_dict())
    llava.generation_config.update(**tokens, do_sample=False)
    return llava
