"""Drawn scenes to start from, with their true answers: the shipped ones, and new ones on demand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spare_demo.images.load import file_digest
from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes import questions, signature, world

FOLDER = ASSETS / "examples"
_SCENES_ON_DISK = 100  # Gradio copies a scene at once; older ones are of no use


@dataclass(frozen=True)
class Example:
    """A picture in a file (`key`: the digest of its bytes), a question and its true answer."""

    path: str
    question: str
    answer: str
    key: str


def load_examples() -> list[Example]:
    """The examples in ``assets/examples``, in the order of its list."""
    rows = json.loads((FOLDER / "examples.json").read_text())
    return [_example(FOLDER / row["picture"], row["question"], row["answer"]) for row in rows]


def _example(path: Path, question: str, answer: str) -> Example:
    return Example(str(path), question, answer, file_digest(path))


def new_scene(folder: Path) -> Example:
    """A scene that nobody has seen, drawn into a file in ``folder``, with one of its questions."""
    while True:
        seed = int(np.random.default_rng().integers(2**31))
        rng = world.rng_of("page", seed)
        scene = world.sample_scene(signature.WORLDS["page"], rng)
        scene_questions = questions.ask(scene, rng, 1)
        if scene_questions:
            break
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"scene-{seed}.png"
    signature.save("page", seed, path)
    for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[:-_SCENES_ON_DISK]:
        old.unlink(missing_ok=True)
    return _example(path, scene_questions[0].text, scene_questions[0].answer)


def find(scenes: Sequence[Example], key: str, question: str) -> tuple[bool, str | None]:
    """Whether a picture is one of the known scenes; the true answer if the question is its own."""
    same = [example for example in scenes if example.key == key]
    answers = (example.answer for example in same if example.question == question.strip())
    return bool(same), next(answers, None)


def number(examples: Sequence[Example], key: str) -> int | None:
    """Which of the offered examples has this picture, None for any other picture."""
    return next((i for i, example in enumerate(examples) if example.key == key), None)
