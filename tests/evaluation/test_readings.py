"""How a label says where its relevance comes from."""

from __future__ import annotations

import pytest

from spare_demo.evaluation.readings import read_reading, split_reading, words_of
from spare_demo.relevance import RelevanceOptions

USUAL = RelevanceOptions(-2, "stretches")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("-1", RelevanceOptions(-1, "stretches"), "layer -1"),
        ("tokens", RelevanceOptions(-2, "tokens"), "each word apart"),
        ("-1, tokens", RelevanceOptions(-1, "tokens"), "layer -1, each word apart"),
        (
            "words",
            RelevanceOptions(guidance_text="words"),
            "words of the language model, not CLIP",
        ),
        ("stretches,-3", RelevanceOptions(-3, "stretches"), "the question as a whole, layer -3"),
    ],
)
def test_a_reading_is_read_over_the_usual_one(
    text: str, options: RelevanceOptions, words: str
) -> None:
    assert read_reading(text, USUAL) == options
    assert words_of(text) == words
    assert read_reading("-1", RelevanceOptions(-2, "tokens")) == RelevanceOptions(-1, "tokens")


@pytest.mark.parametrize("text", ["", "1", "0", "word", "-1,,tokens", "minus one"])
def test_what_is_no_reading_is_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="Write a layer counted from the end"):
        read_reading(text, USUAL)


def test_a_label_may_have_settings_and_a_reading() -> None:
    assert split_reading("spare:squash=minmax@-1") == ("spare:squash=minmax", "-1")
    assert split_reading("spare") == ("spare", "")
