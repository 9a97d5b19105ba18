"""What training is told: captions, and questions of all kinds in people's wordings.

To the kinds that are measured the questions add what people ask besides: is it red, is it left of
that, how many red stars, describe it. And what should be declined: what is not there, and what no
scene could show. Nothing is said not to be there that training keeps back: else it would teach that
such things never are.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

from spare_demo.scenes import questions
from spare_demo.scenes.questions import (
    CLEAR,
    SIDES,
    Maker,
    Makers,
    Question,
    Skill,
    beyond,
    indices,
    on_side,
    pick,
    plain_references,
    plural,
    require,
)
from spare_demo.scenes.wordings import TEXTS, reword, style
from spare_demo.scenes.world import COLOURS, SHAPES, WORDS, Rng, Scene, Thing, is_held_out, place_of

CANNOT_TELL = "I cannot tell"
MADE_FOR = (
    "This small model answers questions about shapes, colours, numbers and words in drawn scenes"
)
_MOST_NAMED = 6  # things in one caption: what fits CLIP's 77 tokens
_LISTED = 4  # things in a description
_TRIES = 12  # to name something that is there, or something that is not
_CELLS = 24  # rows and columns of the finest places that are asked for


def caption(scene: Scene, rng: Rng) -> str:
    """One sentence that names up to six of the scene's things, in any order."""
    order = rng.permutation(len(scene.things))[:_MOST_NAMED]
    parts = [_caption_of(scene.things[i], scene.side, rng) for i in order]
    if rng.random() < 0.3:
        parts.append(f"on {scene.background}")
    return ", ".join(parts) if parts else f"nothing on {scene.background}"


def _caption_of(thing: Thing, side: int, rng: Rng) -> str:
    words = _name(thing)
    if rng.random() < 0.3:
        words = f"{'small' if thing.size < 40 else 'large'} {words}"
    if thing.print:
        words += f" with the {'number' if thing.number else 'word'} {thing.print}"
    if rng.random() < 0.25:
        place = place_of(thing, side)
        words += f" {'in' if place == 'centre' else 'at'} the {place}"
    return f"{'an' if words.startswith('object') else 'a'} {words}"


def _name(thing: Thing) -> str:
    return f"{thing.colour} {thing.shape or 'object'}".strip()


def _is_colour(scene: Scene, rng: Rng) -> Question:
    """Whether a thing has a colour; half yes, and a no is mostly the colour of another thing."""
    reference = pick(rng, [r for r in plain_references(scene) if "colour" not in r.gives])
    thing = reference.thing
    colour, answer = require(thing.colour), "yes"
    if rng.random() < 0.5:
        others = [c for c in COLOURS if c != colour and not is_held_out(c, thing.shape)]
        there = [t.colour for t in scene.things if t.colour in others]
        colour, answer = pick(rng, there if there and rng.random() < 0.7 else others), "no"
    return reference.question(f"Is {reference.words} {colour}?", answer, {"recognition"})


def _is_on_side(scene: Scene, rng: Rng) -> Question:
    references = plain_references(scene)
    both = [pick(rng, references), pick(rng, references)] if references else []
    side = pick(rng, SIDES)  # drawn in any case: what the training sees depends on each draw
    a, b = require(both)
    require(a.index != b.index)
    gap = beyond(side, a.thing, b.thing)
    require(abs(gap) >= CLEAR)
    text, answer = f"Is {a.words} {side} {b.words}?", "yes" if gap > 0 else "no"
    return a.question(text, answer, b.skills | {"spatial"}, b.index)


def _kind(scene: Scene, rng: Rng) -> tuple[str, tuple[int, ...], Skill] | None:
    """A name of things, there or not, the indices of those it fits, and the skill to see them."""
    thing = pick(rng, scene.things)
    colour = thing.colour if rng.random() < 0.5 else pick(rng, COLOURS)
    shape = thing.shape if rng.random() < 0.5 else pick(rng, SHAPES)
    roll = rng.random()
    if roll < 0.1:
        kind = pick(rng, ("number", "word"))
        return kind, indices(scene, lambda t: getattr(t, kind)), "ocr"
    if roll < 0.4 and shape:
        return shape, indices(scene, lambda t: t.shape == shape), "recognition"
    if roll < 0.6 and colour:
        return f"{colour} object", indices(scene, lambda t: t.colour == colour), "recognition"
    if not (colour and shape) or is_held_out(colour, shape):
        return None
    about = indices(scene, lambda t: (t.colour, t.shape) == (colour, shape))
    return f"{colour} {shape}", about, "recognition"


def _exists(scene: Scene, rng: Rng) -> Question:
    """Whether something is there, by shape, colour, both or print."""
    wanted = rng.random() < 0.5
    kinds = (_kind(scene, rng) for _ in range(_TRIES))
    fits = (kind for kind in kinds if kind and bool(kind[1]) == wanted)
    name, about, skill = require(next(fits, None))
    return Question(f"Is there a {name}?", "yes" if about else "no", (skill,), about)


def _how_many(scene: Scene, rng: Rng) -> Question:
    """How many of a kind, of none as well."""
    name, about, skill = require(_kind(scene, rng))
    require(len(about) > 1 or rng.random() >= 0.5)
    text = f"How many {plural(name)} are there?"
    return Question(text, str(len(about)), (skill, "counting"), about)


