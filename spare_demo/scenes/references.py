"""Words that name exactly one thing of a scene: by what it is, or by where it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spare_demo.scenes.world import SHAPES, Scene, Thing

RECOGNITION, OCR, SPATIAL, COUNTING = "recognition", "ocr", "spatial", "counting"
ABSENCE, OFF_TOPIC = "absence", "off topic"
"""What it takes to decline: what is asked about is not there, or is nothing a scene could show."""

CLEAR = 12.0  # pixels by which positions must differ to be told apart

Rng = np.random.Generator


@dataclass(frozen=True)
class Reference:
    """Words that name exactly one thing of the scene, and what it takes to follow them."""

    words: str
    index: int
    gives: frozenset[str]  # properties that the words give away
    skills: frozenset[str]


def pick(rng: Rng, options: Sequence[Any]) -> Any:
    """One of the options, or None where there is none."""
    return options[int(rng.integers(len(options)))] if options else None


def only(things: Sequence[Thing], test: Callable[[Thing], bool]) -> int | None:
    """The index of the one thing that passes, or None."""
    references = [i for i, thing in enumerate(things) if test(thing)]
    return references[0] if len(references) == 1 else None


def _is_alone(values: Sequence[object], index: int) -> bool:
    """Whether no other thing has the value that this one has."""
    return values.count(values[index]) == 1


SIDES: dict[str, Callable[[Thing, Thing], bool]] = {
    "left of": lambda a, b: a.x < b.x,
    "right of": lambda a, b: a.x > b.x,
    "above": lambda a, b: a.y < b.y,
    "below": lambda a, b: a.y > b.y,
}


def is_clear(side: str, a: Thing, b: Thing) -> bool:
    along = abs(a.x - b.x) if side in ("left of", "right of") else abs(a.y - b.y)
    return along >= CLEAR


def plain_references(scene: Scene) -> list[Reference]:
    """By shape, by colour, by both, by what is printed on it."""
    things, references = scene.things, []
    for i, thing in enumerate(things):
        seen = frozenset({RECOGNITION})
        if thing.shape and _is_alone([t.shape for t in things], i):
            references.append(Reference(f"the {thing.shape}", i, frozenset({"shape"}), seen))
        if thing.colour and _is_alone([t.colour for t in things], i):
            references.append(
                Reference(f"the {thing.colour} object", i, frozenset({"colour"}), seen)
            )
        named = thing.colour and thing.shape
        if named and _is_alone([(t.colour, t.shape) for t in things], i):
            both = frozenset({"colour", "shape"})
            words = f"the {thing.colour} {thing.shape}"
            references.append(Reference(words, i, both, seen))
        if thing.print and _is_alone([t.print for t in things], i):
            kind = "number" if thing.number else "word"
            words = f"the object with the {kind} {thing.print}"
            references.append(Reference(words, i, frozenset({kind}), frozenset({OCR})))
    return references


def side_references(scene: Scene, rng: Rng) -> list[Reference]:
    """The one of two alike on a side, and the one that lies on a side of another thing."""
    things, references = scene.things, []
    for shape in SHAPES:
        alike = [i for i, thing in enumerate(things) if thing.shape == shape]
        if len(alike) == 2:
            for words, side in (
                ("on the left", "left of"), ("on the right", "right of"),
                ("at the top", "above"), ("at the bottom", "below"),
            ):  # fmt: skip
                i, j = alike if SIDES[side](things[alike[0]], things[alike[1]]) else alike[::-1]
                if is_clear(side, things[i], things[j]):
                    skills = frozenset({RECOGNITION, SPATIAL})
                    references.append(
                        Reference(f"the {shape} {words}", i, frozenset({"shape"}), skills)
                    )
    anchor = pick(rng, [r for r in plain_references(scene) if r.gives != {"colour", "shape"}])
    if anchor:
        other = things[anchor.index]
        for side, holds in SIDES.items():
            rest = [i for i in range(len(things)) if i != anchor.index]
            if not all(is_clear(side, things[i], other) for i in rest):
                continue
            there = [i for i in rest if holds(things[i], other)]
            skills = anchor.skills | {SPATIAL}
            if len(there) == 1:
                words = f"the object {side} {anchor.words}"
                references.append(Reference(words, there[0], frozenset(), skills))
            for i in (i for i in there if things[i].shape):
                if sum(things[j].shape == things[i].shape for j in there) == 1 and len(there) > 1:
                    words = f"the {things[i].shape} {side} {anchor.words}"
                    gives = frozenset({"shape"})
                    references.append(Reference(words, i, gives, skills | {RECOGNITION}))
    return references
