"""Which questions are in words that the shipped model was taught."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo.scenes.signature import WORLDS, questions_of
from spare_demo.scenes.taught import close_questions, wording


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(WORLDS.keys() - {"held-out-wordings"})), st.integers(0, 2**31))
def test_every_question_that_scenes_are_made_with_was_taught(which: str, seed: int) -> None:
    for question in questions_of(which, seed):
        assert wording(question.text) == "taught", question.text
        assert wording(f" {question.text}\n") == "taught"
        assert wording(f"Please: {question.text}") == "other"


@pytest.mark.parametrize(
    "question",
    [
        "What is written on the purple circle?",
        "Is there a star?",
        "How many shapes are there?",
        "what colour is the star",
        "What colour is the pink star?",
        "Where is the CAT?",
    ],
)
def test_other_words_about_a_scene(question: str) -> None:
    assert wording(question) == "other"


@pytest.mark.parametrize(
    "question",
    ["What animal is this?", "Is this a dog?", "Who is the president?", "¿Qué es?", "¯\\_(ツ)_/¯"],
)
def test_what_names_nothing_of_a_scene_is_off_topic(question: str) -> None:
    assert wording(question) == "off topic"


def test_no_question_is_none_in_other_words() -> None:
    assert wording(" \n") == "taught"


def test_close_questions_name_the_same_things_and_are_spelt_alike() -> None:
    drawn = [question.text for question in questions_of("page", 1001)]
    close = close_questions("What is written on the purple circle?", drawn)
    assert close[0] == "What word is on the purple circle?"
    assert "star" in close_questions("Is there a star?", drawn)[0]
    spellings = ["What color is the star?", "What colour is the star?", "Where is the star?"]
    assert len(close_questions("the star's colour", spellings)) == 2
    assert close_questions("Is there a star?", []) == ()