def _describe(scene: Scene, rng: Rng) -> Question:
    """A short list from left to right."""
    order = sorted(range(len(scene.things)), key=lambda i: scene.things[i].x)
    things = [scene.things[i] for i in order[: _LISTED + 1]]
    require(all(b.x - a.x >= CLEAR for a, b in itertools.pairwise(things)))
    answer = ", ".join(map(_name, things[:_LISTED])) + (" and more" if things[_LISTED:] else "")
    about = tuple(order[:_LISTED])
    return Question("Describe the picture.", answer, ("recognition", "spatial"), about)


def _absent(scene: Scene, rng: Rng) -> Question:
    """About something that is not there, or a print that a thing does not bear."""
    roll = rng.random()
    if roll < 0.35:  # a thing without a print: one with the other would say that
        kind = pick(rng, ("number", "word"))
        reference = pick(rng, [r for r in plain_references(scene) if not r.thing.print])
        text, at = f"What {kind} is on {reference.words}?", reference.index
        return Question(text, CANNOT_TELL, ("absence",), (at,), at)
    colour, shape = pick(rng, COLOURS), pick(rng, SHAPES)
    asks = ["What number is on {}?", "What word is on {}?", "Where is {}?"]
    if roll < 0.6:
        words, there = f"the {shape}", any(t.shape == shape for t in scene.things)
        asks += ["What colour is {}?"] * 3
    elif roll < 0.75:
        words, there = f"the {colour} object", any(t.colour == colour for t in scene.things)
        asks += ["What shape is {}?"] * 3
    elif roll < 0.9:
        words = f"the {colour} {shape}"
        there = any((t.colour, t.shape) == (colour, shape) for t in scene.things)
        there |= is_held_out(colour, shape)
    else:
        kind, value = pick(rng, (("number", str(rng.integers(10))), ("word", pick(rng, WORDS))))
        words = f"the object with the {kind} {value}"
        there = any(t.print == value for t in scene.things)
        asks = ["What colour is {}?", "What shape is {}?", "Where is {}?"]
    require(not there)
    return Question(pick(rng, asks).format(words), CANNOT_TELL, ("absence",))


def _grid_place(scene: Scene, rng: Rng) -> Question:
    """Row or column of the thing that is named, of twenty-four: practice in reading places."""
    reference = pick(rng, plain_references(scene))
    thing = reference.thing
    way, at = ("column", thing.x) if rng.random() < 0.6 else ("row", thing.y)
    text, answer = f"Which {way} is {reference.words} in?", str(int(_CELLS * at / scene.side))
    return reference.question(text, answer, {"spatial"})


def _count_beyond(scene: Scene, rng: Rng) -> Question:
    """How many lie on a side of a row or column, of twenty-four: practice in counting a part."""
    side, at = pick(rng, SIDES), int(rng.integers(4, 20))
    line = "column" if side in ("left of", "right of") else "row"
    middle = (at + 0.5) * scene.side / _CELLS
    about = on_side(scene, side, Thing("", "", middle, middle, 0.0))
    text = f"How many objects are {side} {line} {at}?"
    return Question(text, str(len(about)), ("spatial", "counting"), about)


def off_topic(scene: Scene, rng: Rng) -> Question:
    """A question about a name or a word of letters in a row, as most that people use are to it."""
    if rng.random() < 0.6:
        name = pick(rng, TEXTS["off_topic"]["names"])
    else:
        syllables = range(rng.integers(2, 4))
        name = "".join(pick(rng, "bcdfglmnprst") + pick(rng, "aeiou") for _ in syllables)
    text = pick(rng, TEXTS["off_topic"]["training"]).format(x=name)
    return Question(text, MADE_FOR, ("off topic",))


ADDED: Makers = {
    _is_colour: 0.05, _is_on_side: 0.05, _exists: 0.05, _how_many: 0.07, _describe: 0.02,
    _absent: 0.07, off_topic: 0.03,
}  # fmt: skip
"""What people ask besides the kinds that are measured, each with its share."""
# Training practises most what is learnt last, and two kinds that are never asked but that much else
# builds on.
HARD: Makers = {
    _grid_place: 0.05, _count_beyond: 0.08, questions.count_alike: 0.05,
    questions.count_on_side: 0.1, questions.add_up: 0.03,
}  # fmt: skip


def _reworded(scene: Scene, rng: Rng, maker: Maker, held_out: bool) -> Question:
    question = maker(scene, rng)
    if question.answer != MADE_FOR:
        return replace(question, text=reword(question.text, rng, held_out))
    text = question.text
    if held_out:
        forms, names = TEXTS["off_topic"]["held_out"], TEXTS["off_topic"]["names"]
        text = pick(rng, forms).format(x=pick(rng, names))
    return replace(question, text=style(text, rng, held_out))


def _all(measured: float, *added: Makers, held_out: bool) -> Makers:
    """The kinds that are measured, with so much of their shares, and others; all reworded."""
    shares = [(maker, measured * share) for maker, share in questions.MAKERS.items()]
    shares += [pair for makers in added for pair in makers.items()]
    reworded = functools.partial(_reworded, held_out=held_out)
    return {functools.partial(reworded, maker=maker): share for maker, share in shares}


_TRAINING = _all(0.4, ADDED, HARD, held_out=False)
_HELD_OUT = _all(0.7, ADDED, held_out=True)


def practise(scene: Scene, rng: Rng, count: int, held_out: bool = False) -> list[Question]:
    """Up to ``count`` questions for training, each in one of the wordings of training.

    Held out, those of every kind that people ask, in wordings that training never uses, and none
    that offers a choice.
    """
    return questions.ask(scene, rng, count, _HELD_OUT if held_out else _TRAINING, held_out)
