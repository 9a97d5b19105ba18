"""Question -> the exact prompt, with a place for every visual token; and its keywords.

These are as MMTok takes them; released code: Ironieser/MMTok, core/text_processor.py and
core/mmtok_core.py.
"""

from __future__ import annotations

import re
from typing import Any

from jinja2 import TemplateError
from torch import Tensor

from spare_demo.models.base import ModelError
from spare_demo.settings import check_characters

VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions."
)
"""The system sentence of `vicuna_v1`, with which LLaVA-1.5 was trained and the papers measured."""

_STOP_WORDS = """a an and answer are at be been being but by did do does for from had has have he
how i if into is it onto or question she so the then they to upon was we were what when where which
who why with you"""
LETTER_INSTRUCTION = "Answer with the option's letter from the given choices directly."
_INSTRUCTIONS = (  # of LLaVA's benchmarks, after the question
    "Answer the question using a single word or phrase.",
    LETTER_INSTRUCTION,
)


def build_prompt(processor: Any, question: str, n: int, system: str = "none") -> tuple[str, Tensor]:
    """Write the prompt as the checkpoint's own chat template has it, else as LLaVA-1.5's.

    With a system sentence it is LLaVA's conversation `vicuna_v1`, whatever the template.

    Args:
        processor: of the checkpoint; its template wins over its tokenizer's.
        question: as asked; blanks around it are dropped, and control tokens in it are words.
        n: image placeholders: visual tokens, and newline tokens where there are some. 0 for a
            question without a picture.
        system: "none" or "vicuna_v1".

    Returns:
        the prompt with one image token (none where n is 0), and its (1, T) ids with n of them.

    Raises:
        ModelError: a template that is damaged, or does not place exactly one picture.
        ValueError: a question that is no text.
    """
    image, tokenizer = processor.image_token, processor.tokenizer
    question_text = _spell_out(check_characters("question", question).strip(), tokenizer)
    content = f"{image}\n{question_text}" if n else question_text
    try:
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
    except TemplateError as error:
        raise ModelError(
            "This checkpoint's chat template is damaged. Get its processor files again."
        ) from error
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


def keywords(question: str) -> list[str]:
    """The words of a question without answer instructions and words that nothing looks like.

    All words where none would be left, so that only a blank question has none.
    """
    text = question
    for instruction in _INSTRUCTIONS:
        text = text.replace(instruction, "")
    stop_words = _STOP_WORDS.split()
    words = [word for word in re.findall(r"\b\w+\b", text) if word.lower() not in stop_words]
    return words or text.split() or question.split()


def word_ids(tokenizer: Any, words: list[str]) -> list[int]:
    """The token ids of words as they stand inside a sentence, without special tokens.

    Some tokenizers put the blank before a word themselves (LLaVA's does), others want it written.
    """

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False).input_ids)

    alone, *_, inside = ids("a a")
    blank = "" if alone == inside else " "
    return [token for word in words for token in ids(blank + word)]
