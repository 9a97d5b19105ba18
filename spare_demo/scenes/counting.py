"""Questions whose answer is counted or added up."""

from __future__ import annotations

from spare_demo.scenes.question import Question, ordered
from spare_demo.scenes.references import (
    COUNTING,
    OCR,
    RECOGNITION,
    SIDES,
    SPATIAL,
    Rng,
    is_clear,
    pick,
    plain_references,
)
from spare_demo.scenes.world import Scene


def count_alike(scene: Scene, rng: Rng) -> Question | None:
    things = scene.things
    kind = pick(rng, ("all", "shape", "shape", "colour", "colour", "numbers"))
    if kind == "all":
        every = tuple(range(len(things)))
        return Question("How many objects are there?", str(len(things)), (COUNTING,), every)
    if kind == "numbers":
        about = tuple(i for i, t in enumerate(things) if t.number)
        return Question("How many numbers are there?", str(len(about)), (OCR, COUNTING), about)
    # Mostly what is there, and what is there more than once more often than not.
    value = getattr(pick(rng, things), kind)
    if not value:
        return None
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


def count_on_side(scene: Scene, rng: Rng) -> Question | None:
    reference = pick(rng, plain_references(scene))
    if reference is None:
        return None
    side = pick(rng, list(SIDES))
    other = scene.things[reference.index]
    rest = [i for i in range(len(scene.things)) if i != reference.index]
    if not all(is_clear(side, scene.things[i], other) for i in rest):
        return None
    about = tuple(i for i in rest if SIDES[side](scene.things[i], other))
    text = f"How many objects are {side} {reference.words}?"
    skills = ordered(reference.skills | {SPATIAL, COUNTING})
    about = (reference.index, *about)
    return Question(text, str(len(about) - 1), skills, about, reference.index)


def add_up(scene: Scene, rng: Rng) -> Question | None:
    """Numbers added or compared: all there are, or the two that are named."""
    numbered = [i for i, t in enumerate(scene.things) if t.number]
    if len(numbered) < 2:
        return None
    values = [int(scene.things[i].number or 0) for i in numbered]
    if rng.random() < 0.4:
        word = pick(rng, ("largest", "smallest"))
        answer = max(values) if word == "largest" else min(values)
        text = f"What is the {word} number?"
        return Question(text, str(answer), (OCR, COUNTING), tuple(numbered))
    if len(numbered) == 2 and rng.random() < 0.5:
        text = "What is the sum of the numbers?"
        return Question(text, str(sum(values)), (OCR, COUNTING), tuple(numbered))
    named = [r for r in plain_references(scene) if r.index in numbered and "number" not in r.gives]
    a = pick(rng, named)
    b = pick(rng, [r for r in named if a and r.index != a.index])
    if not a or not b:
        return None
    total = sum(int(scene.things[r.index].number or 0) for r in (a, b))
    text = f"What is the number on {a.words} plus the number on {b.words}?"
    skills = (RECOGNITION, OCR, COUNTING)
    return Question(text, str(total), skills, (a.index, b.index), a.index)
