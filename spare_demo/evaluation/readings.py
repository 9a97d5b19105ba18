"""Methods that read relevance otherwise than the run does: "spare@tokens", "anti-relevance@-1".

After the mark stand a layer of the vision tower, how the question's text is read, or both with a
comma between them; or "words", those of the language model in the place of CLIP. What is not named
is as of the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import get_args

from spare_demo.relevance import RelevanceOptions, TextPieces

MARK = "@"

BY_WORDS = "words"

_WORDS = {
    "stretches": "the question as a whole",
    "tokens": "each word apart",
    BY_WORDS: "words of the language model, not CLIP",
}


def split_reading(label: str) -> tuple[str, str]:
    """The method as `read_method` reads it, and what stands after the mark."""
    name, _, reading = label.partition(MARK)
    return name, reading


def read_reading(text: str, usual: RelevanceOptions) -> RelevanceOptions:
    """What stands after the mark, over the usual options.

    Raises ValueError, with a sentence to show, for anything else.
    """
    options = usual
    for part in text.split(","):
        word = part.strip()
        if word == BY_WORDS:
            options = dataclasses.replace(options, guidance_text="words")
            continue
        if word in get_args(TextPieces):
            options = dataclasses.replace(options, text=word)  # type: ignore[arg-type]
            continue
        layer = 0
        with contextlib.suppress(ValueError):
            layer = int(word)
        if layer >= 0:
            raise ValueError(
                f"{word!r} says nothing of how relevance is read. Write a layer counted from the "
                f"end, such as anti-relevance{MARK}-1, or one of: {', '.join(_WORDS)}."
            )
        options = dataclasses.replace(options, layer=layer)
    return options


def words_of(text: str) -> str:
    """What stands after the mark, in words: "layer -1, each word apart"."""
    return ", ".join(_WORDS.get(part.strip(), f"layer {part.strip()}") for part in text.split(","))
