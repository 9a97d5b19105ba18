"""How a label says that it is measured otherwise than the run."""

from __future__ import annotations

import pytest

from spare_demo.evaluation.variants import Variant, read_variant, split_label, words_of
from spare_demo.relevance import RelevanceOptions

USUAL = Variant(RelevanceOptions(-2, "stretches"))


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("-1", RelevanceOptions(-1, "stretches"), "layer -1"),
        ("tokens", RelevanceOptions(-2, "tokens"), "each word apart"),
        ("-1, tokens", RelevanceOptions(-1, "tokens"), "layer -1, each word apart"),
        ("words", RelevanceOptions(guidance_text="words"), "words of the language model, not CLIP"),
        ("stretches,-3", RelevanceOptions(-3, "stretches"), "the question as a whole, layer -3"),
    ],
)
def test_relevance_is_read_over_the_usual_one(
    text: str, options: RelevanceOptions, words: str
) -> None:
    assert read_variant(text, USUAL) == Variant(options)
    assert words_of(text) == words
    by_words = Variant(RelevanceOptions(-2, "tokens"), "original")
    assert read_variant("-1", by_words) == Variant(RelevanceOptions(-1, "tokens"), "original")


def test_positions_stand_alone_or_beside_how_relevance_is_read() -> None:
    assert read_variant("original", USUAL) == Variant(USUAL.relevance, "original")
    both = Variant(RelevanceOptions(-2, "tokens"), "original")
    assert read_variant("tokens,original", USUAL) == both
    assert read_variant("compact", both) == Variant(both.relevance, "compact")
    assert words_of("tokens,original") == "each word apart, original positions"


@pytest.mark.parametrize("text", ["", "1", "0", "word", "-1,,tokens", "minus one"])
def test_what_says_nothing_of_a_variant_is_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="a layer counted from the end"):
        read_variant(text, USUAL)


@pytest.mark.parametrize(
    "text", ["-1,-2", "tokens, stretches", "original,-1,compact", "words,words"]
)
def test_two_of_a_kind_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"says both .* and .*Leave one out"):
        read_variant(text, USUAL)


def test_a_label_may_have_settings_and_a_variant() -> None:
    assert split_label("spare:squash=minmax@-1") == ("spare:squash=minmax", "-1")
    assert split_label("spare") == ("spare", "")
