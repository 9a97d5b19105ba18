"""Methods measured otherwise than the rest of a run: "spare@tokens", "random@original".

After the mark stand, with commas between them, a layer of the vision tower, how the question's text
is read, "words" for those of the language model in the place of CLIP, and the positions of what is
kept. What is not named is as of the run.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, get_args

from spare_demo.relevance import RelevanceOptions, TextPieces
from spare_demo.tokens import Positions

MARK = "@"

BY_WORDS = "words"

_WORDS = {
    "stretches": "the question as a whole",
    "tokens": "each word apart",
    BY_WORDS: "words of the language model, not CLIP",
    "compact": "compact positions",
    "original": "original positions",
}


@dataclass(frozen=True)
class Variant:
    """How a method is measured.

    Attributes:
        relevance: how it reads relevance.
        positions: of the tokens that it keeps; None for the model's usual ones.
    """

    relevance: RelevanceOptions
    positions: Positions | None = None


def split_label(label: str) -> tuple[str, str]:
    """The method as `read_method` reads it, and what stands after the mark."""
    name, _, variant = label.partition(MARK)
    return name, variant


def plain_label(label: str) -> str:
    """A label in the one form that all spellings of it share: "spare@-1,tokens"."""
    name, variant = split_label(label)
    parts = sorted(part.strip() for part in variant.split(","))
    return f"{name}{MARK}{','.join(parts)}" if variant.strip() else name


def read_variant(text: str, usual: Variant) -> Variant:
    """What stands after the mark, over what is usual in the run.

    Raises ValueError, with a sentence to show, for anything else, and for two of a kind.
    """
    named: dict[str, Any] = {}
    for part in text.split(","):
        word = part.strip()
        if word == BY_WORDS:
            kind = "guidance_text"
        elif word in get_args(TextPieces):
            kind = "text"
        elif word in get_args(Positions):
            kind = "positions"
        elif re.fullmatch("-[1-9][0-9]*", word):
            kind = "layer"
        else:
            raise ValueError(
                f"{brief(word)} says neither how relevance is read nor which positions are used. "
                f"Write a layer counted from the end, such as anti-relevance{MARK}-1, or one of: "
                f"{', '.join(_WORDS)}."
            )
        if kind in named:
            raise ValueError(
                f"{MARK}{text} says both {named[kind]} and {word}. Leave one out, or measure both "
                f"side by side: spare{MARK}{named[kind]} spare{MARK}{word}."
            )
        named[kind] = int(word) if kind == "layer" else word
    positions = named.pop("positions", usual.positions)
    return Variant(dataclasses.replace(usual.relevance, **named), positions)


def words_of(text: str) -> str:
    """What stands after the mark, in words: "layer -1, each word apart"."""
    return ", ".join(_WORDS.get(part.strip(), f"layer {part.strip()}") for part in text.split(","))
