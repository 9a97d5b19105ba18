"""A question's keywords, as MMTok takes them, and what they are to the language model's tokenizer.

Released code: Ironieser/MMTok, core/text_processor.py and core/mmtok_core.py.
"""

from __future__ import annotations

import re
from typing import Any

_UNSEEN = """a an and answer are at be been being but by did do does for from had has have he how i
if into is it onto or question she so the then they to upon was we were what when where which who
why with you"""
_LEFT_OUT = frozenset(_UNSEEN.split())
_INSTRUCTIONS = (  # of LLaVA's benchmarks, after the question
    "Answer the question using a single word or phrase.",
    "Answer with the option's letter from the given choices directly.",
)


def keywords(question: str) -> list[str]:
    """The words of a question without answer instructions and words that nothing looks like.

    All words where none would be left, so that only a blank question has none.
    """
    text = question
    for instruction in _INSTRUCTIONS:
        text = text.replace(instruction, "")
    words = [word for word in re.findall(r"\b\w+\b", text) if word.lower() not in _LEFT_OUT]
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
