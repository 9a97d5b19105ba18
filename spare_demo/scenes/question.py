"""What a question about a scene is."""

from __future__ import annotations

from dataclasses import dataclass

from spare_demo.scenes.references import (
    ABSENCE,
    COUNTING,
    OCR,
    OFF_TOPIC,
    RECOGNITION,
    SPATIAL,
)

SKILLS = (RECOGNITION, OCR, SPATIAL, COUNTING, ABSENCE, OFF_TOPIC)


@dataclass(frozen=True)
class Question:
    """``things`` are the indices in ``scene.things`` of what the question is about."""

    text: str
    answer: str
    skills: tuple[str, ...]
    things: tuple[int, ...] = ()
    anchor: int | None = None  # the thing that is named outright and has to be found first


def ordered(skills: frozenset[str] | set[str]) -> tuple[str, ...]:
    """Skills in the order in which a category names them."""
    return tuple(skill for skill in SKILLS if skill in skills)
