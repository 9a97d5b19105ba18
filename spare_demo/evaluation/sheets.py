"""Pictures with their questions, drawn here or read from entries such as a file's JSON lines."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from spare_demo.images.load import open_local_picture
from spare_demo.scenes import draw
from spare_demo.scenes.sets import Sample, samples
from spare_demo.scenes.world import Scene

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
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
        """The text with the choices below it, a letter to each."""
        options = (f"{a}. {choice}" for a, choice in zip(LETTERS, self.choices, strict=False))
        return "\n".join([self.text, *options])


@dataclass(frozen=True)
class Sheet:
    """A picture with its questions.

    Attributes:
        set: "held-out", "unseen-pairs", "held-out-wordings" or "data".
        picture: its seed, its file's name, or of a dataset the digest of its bytes.
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


@dataclass(frozen=True)
class Fields:
    """The names of an entry's fields: of its picture, its question, and so on."""

    picture: str = "image"
    question: str = "question"
    answer: str = "answer"
    choices: str = "choices"
    category: str = "category"


def draw_sheets(which: str, questions: int) -> Iterator[Sheet]:
    """The first questions of a set of scenes that no training draws from; always the same ones.

    Raises ValueError for an unknown set or fewer than one question.
    """
    for sample in samples(which, questions):
        yield drawn_sheet(which, sample)


def drawn_sheet(which: str, sample: Sample) -> Sheet:
    """A scene of a set, with its questions."""
    asked = tuple(
        SheetQuestion(q.text, (q.answer,), (), " + ".join(q.skills), q.things)
        for q in sample.questions
    )
    picture = functools.partial(draw.draw, sample.scene)
    where = f"scene {sample.seed} of {which}"
    return Sheet(which, str(sample.seed), asked, picture, sample.scene, where)


def read_lines(
    file: Path, images: Path, fields: Fields, most: int | None, skip: Callable[[str], None]
) -> list[Sheet]:
    """A file of JSON lines `{image, question, answer, choices, category}`, one question each.

    file: UTF-8. `image` is a path inside `images`, and "./a.png" is "a.png"; the rest as of
        `read_question`. Other fields and empty lines are passed over.
    fields: what the fields are called. most: how many lines are read; None: all.
    skip, and what is returned: as of `group_by_picture`.

    Raises OSError: the file cannot be read. ValueError: nothing usable is in it.
    """
    content = file.read_bytes()
    unusable = f"{file.name} has no usable question. Give one JSON object per line."
    # Of a table no line would be left, and of a list of objects, over lines, the last alone.
    if b"{" not in content or content.lstrip().startswith(b"["):
        raise ValueError(unusable)
    lines = enumerate(content.split(b"\n"), start=1)
    named = (
        (f"line {number} of {file.name}", functools.partial(_read_line, line, images, fields))
        for number, line in lines
        if line.strip()
    )
    sheets = group_by_picture(itertools.islice(named, most), skip)
    if not sheets:
        raise ValueError(unusable)
    return sheets


def group_by_picture(
    entries: Iterable[tuple[str, Callable[[], Sheet]]], skip: Callable[[str], None]
) -> list[Sheet]:
    """A sheet for each picture, in the order in which they first come, with all of its questions.

    entries: of each, how to name it to a person ("line 2 of own.jsonl") and how to read its one
        question, which raises ValueError, without a full stop, where it cannot be used.
    skip: called with a sentence for every bad one, with its name and what is wrong; it is left out.
    """
    pictures: dict[str, Sheet] = {}
    questions: dict[str, list[SheetQuestion]] = {}
    for name, read in entries:
        try:
            sheet = read()
        except ValueError as error:
            skip(f"{name[0].upper()}{name[1:]}: {error}.")
            continue
        pictures.setdefault(sheet.picture, replace(sheet, where=f"{sheet.picture} ({name})"))
        questions.setdefault(sheet.picture, []).extend(sheet.questions)
    return [replace(sheet, questions=tuple(questions[name])) for name, sheet in pictures.items()]


