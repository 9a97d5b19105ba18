"""Questions about a scene, their exact answers and the skills each needs, tagged as MM-Vet does.

A question is asked only where its answer is beyond doubt: whatever it names is there once, and
nothing that it compares is nearly equal.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from spare_demo.scenes.world import COLOURS, SHAPES, Rng, Scene, Thing, is_held_out, place_of

Skill = Literal["recognition", "ocr", "spatial", "counting", "absence", "off topic"]
"""What a question takes, in the order in which a category names it. The last two are to decline:
what is asked about is not there, or is nothing that a scene could show."""
SKILLS: tuple[Skill, ...] = get_args(Skill)

T = TypeVar("T")
CLEAR = 12.0  # pixels by which positions must differ to be told apart
SIDES = {
    "left of": ("x", -1, "on the left", "leftmost"),
    "right of": ("x", 1, "on the right", "rightmost"),
    "above": ("y", -1, "at the top", "topmost"),
    "below": ("y", 1, "at the bottom", "lowest"),
}
"""Of each side the axis and the way along it, where one of two lies, what is outermost there."""


@dataclass(frozen=True)
class Question:
    """``things`` are the indices in ``scene.things`` of what the question is about."""

    text: str
    answer: str
    skills: tuple[Skill, ...]
    things: tuple[int, ...] = ()
    anchor: int | None = None  # the thing that is named outright and has to be found first


@dataclass(frozen=True)
class Reference:
    """Words that name exactly one thing of the scene, and what it takes to follow them."""

    words: str
    index: int
    thing: Thing
    gives: Set[str]  # properties that the words give away
    skills: Set[Skill]

    def question(self, text: str, answer: str, skills: Set[Skill], *others: int) -> Question:
        """A question about the thing and ``others``, which takes ``skills`` besides."""
        needed = tuple(skill for skill in SKILLS if skill in self.skills | skills)
        anchor = None if "spatial" in self.skills else self.index
        return Question(text, answer, needed, (self.index, *others), anchor)


class NoQuestion(Exception):
    """The scene does not allow the question that was begun."""


def require(value: T | None) -> T:
    """What is given. Raises NoQuestion where that is false, empty or None."""
    if not value:
        raise NoQuestion
    return value


def pick(rng: Rng, options: Iterable[Any]) -> Any:
    """One of the options. Raises NoQuestion where there is none."""
    these = require(list(options))
    return these[int(rng.integers(len(these)))]


def plural(words: str) -> str:
    """The plural of a name such as "red cross"."""
    return f"{words}es" if words.endswith("cross") else f"{words}s"


def indices(scene: Scene, test: Callable[[Thing], object]) -> tuple[int, ...]:
    """Where in ``scene.things`` those lie that pass."""
    return tuple(i for i, thing in enumerate(scene.things) if test(thing))


def beyond(side: str, a: Thing, b: Thing) -> float:
    """By how many pixels ``a`` lies further to a side than ``b``; in doubt if less than `CLEAR`."""
    axis, sign, *_ = SIDES[side]
    return sign * float(getattr(a, axis) - getattr(b, axis))


def on_side(scene: Scene, side: str, other: Thing) -> tuple[int, ...]:
    """Indices of all things on a side of another one. NoQuestion where that of any is in doubt."""
    require(all(abs(beyond(side, t, other)) >= CLEAR for t in scene.things if t is not other))
    return indices(scene, lambda thing: beyond(side, thing, other) > 0)


def plain_references(scene: Scene) -> list[Reference]:
    """Words that name one thing by itself: by shape, by colour, by both, by what is printed."""
    references = []
    for i, thing in enumerate(scene.things):
        shape, colour, kind = thing.shape, thing.colour, "number" if thing.number else "word"
        ways: tuple[tuple[str | None, str, Set[str], Skill], ...] = (
            (shape, f"the {shape}", {"shape"}, "recognition"),
            (colour, f"the {colour} object", {"colour"}, "recognition"),
            (shape and colour, f"the {colour} {shape}", {"colour", "shape"}, "recognition"),
            (thing.print, f"the object with the {kind} {thing.print}", {kind}, "ocr"),
        )
        references += [
            Reference(words, i, thing, gives, {skill}) for it, words, gives, skill in ways if it
        ]
    counts = Counter(reference.words for reference in references)
    return [reference for reference in references if counts[reference.words] == 1]


def _side_references(scene: Scene, rng: Rng) -> list[Reference]:
    """The one of two alike on a side, and the one that lies on a side of another thing."""
    things, references = scene.things, []
    for shape in SHAPES:
        alike = [i for i, thing in enumerate(things) if thing.shape == shape]
        for side, (_, _, place, _) in SIDES.items() if len(alike) == 2 else ():
            gap = beyond(side, things[alike[0]], things[alike[1]])
            i, words = alike[gap < 0], f"the {shape} {place}"
            if abs(gap) >= CLEAR:
                references += [
                    Reference(words, i, things[i], {"shape"}, {"recognition", "spatial"})
                ]
    anchors = [r for r in plain_references(scene) if r.gives != {"colour", "shape"}]
    if not anchors:
        return references
    anchor = pick(rng, anchors)
    for side in SIDES:
        with contextlib.suppress(NoQuestion):
            there = on_side(scene, side, anchor.thing)
            shapes = [things[i].shape for i in there]
            for i, shape in zip(there, shapes, strict=True):
                name, gives, skills = shape, {"shape"}, anchor.skills | {"spatial", "recognition"}
                if len(there) == 1:
                    name, gives, skills = "object", set(), anchor.skills | {"spatial"}
                elif not shape or shapes.count(shape) > 1:
                    continue
                words = f"the {name} {side} {anchor.words}"
                references.append(Reference(words, i, things[i], gives, skills))
    return references


def _ask_about(reference: Reference, rng: Rng) -> Question:
    """Colour, shape, number or word of what the reference names."""
    thing, words = reference.thing, reference.words
    options: list[tuple[str, str, Skill]] = []
    if thing.colour and "colour" not in reference.gives:
        ask = pick(rng, (f"What colour is {words}?", f"What color is {words}?"))
        options.append((ask, thing.colour, "recognition"))
    if thing.shape and "shape" not in reference.gives:
        options.append((f"What shape is {words}?", thing.shape, "recognition"))
    if thing.number and "number" not in reference.gives:
        ask = pick(rng, (f"What number is on {words}?", f"Which number is on {words}?"))
        options += [(ask, thing.number, "ocr")] * 2
    if thing.word and "word" not in reference.gives:
        options += [(f"What word is on {words}?", thing.word, "ocr")] * 2
    text, answer, skill = pick(rng, options)
    return reference.question(text, answer, {skill})


def _attribute(scene: Scene, rng: Rng) -> Question:
    return _ask_about(pick(rng, plain_references(scene)), rng)


def _attribute_by_side(scene: Scene, rng: Rng) -> Question:
    return _ask_about(pick(rng, _side_references(scene, rng)), rng)


def _exists(scene: Scene, rng: Rng) -> Question:
    """Half yes; a no differs from something that is there in one property only."""
    thing, answer = pick(rng, scene.things), "yes"
    colour, shape = thing.colour, thing.shape
    require(colour and shape)
    if rng.random() >= 0.5:
        answer = "no"
        if rng.random() < 0.5:
            colour = str(rng.choice(list(COLOURS)))
        else:
            shape = str(rng.choice(SHAPES))
        require(all((t.colour, t.shape) != (colour, shape) for t in scene.things))
        require(not is_held_out(colour, shape))  # else training would teach that such never are
    about = (scene.things.index(thing),)
    return Question(f"Is there a {colour} {shape}?", answer, ("recognition",), about)


def _side_of(scene: Scene, rng: Rng) -> Question:
    references = plain_references(scene)
    require(len({r.index for r in references}) > 1)
    a = pick(rng, references)
    b = pick(rng, [r for r in references if r.index != a.index])
    first, second = ("left of", "right of") if rng.random() < 0.5 else ("above", "below")
    gap = beyond(first, a.thing, b.thing)
    require(abs(gap) >= CLEAR)
    answer = (first if gap > 0 else second).removesuffix(" of")
    text = f"Is {a.words} {first.removesuffix(' of')} or {second} {b.words}?"
    return a.question(text, answer, b.skills | {"spatial"}, b.index)


def _where(scene: Scene, rng: Rng) -> Question:
    """In which of nine parts, or in which half, the thing that is named lies."""
    reference = pick(rng, plain_references(scene))
    if rng.random() >= 0.5:
        return _which_half(reference, scene, rng)
    place = require(place_of(reference.thing, scene.side, CLEAR))
    return reference.question(f"Where is {reference.words}?", place, {"spatial"})


def _which_half(reference: Reference, scene: Scene, rng: Rng) -> Question:
    place, first, second = reference.thing.y, "top", "bottom"
    if rng.random() < 0.5:
        place, first, second = reference.thing.x, "left", "right"
    require(abs(place - scene.side / 2) >= CLEAR)
    text = f"Is {reference.words} in the {first} or the {second} half?"
    return reference.question(text, first if place < scene.side / 2 else second, {"spatial"})


def _half_of_outsize(scene: Scene, rng: Rng) -> Question:
    """Where the largest or the smallest thing lies: nothing but place and size."""
    by_size = sorted(enumerate(scene.things), key=lambda pair: pair[1].size)
    require(len(by_size) > 1)
    word = "largest" if rng.random() < 0.5 else "smallest"
    (i, thing), (_, next_one) = by_size[:-3:-1] if word == "largest" else by_size[:2]
    ratio = thing.size / next_one.size
    require(max(ratio, 1 / ratio) >= 1.25)
    return _which_half(Reference(f"the {word} object", i, thing, set(), set()), scene, rng)


def _extreme(scene: Scene, rng: Rng) -> Question:
    """Colour, shape or print of the outermost thing, or the outermost number."""
    side = pick(rng, SIDES)
    axis, sign, _, word = SIDES[side]
    numbers_only = rng.random() < 0.4
    these = [(i, t) for i, t in enumerate(scene.things) if t.number or not numbers_only]
    these.sort(key=lambda pair: -sign * getattr(pair[1], axis))
    require(len(these) > 1)
    (i, thing), (_, next_one) = these[:2]
    require(beyond(side, thing, next_one) >= CLEAR)
    if numbers_only:
        return Question(f"What is the {word} number?", str(thing.number), ("ocr", "spatial"), (i,))
    return _ask_about(Reference(f"the {word} object", i, thing, set(), {"spatial"}), rng)


def _read(scene: Scene, rng: Rng) -> Question:
    """The only number or word there is."""
    kind = pick(rng, ("number", "word"))
    about = indices(scene, lambda t: getattr(t, kind))
    require(len(about) == 1)
    text = "What number is shown?" if kind == "number" else "What word is written?"
    return Question(text, getattr(scene.things[about[0]], kind), ("ocr",), about)


def _print_exists(scene: Scene, rng: Rng) -> Question:
    numbers = require([t.number for t in scene.things if t.number])
    if rng.random() < 0.5:
        number, answer = pick(rng, numbers), "yes"
    else:
        number, answer = str(rng.integers(10)), "no"
        require(number not in numbers)
    about = indices(scene, lambda t: t.number == number)
    return Question(f"Is there a number {number}?", answer, ("ocr",), about)


def count_alike(scene: Scene, rng: Rng) -> Question:
    """How many things there are, numbers, or things of one shape or colour."""
    kind = pick(rng, ("all", "shape", "shape", "colour", "colour", "numbers"))
    if kind == "all":
        about = tuple(range(len(scene.things)))
        return Question("How many objects are there?", str(len(about)), ("counting",), about)
    if kind == "numbers":
        about = indices(scene, lambda t: t.number)
        return Question("How many numbers are there?", str(len(about)), ("ocr", "counting"), about)
    # Mostly what is there, and what is there more than once more often than not.
    value = getattr(pick(rng, scene.things), kind)
    about = indices(scene, lambda t: getattr(t, kind) == value)
    require(value and (len(about) > 1 or rng.random() >= 0.5))
    names = plural(value if kind == "shape" else f"{value} object")
    return Question(
        f"How many {names} are there?", str(len(about)), ("recognition", "counting"), about
    )


def count_on_side(scene: Scene, rng: Rng) -> Question:
    """How many things lie on a side of the one that is named."""
    reference = pick(rng, plain_references(scene))
    side = pick(rng, SIDES)
    there = on_side(scene, side, reference.thing)
    text = f"How many objects are {side} {reference.words}?"
    return reference.question(text, str(len(there)), {"spatial", "counting"}, *there)


def add_up(scene: Scene, rng: Rng) -> Question:
    """Numbers added or compared: all there are, or the two that are named."""
    numbers = {i: int(t.number) for i, t in enumerate(scene.things) if t.number}
    require(len(numbers) > 1)
    if rng.random() < 0.4:
        word, one_of = pick(rng, (("largest", max), ("smallest", min)))
        text, total = f"What is the {word} number?", one_of(numbers.values())
        return Question(text, str(total), ("ocr", "counting"), tuple(numbers))
    if len(numbers) == 2 and rng.random() < 0.5:
        text, total = "What is the sum of the numbers?", sum(numbers.values())
        return Question(text, str(total), ("ocr", "counting"), tuple(numbers))
    named = [r for r in plain_references(scene) if r.index in numbers and "number" not in r.gives]
    a = pick(rng, named)
    b = pick(rng, [r for r in named if r.index != a.index])
    total = numbers[a.index] + numbers[b.index]
    text = f"What is the number on {a.words} plus the number on {b.words}?"
    return a.question(text, str(total), {"recognition", "ocr", "counting"}, b.index)


Maker = Callable[[Scene, Rng], Question]
Makers = Mapping[Maker, float]
MAKERS: Makers = {
    _attribute: 0.26, _attribute_by_side: 0.16, _exists: 0.06, _side_of: 0.08, _where: 0.08,
    _half_of_outsize: 0.05, _extreme: 0.1, _read: 0.05, _print_exists: 0.04,
    count_alike: 0.1, count_on_side: 0.05, add_up: 0.05,
}  # fmt: skip
"""The kinds of questions that are measured, each with its share of them; one that a scene does not
allow raises NoQuestion."""


def ask(
    scene: Scene, rng: Rng, count: int, makers: Makers = MAKERS, no_choices: bool = False
) -> list[Question]:
    """Up to ``count`` different questions about the scene; fewer where it allows fewer.

    ``makers`` come with their shares. With ``no_choices``, none is "left or right?" and the like,
    which is half right by guessing.
    """
    if not scene.things:
        return []
    kinds, shares = list(makers), np.array(list(makers.values()))
    shares = shares / shares.sum()
    questions: dict[str, Question] = {}
    for _ in range((12 if no_choices else 6) * count):
        maker = kinds[rng.choice(len(kinds), p=shares)]
        with contextlib.suppress(NoQuestion):
            question = maker(scene, rng)
            if not (no_choices and " or " in question.text):
                questions.setdefault(question.text, question)
        if len(questions) == count:
            break
    return list(questions.values())
