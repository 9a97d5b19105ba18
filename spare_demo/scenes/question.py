"""What a question about a scene is, and words that name exactly one of the scene's things."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from spare_demo.scenes.world import SHAPES, Rng, Scene, Thing

RECOGNITION, OCR, SPATIAL, COUNTING = "recognition", "ocr", "spatial", "counting"
ABSENCE, OFF_TOPIC = "absence", "off topic"
"""What it takes to decline: what is asked about is not there, or is nothing a scene could show."""
SKILLS = (RECOGNITION, OCR, SPATIAL, COUNTING, ABSENCE, OFF_TOPIC)
"""In the order in which a category names them."""

CLEAR = 12.0  # pixels by which positions must differ to be told apart


@dataclass(frozen=True)
class Question:
    """``things`` are the indices in ``scene.things`` of what the question is about."""

    text: str
    answer: str
    skills: tuple[str, ...]
    things: tuple[int, ...] = ()
    anchor: int | None = None  # the thing that is named outright and has to be found first


@dataclass(frozen=True)
class Reference:
    """Words that name exactly one thing of the scene, and what it takes to follow them."""

    words: str
    index: int
    gives: Set[str]  # properties that the words give away
    skills: Set[str]

    def question(
        self, text: str, answer: str, skills: Set[str], others: tuple[int, ...] = ()
    ) -> Question:
        """A question about the thing and ``others``, which takes ``skills`` besides."""
        needed = tuple(skill for skill in SKILLS if skill in self.skills | skills)
        anchor = None if SPATIAL in self.skills else self.index
        return Question(text, answer, needed, (self.index, *others), anchor)


def plain_text(text: str) -> str:
    """A question's words alone: without case, extra spaces and the mark at its end, "an" as "a"."""
    words = ("a" if word == "an" else word for word in text.casefold().split())
    return " ".join(words).rstrip("?.! ")


def with_articles(text: str) -> str:
    """A question with "an" where it belongs, which a training question lacks."""
    return re.sub(r"\ba (?=[aeio])", "an ", text)


class NoQuestion(Exception):
    """The scene does not allow the question that was begun."""


def require(condition: object) -> None:
    """Raises NoQuestion unless it holds."""
    if not condition:
        raise NoQuestion


def pick(rng: Rng, options: Sequence[Any]) -> Any:
    """One of the options. Raises NoQuestion where there is none."""
    require(options)
    return options[int(rng.integers(len(options)))]


def indices(scene: Scene, test: Callable[[Thing], object]) -> tuple[int, ...]:
    """Where in ``scene.things`` those lie that pass."""
    return tuple(i for i, thing in enumerate(scene.things) if test(thing))


SIDES: dict[str, Callable[[Thing, Thing], bool]] = {
    "left of": lambda a, b: a.x < b.x,
    "right of": lambda a, b: a.x > b.x,
    "above": lambda a, b: a.y < b.y,
    "below": lambda a, b: a.y > b.y,
}


def is_clear(side: str, a: Thing, b: Thing) -> bool:
    """Whether it is beyond doubt which of two lies further to a side."""
    along = abs(a.x - b.x) if side in ("left of", "right of") else abs(a.y - b.y)
    return along >= CLEAR


def on_side(scene: Scene, side: str, other: Thing) -> tuple[int, ...] | None:
    """Indices of all things on a side of another one; None where that of any is in doubt."""
    if not all(is_clear(side, thing, other) for thing in scene.things if thing is not other):
        return None
    return indices(scene, lambda thing: SIDES[side](thing, other))


def _references(thing: Thing, index: int) -> list[Reference]:
    """By shape, by colour, by both, by what is printed on it."""
    shape, colour, kind = thing.shape, thing.colour, "number" if thing.number else "word"
    ways = (
        (shape, f"the {shape}", {"shape"}, RECOGNITION),
        (colour, f"the {colour} object", {"colour"}, RECOGNITION),
        (shape and colour, f"the {colour} {shape}", {"colour", "shape"}, RECOGNITION),
        (thing.print, f"the object with the {kind} {thing.print}", {kind}, OCR),
    )
    return [Reference(words, index, gives, {skill}) for there, words, gives, skill in ways if there]


def plain_references(scene: Scene) -> list[Reference]:
    """Words that name one thing by itself."""
    references = [r for i, thing in enumerate(scene.things) for r in _references(thing, i)]
    counts = Counter(reference.words for reference in references)
    return [reference for reference in references if counts[reference.words] == 1]


def side_references(scene: Scene, rng: Rng) -> list[Reference]:
    """The one of two alike on a side, and the one that lies on a side of another thing."""
    things, references = scene.things, []
    for shape in SHAPES:
        alike = [i for i, thing in enumerate(things) if thing.shape == shape]
        if len(alike) != 2:
            continue
        for words, side in (
            ("on the left", "left of"), ("on the right", "right of"),
            ("at the top", "above"), ("at the bottom", "below"),
        ):  # fmt: skip
            i, j = alike if SIDES[side](things[alike[0]], things[alike[1]]) else alike[::-1]
            if is_clear(side, things[i], things[j]):
                skills = {RECOGNITION, SPATIAL}
                references.append(Reference(f"the {shape} {words}", i, {"shape"}, skills))
    anchors = [r for r in plain_references(scene) if r.gives != {"colour", "shape"}]
    if not anchors:
        return references
    anchor = pick(rng, anchors)
    for side in SIDES:
        there = on_side(scene, side, things[anchor.index]) or ()
        if len(there) == 1:
            words = f"the object {side} {anchor.words}"
            references.append(Reference(words, there[0], set(), anchor.skills | {SPATIAL}))
            continue
        shapes = [things[i].shape for i in there]
        for i, shape in zip(there, shapes, strict=True):
            if shape and shapes.count(shape) == 1:
                words = f"the {shape} {side} {anchor.words}"
                skills = anchor.skills | {SPATIAL, RECOGNITION}
                references.append(Reference(words, i, {"shape"}, skills))
    return references
