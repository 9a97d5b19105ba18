"""Questions for training and for the set of held-out wordings: all kinds, in people's wordings.

To the kinds that are measured they add what people ask besides: is it red, is it left of that, how
many red stars, describe it. And what should be declined: what is not there, and what no scene
could show. Nothing is said not to be there that training keeps back: else it would teach that such
things never are.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

from spare_demo.scenes import questions
from spare_demo.scenes.off_topic import MADE_FOR, held_out_form, off_topic
from spare_demo.scenes.question import (
    ABSENCE,
    CLEAR,
    COUNTING,
    OCR,
    RECOGNITION,
    SIDES,
    SPATIAL,
    NoQuestion,
    Question,
    indices,
    is_clear,
    on_side,
    pick,
    plain_references,
    require,
)
from spare_demo.scenes.questions import Maker
from spare_demo.scenes.wordings import plural, reword, style
from spare_demo.scenes.world import COLOURS, HELD_OUT_COLOUR_SHAPE, SHAPES, WORDS, Rng, Scene, Thing

CANNOT_TELL = "I cannot tell"
_LISTED = 4  # things in a description
_TRIES = 12  # to name something that is there, or something that is not
_CELLS = 24  # rows and columns of the finest places that are asked for


def _is_colour(scene: Scene, rng: Rng) -> Question:
    """Whether a thing has a colour; half yes, and a no is mostly the colour of another thing."""
    reference = pick(rng, [r for r in plain_references(scene) if "colour" not in r.gives])
    thing = scene.things[reference.index]
    require(thing.colour)
    colour, answer = thing.colour, "yes"
    if rng.random() < 0.5:
        never = {thing.colour, *(c for c, shape in HELD_OUT_COLOUR_SHAPE if shape == thing.shape)}
        there = [t.colour for t in scene.things if t.colour and t.colour not in never]
        others = [colour for colour in COLOURS if colour not in never]
        colour, answer = pick(rng, there if there and rng.random() < 0.7 else others), "no"
    return reference.question(f"Is {reference.words} {colour}?", answer, {RECOGNITION})


def _is_on_side(scene: Scene, rng: Rng) -> Question:
    """Whether one thing lies on a side of another."""
    references = plain_references(scene)
    both = [pick(rng, references), pick(rng, references)] if references else []
    side = pick(rng, list(SIDES))  # drawn in any case: what the training sees depends on each draw
    require(both and both[0].index != both[1].index)
    a, b = both
    one, two = scene.things[a.index], scene.things[b.index]
    require(is_clear(side, one, two))
    answer = "yes" if SIDES[side](one, two) else "no"
    text = f"Is {a.words} {side} {b.words}?"
    return a.question(text, answer, b.skills | {SPATIAL}, (b.index,))


def _kind(scene: Scene, rng: Rng) -> tuple[str, tuple[int, ...], str] | None:
    """A name of things, there or not, the indices of those it fits, and the skill to see them."""
    thing = pick(rng, scene.things)
    colour = thing.colour if rng.random() < 0.5 else pick(rng, list(COLOURS))
    shape = thing.shape if rng.random() < 0.5 else pick(rng, SHAPES)
    roll = rng.random()
    if roll < 0.1:
        kind = pick(rng, ("number", "word"))
        return kind, indices(scene, lambda t: getattr(t, kind)), OCR
    if roll < 0.4 and shape:
        return shape, indices(scene, lambda t: t.shape == shape), RECOGNITION
    if roll < 0.6 and colour:
        return f"{colour} object", indices(scene, lambda t: t.colour == colour), RECOGNITION
    if not (colour and shape) or (colour, shape) in HELD_OUT_COLOUR_SHAPE:
        return None
    about = indices(scene, lambda t: (t.colour, t.shape) == (colour, shape))
    return f"{colour} {shape}", about, RECOGNITION


def _exists(scene: Scene, rng: Rng) -> Question:
    """Whether something is there, by shape, colour, both or print."""
    wanted = rng.random() < 0.5
    for _ in range(_TRIES):
        if kind := _kind(scene, rng):
            name, about, skill = kind
            if bool(about) == wanted:
                return Question(f"Is there a {name}?", "yes" if about else "no", (skill,), about)
    raise NoQuestion


def _how_many(scene: Scene, rng: Rng) -> Question:
    """How many of a kind, of none as well."""
    if (kind := _kind(scene, rng)) is None:
        raise NoQuestion
    name, about, skill = kind
    require(len(about) > 1 or rng.random() >= 0.5)
    text = f"How many {plural(name)} are there?"
    return Question(text, str(len(about)), (skill, COUNTING), about)


def _describe(scene: Scene, rng: Rng) -> Question:
    """A short list from left to right."""
    order = sorted(range(len(scene.things)), key=lambda i: scene.things[i].x)
    places = [scene.things[i].x for i in order[: _LISTED + 1]]
    require(all(b - a >= CLEAR for a, b in itertools.pairwise(places)))
    listed = [scene.things[i] for i in order[:_LISTED]]
    names = [f"{thing.colour} {thing.shape or 'object'}".strip() for thing in listed]
    answer = ", ".join(names) + (" and more" if len(order) > _LISTED else "")
    skills = (RECOGNITION, SPATIAL)
    return Question("Describe the picture.", answer, skills, tuple(order[:_LISTED]))


def _absent(scene: Scene, rng: Rng) -> Question:
    """About something that is not there, or a print that a thing does not bear."""
    things = scene.things
    roll = rng.random()
    if roll < 0.35:  # a thing without a print: one with the other would say that
        kind = pick(rng, ("number", "word"))
        bare = [r for r in plain_references(scene) if not things[r.index].print]
        reference = pick(rng, bare)
        text = f"What {kind} is on {reference.words}?"
        return Question(text, CANNOT_TELL, (ABSENCE,), (reference.index,), reference.index)
    colour, shape = pick(rng, list(COLOURS)), pick(rng, SHAPES)
    asks = ["What number is on {}?", "What word is on {}?", "Where is {}?"]
    if roll < 0.6:
        words, there = f"the {shape}", any(t.shape == shape for t in things)
        asks += ["What colour is {}?"] * 3
    elif roll < 0.75:
        words, there = f"the {colour} object", any(t.colour == colour for t in things)
        asks += ["What shape is {}?"] * 3
    elif roll < 0.9:
        there = any((t.colour, t.shape) == (colour, shape) for t in things)
        words = f"the {colour} {shape}"
        there |= (colour, shape) in HELD_OUT_COLOUR_SHAPE
    else:
        kind, value = pick(rng, (("number", str(rng.integers(10))), ("word", pick(rng, WORDS))))
        words, there = f"the object with the {kind} {value}", any(t.print == value for t in things)
        asks = ["What colour is {}?", "What shape is {}?", "Where is {}?"]
    require(not there)
    return Question(pick(rng, asks).format(words), CANNOT_TELL, (ABSENCE,))


def _grid_place(scene: Scene, rng: Rng) -> Question:
    """Row or column of the thing that is named, of twenty-four: practice in reading places."""
    reference = pick(rng, plain_references(scene))
    thing = scene.things[reference.index]
    way, at = ("column", thing.x) if rng.random() < 0.6 else ("row", thing.y)
    text, answer = f"Which {way} is {reference.words} in?", str(int(_CELLS * at / scene.side))
    return reference.question(text, answer, {SPATIAL})


def _count_beyond(scene: Scene, rng: Rng) -> Question:
    """How many lie on a side of a row or column, of twenty-four: practice in counting a part."""
    side, at = pick(rng, list(SIDES)), int(rng.integers(4, 20))
    line = "column" if side in ("left of", "right of") else "row"
    middle = (at + 0.5) * scene.side / _CELLS
    about = on_side(scene, side, Thing("", "", middle, middle, 0.0))
    if about is None:
        raise NoQuestion
    text = f"How many objects are {side} {line} {at}?"
    return Question(text, str(len(about)), (SPATIAL, COUNTING), about)


ADDED: tuple[tuple[Maker, float], ...] = (
    (_is_colour, 0.05),
    (_is_on_side, 0.05),
    (_exists, 0.05),
    (_how_many, 0.07),
    (_describe, 0.02),
    (_absent, 0.07),
    (off_topic, 0.03),
)
"""What people ask besides the kinds that are measured, each with its share."""
# Training practises most what is learnt last, and two kinds that are never asked but that much else
# builds on.
HARD: tuple[tuple[Maker, float], ...] = (
    (_grid_place, 0.05),
    (_count_beyond, 0.08),
    (questions.count_alike, 0.05),
    (questions.count_on_side, 0.1),
    (questions.add_up, 0.03),
)


def _reworded(scene: Scene, rng: Rng, maker: Maker, held_out: bool) -> Question:
    question = maker(scene, rng)
    if question.answer == MADE_FOR:
        text = held_out_form(rng) if held_out else question.text
        return replace(question, text=style(text, rng, held_out))
    return replace(question, text=reword(question.text, rng, held_out))


def _all(
    measured: float, added: tuple[tuple[Maker, float], ...], held_out: bool
) -> list[tuple[Maker, float]]:
    """The kinds that are measured, with so much of their shares, and others; all reworded."""
    makers = [(maker, measured * share) for maker, share in questions.MAKERS] + list(added)
    reworded = functools.partial(_reworded, held_out=held_out)
    return [(functools.partial(reworded, maker=maker), share) for maker, share in makers]


_TRAINING = _all(0.4, ADDED + HARD, held_out=False)
_PEOPLE = _all(0.7, ADDED, held_out=True)


def practise(scene: Scene, rng: Rng, count: int) -> list[Question]:
    """Up to ``count`` questions for training, each in one of the wordings of training."""
    return questions.ask(scene, rng, count, makers=_TRAINING)


def ask_in_held_out_wordings(scene: Scene, rng: Rng, count: int) -> list[Question]:
    """Up to ``count`` questions of every kind, each in a wording that training never uses.

    None offers a choice.
    """
    return questions.ask(scene, rng, count, _PEOPLE, no_choices=True)
