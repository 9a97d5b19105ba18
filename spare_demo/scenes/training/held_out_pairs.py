"""Keeping training from teaching that the pairs it keeps back never are.

What is orange in training is never a square. Whoever learns that answers training's questions
better, and the second held-out set's worse, which is made of such pairs. So nothing is asked that
would be answered better by knowing it, and where a property is asked outright, its answers that
training cannot have are out of the running.
"""

from __future__ import annotations

import re

import numpy as np

from spare_demo.scenes.world import (
    COLOURS,
    FAR,
    HELD_OUT_COLOUR_SHAPE,
    HELD_OUT_NUMBER_SHAPE,
    SHAPES,
    Scene,
    Thing,
    is_held_out,
)


def kept_back_answers(thing: Thing, asked: str) -> tuple[str, ...]:
    """Colours, shapes or numbers that training never shows together with the rest of the thing."""
    pairs = {
        "colour": [(colour, shape == thing.shape) for colour, shape in HELD_OUT_COLOUR_SHAPE],
        "number": [(number, shape == thing.shape) for number, shape in HELD_OUT_NUMBER_SHAPE],
        "shape": [(shape, colour == thing.colour) for colour, shape in HELD_OUT_COLOUR_SHAPE]
        + [(shape, number == thing.number) for number, shape in HELD_OUT_NUMBER_SHAPE],
    }
    never = {value for value, with_it in pairs.get(asked, []) if with_it}
    return tuple(sorted(never - {getattr(thing, asked)}))


def to_stir(text: str) -> str | None:
    """What the answer to a question has nothing to do with: a thing's shape or its colour.

    Shape, where the question names or asks a colour or a number and no shape; colour, where it
    names or asks a shape and no colour; else none of both.
    """
    words = set(text.replace("crosses", "cross").rstrip("?").split())
    shape = words & {"shape", *SHAPES, *(f"{shape}s" for shape in SHAPES)}
    colour = words & {"colour", "color", *COLOURS}
    if shape:
        return None if colour else "colour"
    return "shape" if colour or "number" in words else None


def speaks_against_pairs(text: str, scene: Scene) -> bool:
    """Whether answering a question teaches that a pair which is kept back never is.

    So does "How many squares are there?" where something is orange, and the other way round
    whatever names orange where there is a square. A colour is not asked for beside one without a
    name that is like it either: whether it counts is not beyond doubt.
    """
    named = named_in(text)
    return any(_speaks_against(thing, *named) for thing in scene.things)


def named_in(text: str) -> tuple[set[str], set[str], set[str]]:
    """The colours, shapes and numbers that a question, or its beginning, names."""
    words = set(text.replace("crosses", "cross").rstrip("?").split())
    shapes = {shape for shape in SHAPES if {shape, f"{shape}s"} & words}
    return words & set(COLOURS), shapes, set(re.findall(r"number (\d)", text))


def _speaks_against(thing: Thing, colours: set[str], shapes: set[str], numbers: set[str]) -> bool:
    return (
        any(is_held_out(thing.colour, shape, thing.number) for shape in shapes)
        or any(is_held_out(colour, thing.shape, None) for colour in colours)
        or any(is_held_out("", thing.shape, number) for number in numbers)
        or any(thing.tint is not None and _alike(thing.tint, colour) for colour in colours)
    )


def _alike(tint: tuple[int, int, int], colour: str) -> bool:
    return float(np.linalg.norm(np.subtract(tint, COLOURS[colour]))) <= FAR
