"""Questions about a scene, their exact answers and the skills each needs, tagged as MM-Vet does.

A question is asked only where its answer is beyond doubt: whatever it names is there once, and
nothing that it compares is nearly equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spare_demo.scenes.counting import add_up, count_alike, count_on_side
from spare_demo.scenes.question import Question, ordered
from spare_demo.scenes.references import (
    CLEAR,
    OCR,
    RECOGNITION,
    SIDES,
    SPATIAL,
    Reference,
    Rng,
    is_clear,
    only,
    pick,
    plain_references,
    side_references,
)
from spare_demo.scenes.world import (
    COLOURS,
    HELD_OUT_COLOUR_SHAPE,
    SHAPES,
    Scene,
    place_of,
)


def _ask_about(reference: Reference, scene: Scene, rng: Rng) -> Question | None:
    """Colour, shape, number or word of what the reference names."""
    thing, words = scene.things[reference.index], reference.words
    options: list[tuple[str, str, str]] = []
    if thing.colour and "colour" not in reference.gives:
        ask = pick(rng, (f"What colour is {words}?", f"What color is {words}?"))
        options.append((ask, "colour", RECOGNITION))
    if thing.shape and "shape" not in reference.gives:
        options.append((f"What shape is {words}?", "shape", RECOGNITION))
    if thing.number and "number" not in reference.gives:
        ask = pick(rng, (f"What number is on {words}?", f"Which number is on {words}?"))
        options += [(ask, "number", OCR)] * 2
    if thing.word and "word" not in reference.gives:
        options += [(f"What word is on {words}?", "word", OCR)] * 2
    chosen = pick(rng, options)
    if chosen is None:
        return None
    text, asked, skill = chosen
    skills = ordered(reference.skills | {skill})
    anchor = None if SPATIAL in reference.skills else reference.index
    about, answer = (reference.index,), getattr(thing, asked)
    return Question(text, answer, skills, about, anchor)


def _attribute(scene: Scene, rng: Rng) -> Question | None:
    reference = pick(rng, plain_references(scene))
    return _ask_about(reference, scene, rng) if reference else None


def _attribute_by_side(scene: Scene, rng: Rng) -> Question | None:
    reference = pick(rng, side_references(scene, rng))
    return _ask_about(reference, scene, rng) if reference else None


def _exists(scene: Scene, rng: Rng) -> Question | None:
    """Half yes; a no differs from something that is there in one property only."""
    thing = pick(rng, scene.things)
    index = scene.things.index(thing)
    colour, shape = thing.colour, thing.shape
    if not (colour and shape):
        return None
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
    references = plain_references(scene)
    if len({r.index for r in references}) < 2:
        return None
    a = pick(rng, references)
    b = pick(rng, [r for r in references if r.index != a.index])
    one, two = scene.things[a.index], scene.things[b.index]
    first, second = ("left of", "right of") if rng.random() < 0.5 else ("above", "below")
    if not is_clear(first, one, two):
        return None
    answer = (first if SIDES[first](one, two) else second).replace(" of", "")
    text = f"Is {a.words} {first.replace(' of', '')} or {second} {b.words}?"
    skills = ordered(a.skills | b.skills | {SPATIAL})
    return Question(text, answer, skills, (a.index, b.index), a.index)


def _where(scene: Scene, rng: Rng) -> Question | None:
    """In which of nine parts, or in which half, the thing that is named lies."""
    reference = pick(rng, plain_references(scene))
    if reference is None:
        return None
    thing, skills = scene.things[reference.index], ordered(reference.skills | {SPATIAL})
    if rng.random() < 0.5:
        place = place_of(thing, scene.side, CLEAR)
        if place is None:
            return None
        about = (reference.index,)
        return Question(f"Where is {reference.words}?", place, skills, about, reference.index)
    return _which_half(reference.index, reference.words, skills, scene, rng)


def _which_half(
    index: int, words: str, skills: tuple[str, ...], scene: Scene, rng: Rng
) -> Question | None:
    across = rng.random() < 0.5
    place = scene.things[index].x if across else scene.things[index].y
    if abs(place - scene.side / 2) < CLEAR:
        return None
    first, second = ("left", "right") if across else ("top", "bottom")
    text = f"Is {words} in the {first} or the {second} half?"
    answer = first if place < scene.side / 2 else second
    return Question(text, answer, skills, (index,), index)


def _half_of_outsize(scene: Scene, rng: Rng) -> Question | None:
    """Where the largest or the smallest thing lies: nothing but place and size."""
    by_size = sorted(range(len(scene.things)), key=lambda i: scene.things[i].size)
    if len(by_size) < 2:
        return None
    largest = rng.random() < 0.5
    i, j = by_size[:-3:-1] if largest else by_size[:2]
    ratio = scene.things[i].size / scene.things[j].size
    if max(ratio, 1 / ratio) < 1.25:
        return None
    which = "largest" if largest else "smallest"
    return _which_half(i, f"the {which} object", (SPATIAL,), scene, rng)


_EXTREMES = {"leftmost": ("x", 1), "rightmost": ("x", -1), "topmost": ("y", 1), "lowest": ("y", -1)}


def _extreme(scene: Scene, rng: Rng) -> Question | None:
    """Colour, shape or print of the outermost thing, or the outermost number."""
    word = pick(rng, list(_EXTREMES))
    axis, sign = _EXTREMES[word]
    numbers_only = rng.random() < 0.4
    these = [i for i, t in enumerate(scene.things) if t.number or not numbers_only]
    these.sort(key=lambda i: sign * getattr(scene.things[i], axis))
    if len(these) < 2:
        return None
    a, b = (getattr(scene.things[i], axis) for i in these[:2])
    if abs(a - b) < CLEAR:
        return None
    if numbers_only:
        number = scene.things[these[0]].number
        assert number is not None
        text = f"What is the {word} number?"
        return Question(text, number, (OCR, SPATIAL), tuple(these[:1]))
    reference = Reference(f"the {word} object", these[0], frozenset(), frozenset({SPATIAL}))
    return _ask_about(reference, scene, rng)


def _read(scene: Scene, rng: Rng) -> Question | None:
    """The only number or word there is."""
    kind = pick(rng, ("number", "word"))
    index = only(scene.things, lambda t: bool(getattr(t, kind)))
    if index is None:
        return None
    text = "What number is shown?" if kind == "number" else "What word is written?"
    return Question(text, getattr(scene.things[index], kind), (OCR,), (index,))


def _print_exists(scene: Scene, rng: Rng) -> Question | None:
    numbers = [t.number for t in scene.things if t.number]
    if not numbers:
        return None
    if rng.random() < 0.5:
        number, answer = pick(rng, numbers), "yes"
    else:
        number, answer = str(rng.integers(10)), "no"
        if number in numbers:
            return None
    about = tuple(i for i, t in enumerate(scene.things) if t.number == number)
    return Question(f"Is there a number {number}?", answer, (OCR,), about)


Maker = Callable[[Scene, Rng], "Question | None"]
MAKERS: tuple[tuple[Maker, float], ...] = (
    (_attribute, 0.26),
    (_attribute_by_side, 0.16),
    (_exists, 0.06),
    (_side_of, 0.08),
    (_where, 0.08),
    (_half_of_outsize, 0.05),
    (_extreme, 0.1),
    (_read, 0.05),
    (_print_exists, 0.04),
    (count_alike, 0.1),
    (count_on_side, 0.05),
    (add_up, 0.05),
)
"""The kinds of questions that are measured, each with its share of them."""


def ask(
    scene: Scene,
    rng: Rng,
    count: int,
    unasked: Callable[[str], bool] | None = None,
    makers: Sequence[tuple[Maker, float]] = MAKERS,
) -> list[Question]:
    """Up to ``count`` different questions about the scene; fewer where it allows fewer.

    None whose text is ``unasked`` is among them. ``makers`` come with their shares.
    """
    if not scene.things:
        return []
    shares = np.array([share for _, share in makers])
    questions: dict[str, Question] = {}
    for _ in range((12 if unasked else 6) * count):
        maker = makers[rng.choice(len(makers), p=shares / shares.sum())][0]
        question = maker(scene, rng)
        if unasked and question and unasked(question.text):
            continue
        if question and question.text not in questions:
            questions[question.text] = question
            if len(questions) == count:
                break
    return list(questions.values())


def is_right(prediction: str, answer: str) -> bool:
    """Whether an answer counts as right: the same words, whatever their case or a full stop."""
    return prediction.strip().rstrip(".").lower() == answer.lower()
