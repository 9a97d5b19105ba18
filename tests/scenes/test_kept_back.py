"""What training asks never speaks against the pairs that it keeps back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo.scenes.kept_back import speaks_against_pairs
from spare_demo.scenes.questions import ask
from spare_demo.scenes.world import COLOURS, SHAPES, Scene, Thing, World, rng_of, sample_scene


def scene(*things: Thing) -> Scene:
    return Scene(336, "plain", 0, things)


def thing(colour: str, shape: str, number: str | None = None, **rest) -> Thing:
    return Thing(colour, shape, 100.0, 100.0, 60.0, number, **rest)


RED_STAR = thing("red", "star")  # red is kept back from the circle
SQUARE = thing("blue", "square")  # orange is kept back from it, and the number 6


@pytest.mark.parametrize(
    ("there", "text", "speaks"),
    [
        (RED_STAR, "How many circles are there?", True),
        (RED_STAR, "What number is on the circle?", True),
        (RED_STAR, "Is there a blue circle?", True),
        (RED_STAR, "How many stars are there?", False),
        (RED_STAR, "How many red objects are there?", False),
        (RED_STAR, "What is the leftmost number?", False),
        (SQUARE, "How many orange objects are there?", True),
        (SQUARE, "Is there a number 6?", True),
        (SQUARE, "What shape is the object with the number 6?", True),
        (SQUARE, "How many objects are left of column 6?", False),
        (SQUARE, "What colour is the object with the number 7?", False),
        (thing("blue", "star", "6"), "How many squares are there?", True),
        (thing("red", "", blob=3), "How many crosses are there?", False),
        (thing("black", "", blob=3), "How many arrows are there?", True),
        (thing("blue", "", "9", blob=3), "How many crosses are there?", False),
        (thing("purple", "", blob=3), "How many crosses are there?", True),
    ],
)
def test_what_speaks_against_a_pair(there: Thing, text: str, speaks: bool) -> None:
    assert speaks_against_pairs(text, scene(thing("white", "heart"), there)) is speaks


def test_a_colour_is_not_asked_for_beside_one_that_is_nearly_it() -> None:
    orange_red = thing("", "star", tint=(230, 87, 32))
    assert speaks_against_pairs("How many red objects are there?", scene(orange_red))
    assert speaks_against_pairs("How many orange objects are there?", scene(orange_red))
    assert not speaks_against_pairs("How many blue objects are there?", scene(orange_red))
    assert not speaks_against_pairs("How many circles are there?", scene(orange_red))


@given(seed=st.integers(0, 10**12))
@settings(max_examples=40, deadline=None)
def test_training_asks_nothing_that_does(seed: int) -> None:
    """Whatever pair a question names one half of, the other half is nowhere in the picture."""
    rng = rng_of("train", seed)
    drawn = sample_scene(World(tint_share=0.2, blob_share=0.2), rng)
    for question in ask(drawn, rng, 12, training=True, fair=True):
        words = question.text.replace("crosses", "cross").rstrip("?").split()
        for at, (colour, shape) in enumerate(zip(COLOURS, SHAPES, strict=True)):
            if {shape, f"{shape}s"} & set(words):
                assert colour not in {t.colour for t in drawn.things}, question
            if colour in words:
                assert shape not in {t.shape for t in drawn.things}, question
            for digit in (d for d in range(10) if (d + 3) % 8 == at):
                if {shape, f"{shape}s"} & set(words):
                    assert str(digit) not in {t.number for t in drawn.things}, question
                if ("number", str(digit)) in itertools.pairwise(words):
                    assert shape not in {t.shape for t in drawn.things}, question


def test_what_is_measured_asks_them_all_the_same() -> None:
    asked = []
    for seed in range(40):
        rng = rng_of("held-out", seed)
        drawn = sample_scene(World(), rng)
        asked += [(q.text, drawn) for q in ask(drawn, rng, 6)]
    assert sum(speaks_against_pairs(*each) for each in asked) > len(asked) / 4
