"""Questions about a scene, their exact answers and the skills each needs, tagged as MM-Vet does.

A question is asked only where its answer is beyond doubt: whatever it names is there once, and
nothing that it compares is nearly equal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from spare_demo.scenes.question import (
    CLEAR,
    COUNTING,
    OCR,
    RECOGNITION,
    SIDES,
    SPATIAL,
    NoQuestion,
    Question,
    Reference,
    indices,
    is_clear,
    on_side,
    pick,
    plain_references,
    require,
    side_references,
)
from spare_demo.scenes.wordings import plural
from spare_demo.scenes.world import COLOURS, HELD_OUT_COLOUR_SHAPE, SHAPES, Rng, Scene, place_of


def _ask_about(reference: Reference, scene: Scene, rng: Rng) -> Question:
    """Colour, shape, number or word of what the reference names."""
    thing, words = scene.things[reference.index], reference.words
    options: list[tuple[str, str, str]] = []
    if thing.colour and "colour" not in reference.gives:
        ask = pick(rng, (f"What colour is {words}?", f"What color is {words}?"))
        options.append((ask, thing.colour, RECOGNITION))
    if thing.shape and "shape" not in reference.gives:
        options.append((f"What shape is {words}?", thing.shape, RECOGNITION))
    if thing.number and "number" not in reference.gives:
        ask = pick(rng, (f"What number is on {words}?", f"Which number is on {words}?"))
        options += [(ask, thing.number, OCR)] * 2
    if thing.word and "word" not in reference.gives:
        options += [(f"What word is on {words}?", thing.word, OCR)] * 2
    text, answer, skill = pick(rng, options)
    return reference.question(text, answer, {skill})


def _attribute(scene: Scene, rng: Rng) -> Question:
    return _ask_about(pick(rng, plain_references(scene)), scene, rng)


def _attribute_by_side(scene: Scene, rng: Rng) -> Question:
    return _ask_about(pick(rng, side_references(scene, rng)), scene, rng)


def _exists(scene: Scene, rng: Rng) -> Question:
    """Half yes; a no differs from something that is there in one property only."""
    thing = pick(rng, scene.things)
    about = (scene.things.index(thing),)
    colour, shape = thing.colour, thing.shape
    require(colour and shape)
    if rng.random() < 0.5:
        return Question(f"Is there a {colour} {shape}?", "yes", (RECOGNITION,), about)
    if rng.random() < 0.5:
        colour = str(rng.choice(list(COLOURS)))
    else:
        shape = str(rng.choice(SHAPES))
    require(all((t.colour, t.shape) != (colour, shape) for t in scene.things))
    # Else training would teach that such things never are.
    require((colour, shape) not in HELD_OUT_COLOUR_SHAPE)
    return Question(f"Is there a {colour} {shape}?", "no", (RECOGNITION,), about)


def _side_of(scene: Scene, rng: Rng) -> Question:
    references = plain_references(scene)
    require(len({r.index for r in references}) > 1)
    a = pick(rng, references)
    b = pick(rng, [r for r in references if r.index != a.index])
    one, two = scene.things[a.index], scene.things[b.index]
    first, second = ("left of", "right of") if rng.random() < 0.5 else ("above", "below")
    require(is_clear(first, one, two))
    answer = (first if SIDES[first](one, two) else second).removesuffix(" of")
    text = f"Is {a.words} {first.removesuffix(' of')} or {second} {b.words}?"
    return a.question(text, answer, b.skills | {SPATIAL}, (b.index,))


def _where(scene: Scene, rng: Rng) -> Question:
    """In which of nine parts, or in which half, the thing that is named lies."""
    reference = pick(rng, plain_references(scene))
    if rng.random() < 0.5:
        place = place_of(scene.things[reference.index], scene.side, CLEAR)
        if place is None:
            raise NoQuestion
        return reference.question(f"Where is {reference.words}?", place, {SPATIAL})
    return _which_half(reference, scene, rng)


def _which_half(reference: Reference, scene: Scene, rng: Rng) -> Question:
    thing = scene.things[reference.index]
    place, first, second = thing.y, "top", "bottom"
    if rng.random() < 0.5:
        place, first, second = thing.x, "left", "right"
    require(abs(place - scene.side / 2) >= CLEAR)
    text = f"Is {reference.words} in the {first} or the {second} half?"
    return reference.question(text, first if place < scene.side / 2 else second, {SPATIAL})


def _half_of_outsize(scene: Scene, rng: Rng) -> Question:
    """Where the largest or the smallest thing lies: nothing but place and size."""
    by_size = sorted(range(len(scene.things)), key=lambda i: scene.things[i].size)
    require(len(by_size) > 1)
    largest = rng.random() < 0.5
    i, j = by_size[:-3:-1] if largest else by_size[:2]
    ratio = scene.things[i].size / scene.things[j].size
    require(max(ratio, 1 / ratio) >= 1.25)
    words = f"the {'largest' if largest else 'smallest'} object"
    return _which_half(Reference(words, i, set(), set()), scene, rng)


_EXTREMES = {"leftmost": ("x", 1), "rightmost": ("x", -1), "topmost": ("y", 1), "lowest": ("y", -1)}


def _extreme(scene: Scene, rng: Rng) -> Question:
    """Colour, shape or print of the outermost thing, or the outermost number."""
    word = pick(rng, list(_EXTREMES))
    axis, sign = _EXTREMES[word]
    numbers_only = rng.random() < 0.4
    these = [i for i, t in enumerate(scene.things) if t.number or not numbers_only]
    these.sort(key=lambda i: sign * getattr(scene.things[i], axis))
    require(len(these) > 1)
    a, b = (getattr(scene.things[i], axis) for i in these[:2])
    require(abs(a - b) >= CLEAR)
    if numbers_only:
        number = str(scene.things[these[0]].number)
        return Question(f"What is the {word} number?", number, (OCR, SPATIAL), (these[0],))
    reference = Reference(f"the {word} object", these[0], set(), {SPATIAL})
    return _ask_about(reference, scene, rng)


def _read(scene: Scene, rng: Rng) -> Question:
    """The only number or word there is."""
    kind = pick(rng, ("number", "word"))
    about = indices(scene, lambda t: getattr(t, kind))
    require(len(about) == 1)
    text = "What number is shown?" if kind == "number" else "What word is written?"
    return Question(text, getattr(scene.things[about[0]], kind), (OCR,), about)


def _print_exists(scene: Scene, rng: Rng) -> Question:
    numbers = [t.number for t in scene.things if t.number]
    require(numbers)
    if rng.random() < 0.5:
        number, answer = pick(rng, numbers), "yes"
    else:
        number, answer = str(rng.integers(10)), "no"
        require(number not in numbers)
    about = indices(scene, lambda t: t.number == number)
    return Question(f"Is there a number {number}?", answer, (OCR,), about)


def count_alike(scene: Scene, rng: Rng) -> Question:
    """How many things there are, numbers, or things of one shape or colour."""
    kind = pick(rng, ("all", "shape", "shape", "colour", "colour", "numbers"))
    if kind == "all":
        about = tuple(range(len(scene.things)))
        return Question("How many objects are there?", str(len(about)), (COUNTING,), about)
    if kind == "numbers":
        about = indices(scene, lambda t: t.number)
        return Question("How many numbers are there?", str(len(about)), (OCR, COUNTING), about)
    # Mostly what is there, and what is there more than once more often than not.
    value = getattr(pick(rng, scene.things), kind)
    about = indices(scene, lambda t: getattr(t, kind) == value)
    require(value and (len(about) > 1 or rng.random() >= 0.5))
    names = plural(value if kind == "shape" else f"{value} object")
    return Question(f"How many {names} are there?", str(len(about)), (RECOGNITION, COUNTING), about)


def count_on_side(scene: Scene, rng: Rng) -> Question:
    """How many things lie on a side of the one that is named."""
    reference = pick(rng, plain_references(scene))
    side = pick(rng, list(SIDES))
    there = on_side(scene, side, scene.things[reference.index])
    if there is None:
        raise NoQuestion
    text = f"How many objects are {side} {reference.words}?"
    return reference.question(text, str(len(there)), {SPATIAL, COUNTING}, there)


def add_up(scene: Scene, rng: Rng) -> Question:
    """Numbers added or compared: all there are, or the two that are named."""
    numbers = {i: int(t.number) for i, t in enumerate(scene.things) if t.number}
    require(len(numbers) > 1)
    if rng.random() < 0.4:
        word, answer = pick(rng, (("largest", max), ("smallest", min)))
        text, total = f"What is the {word} number?", answer(numbers.values())
        return Question(text, str(total), (OCR, COUNTING), tuple(numbers))
    if len(numbers) == 2 and rng.random() < 0.5:
        text, total = "What is the sum of the numbers?", sum(numbers.values())
        return Question(text, str(total), (OCR, COUNTING), tuple(numbers))
    named = [r for r in plain_references(scene) if r.index in numbers and "number" not in r.gives]
    a = pick(rng, named)
    b = pick(rng, [r for r in named if r.index != a.index])
    total = numbers[a.index] + numbers[b.index]
    text = f"What is the number on {a.words} plus the number on {b.words}?"
    return a.question(text, str(total), {RECOGNITION, OCR, COUNTING}, (b.index,))


Maker = Callable[[Scene, Rng], Question]
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
"""The kinds of questions that are measured, each with its share of them; one that a scene does not
allow raises NoQuestion."""


def ask(
    scene: Scene,
    rng: Rng,
    count: int,
    makers: Sequence[tuple[Maker, float]] = MAKERS,
    no_choices: bool = False,
) -> list[Question]:
    """Up to ``count`` different questions about the scene; fewer where it allows fewer.

    ``makers`` come with their shares. With ``no_choices``, none is "left or right?" and the like,
    which is half right by guessing.
    """
    if not scene.things:
        return []
    shares = np.array([share for _, share in makers])
    shares = shares / shares.sum()
    questions: dict[str, Question] = {}
    for _ in range((12 if no_choices else 6) * count):
        maker, _ = makers[rng.choice(len(makers), p=shares)]
        with contextlib.suppress(NoQuestion):
            question = maker(scene, rng)
            if not (no_choices and " or " in question.text):
                questions.setdefault(question.text, question)
        if len(questions) == count:
            break
    return list(questions.values())
