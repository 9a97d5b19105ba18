"""Other wordings of the questions, as people put them: in training, and held out from it.

A question is made in one wording, which its kind is recognised by, and reworded: as its kind can be
asked, with other names for an object, and politely, tersely or in lower case. What can be asked is
written in ``wordings.toml``.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from spare_demo.scenes.questions import pick, plural
from spare_demo.scenes.world import BACKGROUNDS, COLOURS, SHAPES, WORDS, Rng

TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_AS_MADE = 0.3  # how often training asks a question as it was made
_OBJECTS = ("object", "thing", "shape", "symbol", "item")
_OTHER_WORDS = (
    (r"\bleft of\b", ("left of", "to the left of", "on the left of")),
    (r"\bright of\b", ("right of", "to the right of", "on the right of")),
    (r"\babove\b(?! or)", ("above", "over", "higher than")),
    (r"\bbelow\b(?! or)", ("below", "under", "lower than")),
    (r"\blargest\b", ("largest", "biggest")),
    (r"\btopmost (?=object)", ("topmost ", "uppermost ")),
    (r"\bwith the number (?=\d)", ("with the number ", "with number ", "that shows ")),
    (r"\bwith the word (?=[A-Z]{3})", ("with the word ", "that says ", "with the text ")),
    (r"\bpicture\b", ("picture", "image", "scene")),
)


def plain_text(text: str) -> str:
    """A question's words alone: without case, extra spaces and the mark at its end, "an" as "a"."""
    words = ("a" if word == "an" else word for word in text.casefold().split())
    return " ".join(words).rstrip("?.! ")


@cache
def _known_words() -> frozenset[str]:
    """All that training asks with, but for what is polite or off topic."""
    nouns = [*_OBJECTS, *SHAPES]
    texts = [form for kind in TEXTS["kinds"] for form in kind["training"]]
    texts += [option for _, options in _OTHER_WORDS for option in options]
    texts += [*nouns, *map(plural, nouns), *COLOURS, "color", "colors", *WORDS, *BACKGROUNDS]
    return frozenset(_words(re.sub(r"\{.*?\}", "", " ".join(texts))))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.casefold())


def is_familiar(question: str) -> bool:
    """Whether a quarter of a question's words, and one at least, are among those trained with.

    In another language, in digits or in signs alone it is not, whatever the model says to it.
    """
    words = _words(question)
    return bool(words) and 4 * sum(word in _known_words() for word in words) >= len(words)


def with_articles(text: str) -> str:
    """A question with "an" where it belongs, which a training question lacks."""
    return re.sub(r"\ba (?=[aeio])", "an ", text)


def _names(text: str, rng: Rng) -> str:
    """The question with one other name for an object throughout, and other words of place."""
    noun = pick(rng, _OBJECTS)
    for pattern, options in _OTHER_WORDS:
        text = re.sub(pattern, pick(rng, options), text)
    return re.sub(r"\bobject(s?)\b", rf"{noun}\1", text).replace("a item", "an item")


def style(text: str, rng: Rng, held_out: bool) -> str:
    """Plain, polite, terse or in lower case, in British or American spelling."""
    if rng.random() < 0.5:
        text = text.replace("olour", "olor")
    roll = rng.random()
    if roll < 0.15:
        polite = pick(rng, TEXTS["polite_held_out" if held_out else "polite"])
        return str(polite.format(q=text[0].lower() + text[1:], Q=text))
    if roll < 0.25 and not re.match(r"(Is|Are|Do|Does|Can|Would) ", text):
        terse = re.sub(r"\b(the|an?|of the) (?!left|right)", "", text.rstrip("?."))
        return terse[0].upper() + terse[1:]
    return text.rstrip("?.").lower() if roll < 0.35 else text.lower() if roll < 0.45 else text


def wordings(text: str, held_out: bool = False) -> list[str]:
    """All forms that a question can be asked in, in training or held out from it.

    Raises ValueError for a question of no kind in ``wordings.toml``.
    """
    for kind in TEXTS["kinds"]:
        if match := re.fullmatch(kind["pattern"], text):
            slots = match.groupdict()
            if "a" in slots:
                slots |= {"an": with_articles(f"a {slots['a']}"), "p": plural(slots["a"])}
            filled = [form.format(**slots) for form in kind["held_out" if held_out else "training"]]
            return [form[0].upper() + form[1:] for form in filled]
    raise ValueError(f"There is no other wording of {text!r}. Add its kind to wordings.toml.")


def reword(text: str, rng: Rng, held_out: bool = False) -> str:
    """A question of `questions` or `practice` in other words that mean the same.

    held_out: whether in one of the wordings that training never uses.
    """
    if not held_out and rng.random() < _AS_MADE:
        return text
    return style(_names(pick(rng, wordings(text, held_out)), rng), rng, held_out)
