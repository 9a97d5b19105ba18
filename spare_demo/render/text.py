"""Text inside pictures, in the font that Pillow carries, so that no font file is needed."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache

from PIL import ImageFont

LEADING = 1.35
"""Line height over text size."""

# Pillow's font holds little beyond ASCII; what a method's label may hold is spelled out.
_SPELLED = str.maketrans(
    {"–": "-", "—": "-", "−": "-", "×": "x", "ρ": "rho", "²": "2", "≤": "<=", "→": "->"}
)
_CJK = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"  # written without spaces
_WORD = re.compile(f" ?(?:[{_CJK}]|[^ {_CJK}]+)")


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font (its digits all have one width), `size` in picture pixels."""
    face = ImageFont.load_default(size=size)
    assert isinstance(face, ImageFont.FreeTypeFont)  # with a size Pillow gives no other
    return face


def drawable(text: str) -> str:
    """The text in letters that the font has; a letter it lacks becomes '?', a wide one '??'."""
    return "".join(map(_drawable_letter, text.translate(_SPELLED)))


def _drawable_letter(letter: str) -> str:
    parts = unicodedata.normalize("NFKD", letter)
    plain = "".join(part for part in parts if not unicodedata.category(part).startswith("M"))
    if all(" " <= part <= "~" or part == "·" for part in plain):
        return plain
    return "??" if unicodedata.east_asian_width(letter) in "WF" else "?"


def shorten(text: str, width: float, size: int) -> str:
    """The text, cut with … where it is wider than `width` picture pixels."""
    if font(size).getlength(drawable(text)) <= width:
        return text
    length = font(size).getlength
    fitting = bisect_right(range(len(text)), width, key=lambda i: length(drawable(text[:i]) + "…"))
    return text[: max(0, fitting - 1)].rstrip() + "…"


def wrap(text: str, width: float, size: int, most: int | None = None) -> list[str]:
    """Lines of at most `width` picture pixels: a word that is wider is cut with …, and so is the
    last of `most` lines where more would be needed. Chinese and Japanese break at any letter."""
    lines: list[str] = []
    words = _WORD.findall(" ".join(text.split()))
    for index, word in enumerate(words):
        longer = lines[-1] + word if lines else word
        if lines and font(size).getlength(drawable(longer)) <= width:
            lines[-1] = longer
        elif lines and len(lines) == most:
            lines[-1] += "".join(words[index:])
            break
        else:
            lines.append(word.lstrip())
    return [shorten(line, width, size) for line in lines]


def largest_fit(
    texts: Iterable[str], width: float, sizes: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Of (size, most lines) the first in which every text is whole; the last where none is so."""
    whole = list(texts)

    def fits(pair: tuple[int, int]) -> bool:
        return all(_letters(*wrap(text, width, *pair)) == _letters(text) for text in whole)

    return next(filter(fits, sizes), sizes[-1])


def _letters(*lines: str) -> str:
    return "".join("".join(lines).split())
