"""Pictures to start from, with questions and their true answers: shipped ones, and new scenes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from spare_demo.images.load import file_digest
from spare_demo.models.loading.catalogue import ASSETS, BUILT_IN
from spare_demo.scenes import sets
from spare_demo.scenes.wordings import plain_text, with_articles
from spare_demo.settings import Settings

T = TypeVar("T")

FOLDER = ASSETS / "examples"
_MOST_QUESTIONS = 4
_MOST_FILES = 200  # of all visitors in a folder; Gradio copies each at once


def read_choice(items: Sequence[T], index: object) -> T:
    """The item that was clicked; ValueError, with a sentence to show, for an index of none."""
    if type(index) is not int or not 0 <= index < len(items):
        raise ValueError("This one is not on the page any more. Click one that is shown.")
    return items[index]


@dataclass(frozen=True)
class Example:
    """A picture in a file, and what can be asked about it.

    Attributes:
        answers: the true answer of each question, in the order that they are asked.
        key: the digest of the file's bytes.
    """

    path: str
    answers: dict[str, str]
    key: str

    @property
    def name(self) -> str:
        """Of the picture's file."""
        return Path(self.path).name

    @property
    def question(self) -> str:
        """The first question."""
        return next(iter(self.answers))

    def question_after(self, question: str) -> str:
        """The question that follows this one, in a circle; after any other, the first."""
        questions = [*self.answers]
        if question not in questions:
            return self.question
        return questions[(questions.index(question) + 1) % len(questions)]


@dataclass(frozen=True)
class Opening:
    """What the page opens on: an example with one of its questions, at a budget in tokens."""

    example: Example
    question: str
    budget: int


def choose_opening(model: str, examples: Sequence[Example], settings: Settings) -> Opening:
    """The case in ``opening.json`` for the built-in model as it starts by default.

    For any other model, budget or methods it is the first example. examples: as `load_examples`.

    Raises ValueError, with a sentence to show, where that file is missing or damaged.
    """
    usual = Settings()
    defaults = (settings.budget, settings.methods) == (usual.budget, usual.methods)
    if not (knows_only_scenes(model) and defaults):
        return Opening(examples[0], examples[0].question, settings.budget)
    by_name = {example.name: example for example in examples}
    try:
        case = json.loads((FOLDER / "opening.json").read_text(encoding="utf-8"))
        return Opening(by_name[case["picture"]], case["question"], case["budget"])
    except (OSError, ValueError, LookupError, TypeError):
        raise _damaged("opening.json") from None


def knows_only_scenes(model: str) -> bool:
    """Whether the model of this name knows drawn scenes, and nothing about photos."""
    return model == BUILT_IN.name


def load_examples(model: str) -> list[Example]:
    """The examples in ``assets/examples`` for the model of this name, in the order of its list.

    They are drawn scenes for the built-in model, and photos for every other one.

    Raises ValueError, with a sentence to show, where the program's own files are not all there.
    """
    file = "examples.json" if knows_only_scenes(model) else "photos.json"
    answers: dict[str, dict[str, str]] = {}
    try:
        for row in json.loads((FOLDER / file).read_text(encoding="utf-8")):
            answers.setdefault(row["picture"], {})[row["question"]] = row["answer"]
        return [example_of(FOLDER / picture, answers[picture]) for picture in answers]
    except (OSError, ValueError, LookupError, TypeError):
        raise _damaged(file) from None


def _damaged(file: str) -> ValueError:
    return ValueError(
        f"The examples in {FOLDER} are not all there, or {file} is damaged. Get the program's "
        "folder assets again."
    )


def example_of(path: str | Path, answers: dict[str, str]) -> Example:
    """An example whose picture lies at the path."""
    return Example(str(path), answers, file_digest(path))


def new_scene(folder: Path) -> Example:
    """A scene that nobody has seen, drawn into a file in ``folder``, with its questions."""
    while True:
        seed = int(np.random.default_rng().integers(2**31))
        if sets.sample_of("page", seed).questions:
            return draw_scene("page", seed, folder)


def draw_scene(which: str, seed: int, folder: Path) -> Example:
    """The scene of a set with this seed, drawn into a file in ``folder``, with its questions.

    Raises ValueError for a scene about which nothing can be asked.
    """
    questions = sets.sample_of(which, seed).questions
    if not questions:
        raise ValueError(f"Scene {seed} of {which} has no question. Choose another seed.")
    answers = {with_articles(question.text): question.answer for question in questions}
    return example_of(draw_picture(which, seed, folder), answers)


def draw_picture(which: str, seed: int, folder: Path) -> Path:
    """The file in ``folder`` of the scene of a set with this seed, drawn where it is not there."""
    path = folder / f"{which}-{seed}.png"
    try:
        os.utime(path)  # in use again: not to be the oldest when the next one is drawn
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        sets.save(which, seed, path)
        keep_latest(folder)
    return path


def keep_latest(folder: Path) -> None:
    """Delete the oldest files of a folder that has more than `_MOST_FILES`."""
    with suppress(FileNotFoundError):  # another visitor's event is deleting them
        for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[:-_MOST_FILES]:
            old.unlink(missing_ok=True)


def find(examples: Sequence[Example], key: str, question: str) -> tuple[bool, str | None]:
    """Whether a picture is one of the examples; the true answer if the question is its own."""
    same = [example.answers for example in examples if example.key == key]
    truths = {plain_text(text): truth for answers in same for text, truth in answers.items()}
    return bool(same), truths.get(plain_text(question))


def questions_about(
    examples: Sequence[Example], key: str, scene: tuple[str, int] | None
) -> tuple[str, ...]:
    """A few questions about a picture whose true answers are known, an example's own first.

    scene: the set and the seed of a drawn scene, None for any other picture.
    """
    own = [question for example in examples if example.key == key for question in example.answers]
    drawn = () if scene is None else sets.sample_of(*scene).questions
    texts = [with_articles(question.text) for question in drawn]
    return tuple(dict.fromkeys([*own, *texts]))[:_MOST_QUESTIONS]
