"""What training asks never speaks against the pairs that it keeps back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo.scenes.questions import ask
from spare_demo.scenes.training.held_out_pairs import speaks_against_pairs, to_stir
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

    def unfair(text: str) -> bool:
        return speaks_against_pairs(text, drawn)

    for question in ask(drawn, rng, 12, training=True, unasked=unfair):
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


@pytest.mark.parametrize(
    ("text", "noisy"),
    [
        ("Where is the black object?", "shape"),
        ("How many black objects are there?", "shape"),
        ("Is there a number 6?", "shape"),
        ("What color is the object with the number 6?", "shape"),
        ("What number is on the black object?", "shape"),
        ("What is the leftmost number?", "shape"),
        ("What color is the object with the word CAT?", "shape"),
        ("How many crosses are there?", "colour"),
        ("What number is on the star?", "colour"),
        ("What shape is the lowest object?", "colour"),
        ("What shape is the black object?", None),
        ("What colour is the star?", None),
        ("Is there a black arrow?", None),
        ("How many objects are left of column 6?", None),
        ("Is the largest object in the top or the bottom half?", None),
    ],
)
def test_what_an_answer_has_nothing_to_do_with(text: str, noisy: str | None) -> None:
    assert to_stir(text) == noisy


def test_what_is_not_to_be_asked_is_not() -> None:
    found, others = [], []
    for seed in range(30):
        for kept, test in ((found, lambda text: to_stir(text) == "shape"), (others, None)):
            rng = rng_of("train", seed)
            drawn = sample_scene(World(), rng)
            kept += ask(drawn, rng, 8, training=True, unasked=test)
    assert all(to_stir(question.text) != "shape" for question in found)
    assert len(found) > len(others) / 2
    assert sum(to_stir(question.text) == "shape" for question in others) > len(others) / 6


def test_what_is_measured_asks_them_all_the_same() -> None:
    asked = []
    for seed in range(40):
        rng = rng_of("held-out", seed)
        drawn = sample_scene(World(), rng)
        asked += [(q.text, drawn) for q in ask(drawn, rng, 6)]
    assert sum(speaks_against_pairs(*each) for each in asked) > len(asked) / 4
