"""Whether a question is put in words that the shipped model was taught, and which come close.

It learnt the questions that `questions` makes, in those very words. Asked in others it answers all
the same, and often wrongly: "Is there a star?" is answered *no* where there is one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Literal

from spare_demo.scenes.world import COLOURS, SHAPES, WORDS

Wording = Literal["taught", "other", "off topic"]
"""In words that the model was taught; in others, about drawn scenes; about something else."""

_COLOUR, _SHAPE, _WORD = (f"(?:{'|'.join(names)})" for names in (COLOURS, SHAPES, WORDS))
_SIDE = "(?:left of|right of|above|below)"
_PLAIN = (
    rf"the (?:(?:{_COLOUR} )?{_SHAPE}|{_COLOUR} object|"
    rf"object with the (?:number \d|word {_WORD}))"
)
# What names one thing: by itself, by its side of another, as one of two alike, as the outermost.
_ONE = (
    rf"(?:{_PLAIN}|the (?:{_SHAPE}|object) {_SIDE} {_PLAIN}|"
    rf"the {_SHAPE} (?:on the left|on the right|at the top|at the bottom)|"
    "the (?:leftmost|rightmost|topmost|lowest|largest|smallest) object)"
)
_KINDS = re.compile(
    "|".join(
        (
            rf"What (?:colou?r|shape) is {_ONE}\?",
            rf"(?:What|Which) number is on {_ONE}\?",
            rf"What word is on {_ONE}\?",
            rf"Is there a (?:{_COLOUR} {_SHAPE}|number \d)\?",
            rf"Is {_ONE} (?:left or right of|above or below) {_ONE}\?",
            rf"Is {_ONE} in the (?:left or the right|top or the bottom) half\?",
            rf"Where is {_ONE}\?",
            r"What is the (?:leftmost|rightmost|topmost|lowest|largest|smallest) number\?",
            r"What (?:number is shown|word is written)\?",
            rf"How many (?:(?:{_COLOUR} )?objects|numbers|{_SHAPE}(?:e?s)) are there\?",
            rf"How many objects are {_SIDE} {_ONE}\?",
            r"What is the sum of the numbers\?",
            rf"What is the number on {_ONE} plus the number on {_ONE}\?",
        )
    )
)
_OF_SCENES = re.compile(
    rf"\b(?:{_COLOUR}|{_SHAPE}(?:e?s)?|(?-i:{_WORD})|colou?rs?|shapes?|objects?|things?|symbols?|"
    r"numbers?|digits?|words?|text|letters?|written|printed|sum|left|right|above|below|top|bottom|"
    r"largest|biggest|smallest|leftmost|rightmost|topmost|lowest|background|describe|picture|"
    r"image|scene|\d)\b",
    re.IGNORECASE,
)
_CLOSE = 3


def wording(question: str) -> Wording:
    """How a question is put. One without words is in none but those that were taught."""
    text = question.strip()
    if not text or _KINDS.fullmatch(text):
        return "taught"
    return "other" if _OF_SCENES.search(text) else "off topic"


def close_questions(question: str, questions: Sequence[str]) -> tuple[str, ...]:
    """The three of ``questions`` that name most of what ``question`` names; of as good ones those
    that are spelt most like it."""
    named = set(_OF_SCENES.findall(question.lower()))

    def closeness(text: str) -> tuple[int, float]:
        alike = difflib.SequenceMatcher(None, question.strip(), text).ratio()
        return len(named.intersection(_OF_SCENES.findall(text.lower()))), alike

    # In one of both spellings.
    different = {text.replace("color", "colour"): text for text in questions}.values()
    return tuple(sorted(different, key=closeness, reverse=True)[:_CLOSE])
