"""Pictures with their questions, drawn here or read from a file of JSON lines."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from spare_demo.images.load import open_picture
from spare_demo.scenes import draw
from spare_demo.scenes.sets import samples
from spare_demo.scenes.world import Scene

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LETTER_INSTRUCTION = "Answer with the option's letter from the given choices directly."
OWN_DATA = "data"
"""The set that a file's questions make."""


@dataclass(frozen=True)
class SheetQuestion:
    """One question of a picture.

    Attributes:
        text: the question; relevance is to this and the choices.
        answers: the right ones; any of them will do. With choices, the text of one of them.
        choices: what can be chosen from, A first; empty for a free answer.
        category: for example the skills it takes, "recognition + ocr".
        things: with a scene, the indices of the things it is about.
    """

    text: str
    answers: tuple[str, ...]
    choices: tuple[str, ...] = ()
    category: str = ""
    things: tuple[int, ...] = ()

    @property
    def question(self) -> str:
        """With the choices below it, a letter to each."""
        options = (f"{a}. {choice}" for a, choice in zip(LETTERS, self.choices, strict=False))
        return "\n".join([self.text, *options])


@dataclass(frozen=True)
class Sheet:
    """A picture with its questions.

    Attributes:
        set: "held-out", "unseen-pairs" or "data".
        picture: its seed, or its file's name.
        open: gives the picture; raises PictureError where it cannot.
        scene: what was drawn, None for a file.
        where: how to name it to a person, for example by its line in the file.
    """

    set: str
    picture: str
    questions: tuple[SheetQuestion, ...]
    open: Callable[[], Image.Image]
    scene: Scene | None = None
    where: str = ""


class BadLine(ValueError):
    """A line that cannot be used; the message has its number and says what is wrong."""


def draw_sheets(which: str, questions: int) -> Iterator[Sheet]:
    """The first questions of a set of scenes that no training draws from; always the same ones.

    Raises ValueError for an unknown set or fewer than one question.
    """
    for sample in samples(which, questions):
        asked = tuple(
            SheetQuestion(q.text, (q.answer,), (), " + ".join(q.skills), q.things)
            for q in sample.questions
        )
        picture = functools.partial(draw.draw, sample.scene)
        where = f"scene {sample.seed} of {which}"
        yield Sheet(which, str(sample.seed), asked, picture, sample.scene, where)


def read_lines(
    file: Path, images: Path, skip: Callable[[BadLine], None] | None = None
) -> list[Sheet]:
    """A file of JSON lines `{image, question, answer, choices, category}`, one question each.

    Args:
        file: UTF-8. `image` is a path inside `images`; `answer` a text, or a list of texts of which
            each is right; `choices`, if there, a list of texts, and `answer` then one of them or
            its letter; `category` may be missing. Other fields and empty lines are passed over.
        images: the folder of pictures.
        skip: called with every bad line, which is then left out. None: the first one is raised.

    Returns:
        pictures in the order in which they first come, each with all of its questions.

    Raises:
        BadLine: a line that is malformed, or whose picture is missing.
        OSError: the file cannot be read. ValueError: nothing usable is in it.
    """
    pictures: dict[str, list[SheetQuestion]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            image, asked = _read_line(line)
            if not (images / image).is_file():
                raise ValueError(f"there is no picture {image} in the folder of pictures")
        except ValueError as error:
            bad = BadLine(f"Line {number} of {file.name}: {error}.")
            if skip is None:
                raise bad from None
            skip(bad)
            continue
        pictures.setdefault(image, []).append(asked)
        lines.setdefault(image, number)
    if not pictures:
        raise ValueError(f"{file.name} has no usable question. Give one JSON object per line.")
    return [
        Sheet(
            OWN_DATA,
            image,
            tuple(asked),
            functools.partial(open_picture, images / image),
            where=f"{image} (line {lines[image]} of {file.name})",
        )
        for image, asked in pictures.items()
    ]


def digest(sheets: Sequence[Sheet]) -> str:
    """A fingerprint of what is asked and what is right, in order; pictures count by their name,
    drawn ones by their scene."""
    contents = [
        (s.set, s.picture, repr(s.scene), [(q.question, q.answers) for q in s.questions])
        for s in sheets
    ]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]


def _read_line(line: bytes) -> tuple[str, SheetQuestion]:
    try:
        entry = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("this is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("this JSON has too many brackets inside each other") from None
    if not isinstance(entry, dict):
        raise ValueError("this is not a JSON object")
    image, text = _text(entry, "image"), _text(entry, "question")
    choices = _texts(entry, "choices") if "choices" in entry else ()
    category = _text(entry, "category") if entry.get("category") else ""
    answers = _texts(entry, "answer")
    if choices:
        if not 2 <= len(choices) <= len(LETTERS):
            raise ValueError(f"choices must be 2 to {len(LETTERS)} texts")
        answers = tuple(_choice(answer, choices) for answer in answers)
    return image, SheetQuestion(text, answers, choices, category)


def _text(entry: dict[str, Any], field: str) -> str:
    value = entry.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'"{field}" must be a text that is not empty')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f'"{field}" has half of a pair of characters') from None
    return value.strip()


def _texts(entry: dict[str, Any], field: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    value = entry.get(field)
    if not isinstance(value, list):
        return (_text(entry, field),)
    if not value:
        raise ValueError(f'"{field}" must not be an empty list')
    return tuple(_text({field: item}, field) for item in value)


def _choice(answer: str, choices: tuple[str, ...]) -> str:
    """The text of the choice that an answer names, by text or by letter."""
    for choice in choices:
        if answer.casefold() == choice.casefold():
            return choice
    if len(answer) == 1 and answer.upper() in LETTERS[: len(choices)]:
        return choices[LETTERS.index(answer.upper())]
    raise ValueError(f'"answer" is {answer!r}, which is neither a choice nor the letter of one')
