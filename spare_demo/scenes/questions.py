"""Questions about a scene, their exact answers and the skills each needs, tagged as MM-Vet does.

A question is asked only where its answer is beyond doubt: whatever it names is there once, and
nothing that it compares is nearly equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .world import COLOURS, HELD_OUT_COLOUR_SHAPE, SHAPES, Scene, Thing

RECOGNITION, OCR, SPATIAL, COUNTING = "recognition", "ocr", "spatial", "counting"
SKILLS = (RECOGNITION, OCR, SPATIAL, COUNTING)

_CLEAR = 12.0  # pixels by which positions must differ to be told apart


@dataclass(frozen=True)
class Question:
    """``things`` are the indices in ``scene.things`` of what the question is about."""

    text: str
    answer: str
    skills: tuple[str, ...]
    things: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Reference:
    """Words that name exactly one thing of the scene, and what it takes to follow them."""

    words: str
    index: int
    gives: frozenset[str]  # properties that the words give away
    skills: frozenset[str]


Rng = np.random.Generator
Maker = Callable[[Scene, Rng], "Question | None"]


def _pick(rng: Rng, options: Sequence[Any]) -> Any:
    """One of the options, or None where there is none."""
    return options[int(rng.integers(len(options)))] if options else None


def _only(things: Sequence[Thing], test: Callable[[Thing], bool]) -> int | None:
    """The index of the one thing that passes, or None."""
    found = [i for i, thing in enumerate(things) if test(thing)]
    return found[0] if len(found) == 1 else None


def _is_alone(values: Sequence[object], index: int) -> bool:
    """Whether no other thing has the value that this one has."""
    return values.count(values[index]) == 1


def _ordered(skills: frozenset[str] | set[str]) -> tuple[str, ...]:
    return tuple(skill for skill in SKILLS if skill in skills)


_SIDES: dict[str, Callable[[Thing, Thing], bool]] = {
    "left of": lambda a, b: a.x < b.x,
    "right of": lambda a, b: a.x > b.x,
    "above": lambda a, b: a.y < b.y,
    "below": lambda a, b: a.y > b.y,
}


def _is_clear(side: str, a: Thing, b: Thing) -> bool:
    along = abs(a.x - b.x) if side in ("left of", "right of") else abs(a.y - b.y)
    return along >= _CLEAR


def _plain_references(scene: Scene) -> list[_Reference]:
    """By shape, by colour, by both, by what is printed on it."""
    things, found = scene.things, []
    for i, thing in enumerate(things):
        seen = frozenset({RECOGNITION})
        if _is_alone([t.shape for t in things], i):
            found.append(_Reference(f"the {thing.shape}", i, frozenset({"shape"}), seen))
        if _is_alone([t.colour for t in things], i):
            found.append(_Reference(f"the {thing.colour} object", i, frozenset({"colour"}), seen))
        if _is_alone([(t.colour, t.shape) for t in things], i):
            both = frozenset({"colour", "shape"})
            words = f"the {thing.colour} {thing.shape}"
            found.append(_Reference(words, i, both, seen))
        if thing.print and _is_alone([t.print for t in things], i):
            kind = "number" if thing.number else "word"
            words = f"the object with the {kind} {thing.print}"
            found.append(_Reference(words, i, frozenset({kind}), frozenset({OCR})))
    return found


def _side_references(scene: Scene, rng: Rng) -> list[_Reference]:
    """The one of two alike on a side, and the one that lies on a side of another thing."""
    things, found = scene.things, []
    for shape in SHAPES:
        alike = [i for i, thing in enumerate(things) if thing.shape == shape]
        if len(alike) == 2:
            for words, side in (
                ("on the left", "left of"), ("on the right", "right of"),
                ("at the top", "above"), ("at the bottom", "below"),
            ):  # fmt: skip
                i, j = alike if _SIDES[side](things[alike[0]], things[alike[1]]) else alike[::-1]
                if _is_clear(side, things[i], things[j]):
                    skills = frozenset({RECOGNITION, SPATIAL})
                    found.append(
                        _Reference(f"the {shape} {words}", i, frozenset({"shape"}), skills)
                    )
    anchor = _pick(rng, [r for r in _plain_references(scene) if r.gives != {"colour", "shape"}])
    if anchor:
        other = things[anchor.index]
        for side, holds in _SIDES.items():
            rest = [i for i in range(len(things)) if i != anchor.index]
            if not all(_is_clear(side, things[i], other) for i in rest):
                continue
            there = [i for i in rest if holds(things[i], other)]
            skills = anchor.skills | {SPATIAL}
            if len(there) == 1:
                words = f"the object {side} {anchor.words}"
                found.append(_Reference(words, there[0], frozenset(), skills))
            for i in there:
                if sum(things[j].shape == things[i].shape for j in there) == 1 and len(there) > 1:
                    words = f"the {things[i].shape} {side} {anchor.words}"
                    gives = frozenset({"shape"})
                    found.append(_Reference(words, i, gives, skills | {RECOGNITION}))
    return found


def _ask_about(reference: _Reference, scene: Scene, rng: Rng) -> Question | None:
    """Colour, shape, number or word of what the reference names."""
    thing, words = scene.things[reference.index], reference.words
    options: list[tuple[str, str, str]] = []
    if "colour" not in reference.gives:
        ask = _pick(rng, (f"What colour is {words}?", f"What color is {words}?"))
        options.append((ask, thing.colour, RECOGNITION))
    if "shape" not in reference.gives:
        options.append((f"What shape is {words}?", thing.shape, RECOGNITION))
    if thing.number and "number" not in reference.gives:
        ask = _pick(rng, (f"What number is on {words}?", f"Which number is on {words}?"))
        options += [(ask, thing.number, OCR)] * 2
    if thing.word and "word" not in reference.gives:
        options += [(f"What word is on {words}?", thing.word, OCR)] * 2
    chosen = _pick(rng, options)
    if chosen is None:
        return None
    text, answer, skill = chosen
    return Question(text, answer, _ordered(reference.skills | {skill}), (reference.index,))


def _attribute(scene: Scene, rng: Rng) -> Question | None:
    reference = _pick(rng, _plain_references(scene))
    return _ask_about(reference, scene, rng) if reference else None


def _attribute_by_side(scene: Scene, rng: Rng) -> Question | None:
    reference = _pick(rng, _side_references(scene, rng))
    return _ask_about(reference, scene, rng) if reference else None


def _exists(scene: Scene, rng: Rng) -> Question | None:
    """Half yes; a no differs from something that is there in one property only."""
    thing = _pick(rng, scene.things)
    index = scene.things.index(thing)
    colour, shape = thing.colour, thing.shape
    if rng.random() < 0.5:
        return Question(f"Is there a {colour} {shape}?", "yes", (RECOGNITION,), (index,))
    if rng.random() < 0.5:
        colour = str(rng.choice(list(COLOURS)))
    else:
        shape = str(rng.choice(SHAPES))
    if any((t.colour, t.shape) == (colour, shape) for t in scene.things):
        return None
    if (colour, shape) in HELD_OUT_COLOUR_SHAPE:
        return None  # else training would teach that such things never are
    return Question(f"Is there a {colour} {shape}?", "no", (RECOGNITION,), (index,))


def _side_of(scene: Scene, rng: Rng) -> Question | None:
    references = _plain_references(scene)
    if len({r.index for r in references}) < 2:
        return None
    a = _pick(rng, references)
    b = _pick(rng, [r for r in references if r.index != a.index])
    one, two = scene.things[a.index], scene.things[b.index]
    first, second = ("left of", "right of") if rng.random() < 0.5 else ("above", "below")
    if not _is_clear(first, one, two):
        return None
    answer = (first if _SIDES[first](one, two) else second).replace(" of", "")
    text = f"Is {a.words} {first.replace(' of', '')} or {second} {b.words}?"
    return Question(text, answer, _ordered(a.skills | b.skills | {SPATIAL}), (a.index, b.index))


def _half(scene: Scene, rng: Rng) -> Question | None:
    """Where the largest or the smallest thing lies: nothing but place and size."""
    by_size = sorted(range(len(scene.things)), key=lambda i: scene.things[i].size)
    if len(by_size) < 2:
        return None
    largest = rng.random() < 0.5
    i, j = by_size[:-3:-1] if largest else by_size[:2]
    ratio = scene.things[i].size / scene.things[j].size
    if max(ratio, 1 / ratio) < 1.25:
        return None
    across = rng.random() < 0.5
    place = scene.things[i].x if across else scene.things[i].y
    if abs(place - scene.side / 2) < _CLEAR:
        return None
    first, second = ("left", "right") if across else ("top", "bottom")
    which = "largest" if largest else "smallest"
    text = f"Is the {which} object in the {first} or the {second} half?"
    return Question(text, first if place < scene.side / 2 else second, (SPATIAL,), (i,))


_EXTREMES = {"leftmost": ("x", 1), "rightmost": ("x", -1), "topmost": ("y", 1), "lowest": ("y", -1)}


def _extreme(scene: Scene, rng: Rng) -> Question | None:
    """Colour, shape or print of the outermost thing, or the outermost number."""
    word = _pick(rng, list(_EXTREMES))
    axis, sign = _EXTREMES[word]
    numbers_only = rng.random() < 0.4
    these = [i for i, t in enumerate(scene.things) if t.number or not numbers_only]
    these.sort(key=lambda i: sign * getattr(scene.things[i], axis))
    if len(these) < 2:
        return None
    a, b = (getattr(scene.things[i], axis) for i in these[:2])
    if abs(a - b) < _CLEAR:
        return None
    if numbers_only:
        number = scene.things[these[0]].number
        assert number is not None
        text = f"What is the {word} number?"
        return Question(text, number, (OCR, SPATIAL), tuple(these[:1]))
    reference = _Reference(f"the {word} object", these[0], frozenset(), frozenset({SPATIAL}))
    return _ask_about(reference, scene, rng)


def _read(scene: Scene, rng: Rng) -> Question | None:
    """The only number or word there is."""
    kind = _pick(rng, ("number", "word"))
    index = _only(scene.things, lambda t: bool(getattr(t, kind)))
    if index is None:
        return None
    text = "What number is shown?" if kind == "number" else "What word is written?"
    return Question(text, getattr(scene.things[index], kind), (OCR,), (index,))


def _print_exists(scene: Scene, rng: Rng) -> Question | None:
    numbers = [t.number for t in scene.things if t.number]
    if not numbers:
        return None
    if rng.random() < 0.5:
        number, answer = _pick(rng, numbers), "yes"
    else:
        number, answer = str(rng.integers(10)), "no"
        if number in numbers:
            return None
    about = tuple(i for i, t in enumerate(scene.things) if t.number == number)
    return Question(f"Is there a number {number}?", answer, (OCR,), about)


def _count(scene: Scene, rng: Rng) -> Question | None:
    things = scene.things
    kind = _pick(rng, ("all", "shape", "shape", "colour", "colour", "numbers"))
    if kind == "all":
        every = tuple(range(len(things)))
        return Question("How many objects are there?", str(len(things)), (COUNTING,), every)
    if kind == "numbers":
        about = tuple(i for i, t in enumerate(things) if t.number)
        return Question("How many numbers are there?", str(len(about)), (OCR, COUNTING), about)
    # Mostly what is there, and what is there more than once more often than not.
    value = getattr(_pick(rng, things), kind)
    about = tuple(i for i, t in enumerate(things) if getattr(t, kind) == value)
    if len(about) == 1 and rng.random() < 0.5:
        return None
    text = (
        f"How many {value}s are there?"
        if kind == "shape"
        else f"How many {value} objects are there?"
    )
    return Question(
        text.replace("crosss", "crosses"), str(len(about)), (RECOGNITION, COUNTING), about
    )


def _count_side(scene: Scene, rng: Rng) -> Question | None:
    reference = _pick(rng, _plain_references(scene))
    if reference is None:
        return None
    side = _pick(rng, list(_SIDES))
    other = scene.things[reference.index]
    rest = [i for i in range(len(scene.things)) if i != reference.index]
    if not all(_is_clear(side, scene.things[i], other) for i in rest):
        return None
    about = tuple(i for i in rest if _SIDES[side](scene.things[i], other))
    text = f"How many objects are {side} {reference.words}?"
    skills = _ordered(reference.skills | {SPATIAL, COUNTING})
    return Question(text, str(len(about)), skills, (reference.index, *about))


def _sum(scene: Scene, rng: Rng) -> Question | None:
    """Numbers added or compared: all there are, or the two that are named."""
    numbered = [i for i, t in enumerate(scene.things) if t.number]
    if len(numbered) < 2:
        return None
    values = [int(scene.things[i].number or 0) for i in numbered]
    if rng.random() < 0.4:
        word = _pick(rng, ("largest", "smallest"))
        answer = max(values) if word == "largest" else min(values)
        text = f"What is the {word} number?"
        return Question(text, str(answer), (OCR, COUNTING), tuple(numbered))
    if len(numbered) == 2 and rng.random() < 0.5:
        text = "What is the sum of the numbers?"
        return Question(text, str(sum(values)), (OCR, COUNTING), tuple(numbered))
    named = [r for r in _plain_references(scene) if r.index in numbered and "number" not in r.gives]
    a = _pick(rng, named)
    b = _pick(rng, [r for r in named if a and r.index != a.index])
    if not a or not b:
        return None
    total = sum(int(scene.things[r.index].number or 0) for r in (a, b))
    text = f"What is the number on {a.words} plus the number on {b.words}?"
    return Question(text, str(total), (RECOGNITION, OCR, COUNTING), (a.index, b.index))


# Each with its share of the questions.
_MAKERS: tuple[tuple[Maker, float], ...] = (
    (_attribute, 0.26), (_attribute_by_side, 0.16), (_exists, 0.06), (_side_of, 0.08),
    (_half, 0.05), (_extreme, 0.1), (_read, 0.05), (_print_exists, 0.04), (_count, 0.1),
    (_count_side, 0.05), (_sum, 0.05),
)  # fmt: skip


def ask(scene: Scene, rng: Rng, count: int) -> list[Question]:
    """Up to ``count`` different questions about the scene; fewer where it allows fewer."""
    if not scene.things:
        return []
    shares = np.array([share for _, share in _MAKERS])
    found: dict[str, Question] = {}
    for _ in range(6 * count):
        maker = _MAKERS[rng.choice(len(_MAKERS), p=shares / shares.sum())][0]
        question = maker(scene, rng)
        if question and question.text not in found:
            found[question.text] = question
            if len(found) == count:
                break
    return list(found.values())


def is_right(prediction: str, answer: str) -> bool:
    """Whether an answer counts as right: the same words, whatever their case or a full stop."""
    return prediction.strip().rstrip(".").lower() == answer.lower()
