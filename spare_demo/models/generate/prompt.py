"""Question -> the exact prompt, with a place for every visual token."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from spare_demo.models.base import ModelError

VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions."
)
"""The system sentence of `vicuna_v1`, with which LLaVA-1.5 was trained and the papers measured."""
SYSTEMS = ("none", "vicuna_v1")


def build_prompt(processor: Any, question: str, n: int, system: str = "none") -> tuple[str, Tensor]:
    """Write the prompt as the checkpoint's own chat template has it, else as LLaVA-1.5's.

    With a system sentence it is LLaVA's conversation `vicuna_v1`, whatever the template.

    Args:
        processor: of the checkpoint; its template wins over its tokenizer's.
        question: as asked; blanks around it are dropped, and control tokens in it are words.
        n: image placeholders: visual tokens, and newline tokens where there are some. 0 for a
            question without a picture.
        system: one of `SYSTEMS`.

    Returns:
        the prompt with one image token (none where n is 0), and its (1, T) ids with n of them.

    Raises:
        ModelError: a template that does not place exactly one picture.
    """
    image, tokenizer = processor.image_token, processor.tokenizer
    question_text = _spell_out(question.strip(), tokenizer)
    content = f"{image}\n{question_text}" if n else question_text
    if system == "vicuna_v1":
        prompt = f"{VICUNA} USER: {content} ASSISTANT:"
    elif processor.chat_template:
        parts = [{"type": "image"}] * (n > 0) + [{"type": "text", "text": question_text}]
        prompt = processor.apply_chat_template(
            [{"role": "user", "content": parts}], add_generation_prompt=True, tokenize=False
        )
    elif tokenizer.chat_template:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
    else:
        prompt = f"USER: {content} ASSISTANT:"
    bos = tokenizer.bos_token
    ids: Tensor = tokenizer(
        prompt.replace(image, image * n),
        add_special_tokens=not (bos and prompt.startswith(bos)),  # some templates write it
        return_tensors="pt",
    ).input_ids
    if int((ids == tokenizer.convert_tokens_to_ids(image)).sum()) != n:
        raise ModelError(
            "This checkpoint's chat template does not place exactly one picture in the prompt. "
            "Get its processor files again."
        )
    return prompt, ids


def knows_image_token(processor: Any, config: Any) -> bool:
    """Whether a processor writes the image token that a model of this config replaces."""
    token = getattr(processor, "image_token", None)
    if token is None:
        return False
    return bool(processor.tokenizer.convert_tokens_to_ids(token) == config.image_token_id)


def continuation_ids(tokenizer: Any, prompt: str, continuation: str) -> tuple[int, ...]:
    """The tokens that a text adds to a prompt: not those of the text alone, which may begin
    otherwise."""
    texts = prompt, prompt + continuation
    before, both = (tokenizer(text, add_special_tokens=False).input_ids for text in texts)
    return tuple(both[len(before) :])


def _spell_out(question: str, tokenizer: Any) -> str:
    """The question with "< /s >" for "</s>" and so on: a visitor who types a control token means
    the word, not the end of the question or a second picture. Any other question stays as it is.
    """
    names = {token.content for token in tokenizer.added_tokens_decoder.values()}
    names = {name for name in names if len(name) > 1 and not name.isspace()}
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))

    def spell(match: re.Match[str]) -> str:
        name = match[0]
        if name.startswith("<") and name.endswith(">"):
            return f"< {name[1:-1]} >"
        return f"{name[0]} {name[1:]}"

    return re.sub(pattern, spell, question) if pattern else question