def digest(sheets: Sequence[Sheet]) -> str:
    """A fingerprint of what is asked, what is right and its category, in order; pictures count by
    their name, drawn ones by their scene, which decides the category."""

    def fingerprint(sheet: Sheet, asked: SheetQuestion) -> tuple[object, ...]:
        category = (asked.category,) if asked.category and sheet.scene is None else ()
        return asked.question, asked.answers, *category

    contents = [
        (s.set, s.picture, repr(s.scene), [fingerprint(s, q) for q in s.questions]) for s in sheets
    ]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]


def read_question(entry: Mapping[str, Any], fields: Fields) -> SheetQuestion:
    """The question of an entry.

    Its answer is a text, or a list of texts of which each is right. Where it has choices, a list of
    texts, the answer is one of them or its letter. The category may be missing. A number stands for
    its text; true and false do not, since they may be "yes" and "no" or "true" and "false".

    Raises ValueError, without a full stop, naming the field that is wrong.
    """
    text, answers = _text(entry, fields.question), _texts(entry, fields.answer)
    choices = _texts(entry, fields.choices) if entry.get(fields.choices) else ()
    named = entry.get(fields.category)
    category = _text(entry, fields.category) if named or named == 0 else ""
    if choices:
        if not 2 <= len(choices) <= len(LETTERS):
            raise ValueError(f"{fields.choices} must be 2 to {len(LETTERS)} texts")
        if len({choice.casefold() for choice in choices}) < len(choices):
            raise ValueError(
                f"{fields.choices} must all differ, and not only in upper and lower case"
            )
        answers = tuple(_choice(answer, choices, fields) for answer in answers)
    return SheetQuestion(text, answers, choices, category)


def _read_line(line: bytes, images: Path, fields: Fields) -> Sheet:
    try:
        entry = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("this is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON ({error.msg}, column {error.colno})") from None
    except ValueError:
        raise ValueError("this JSON has a number of too many digits") from None
    except RecursionError:
        raise ValueError("this JSON has too many brackets inside each other") from None
    if not isinstance(entry, dict):
        raise ValueError("this is not a JSON object")
    image = _text(entry, fields.picture)
    question = read_question(entry, fields)
    # One name for each picture. Links are not followed: a folder may hold links to its pictures.
    try:
        name = os.path.relpath(images / image, images)
    except ValueError:  # on another drive of Windows
        name = os.pardir
    if name.split(os.sep)[0] == os.pardir:
        raise ValueError(
            f"the picture {image} is outside {images}; name a folder above it with --images"
        )
    image = Path(name).as_posix()
    if not os.path.isfile(images / image):  # False also for a name that no file can have
        raise ValueError(f"there is no picture {image} in the folder of pictures")
    return own_sheet(image, images / image, question)


def own_sheet(picture: str, file: Path, question: SheetQuestion) -> Sheet:
    """One question about a picture of the set "data"."""
    return Sheet(OWN_DATA, picture, (question,), functools.partial(open_local_picture, file))


def _text(entry: Mapping[str, Any], field: str) -> str:
    value = entry.get(field)
    if isinstance(value, bool):
        words = '"yes" or "true"' if value else '"no" or "false"'
        raise ValueError(f'"{field}" must be a text, such as {words} in quotes')
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas writes the whole numbers of a column with gaps as 3.0
    if isinstance(value, int | float) and value == value:  # no NaN
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'"{field}" must be a text that is not empty')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f'"{field}" has half of a pair of characters') from None
    return value.strip()


def _texts(entry: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """One text, or a list of them."""
    value = entry.get(field)
    if not isinstance(value, list):
        return (_text(entry, field),)
    if not value:
        raise ValueError(f'"{field}" must not be an empty list')
    return tuple(_text({field: item}, field) for item in value)


def _choice(answer: str, choices: tuple[str, ...], fields: Fields) -> str:
    """The text of the choice that an answer names, by text or by letter."""
    for choice in choices:
        if answer.casefold() == choice.casefold():
            return choice
    if len(answer) == 1 and answer.upper() in LETTERS[: len(choices)]:
        return choices[LETTERS.index(answer.upper())]
    raise ValueError(
        f'"{fields.answer}" is {answer!r}, which is neither one of the choices nor its letter'
    )
