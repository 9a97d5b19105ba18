"""What a question about a scene is."""

from __future__ import annotations

from dataclasses import dataclass

from spare_demo.scenes.training.references import COUNTING, OCR, RECOGNITION, SPATIAL

SKILLS = (RECOGNITION, OCR, SPATIAL, COUNTING)


@dataclass(frozen=True)
class Question:
    """``things`` are the indices in ``scene.things`` of what the question is about."""

    text: str
    answer: str
    skills: tuple[str, ...]
    things: tuple[int, ...] = ()
    anchor: int | None = None  # the thing that is named outright and has to be found first
    # Answers that no training scene can have here, for the pairs that are kept back from it.
    excluded_answers: tuple[str, ...] = ()


def ordered(skills: frozenset[str] | set[str]) -> tuple[str, ...]:
    """Skills in the order in which a category names them."""
    return tuple(skill for skill in SKILLS if skill in skills)
