"""Which words of a question MMTok reads, their tokens, and their rows in the language model."""

from __future__ import annotations

import itertools

import pytest
import torch
from PIL import Image

from spare_demo.models import Model
from spare_demo.models.generate.prompt import keywords, word_ids


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What colour is the circle?", ["colour", "circle"]),
        ("Is it the DOG's ball", ["DOG", "s", "ball"]),
        ("How many?\nAnswer the question using a single word or phrase.", ["many"]),
        ("What is it?", ["What", "is", "it?"]),  # nothing but words that are left out
        ("Answer the question using a single word or phrase.", "all"),
        (" \n", []),
    ],
)
def test_keywords(question: str, words: list[str] | str) -> None:
    assert keywords(question) == (question.split() if words == "all" else words)


class Pieces:
    """A tokenizer that names a piece by a number; with `marks` it puts the blank itself."""

    def __init__(self, marks: bool):
        self.marks, self.seen = marks, list[str]()

    def __call__(self, text: str, add_special_tokens: bool) -> Pieces:
        assert not add_special_tokens
        self.seen.append(text)
        text = f" {text}" if self.marks else text
        starts = [place for place, letter in enumerate(text) if letter == " "]
        cuts = sorted({0, *starts, len(text)})
        self.input_ids = [hash(text[a:b]) for a, b in itertools.pairwise(cuts)]
        return self


@pytest.mark.parametrize("marks", [True, False])
def test_words_are_taken_as_inside_a_sentence(marks: bool) -> None:
    assert word_ids(Pieces(marks), ["red", "dog"]) == [hash(" red"), hash(" dog")]


@pytest.mark.parametrize("family", ["tiny_model", "tiny_qwen"])
def test_the_rows_are_the_language_models_own(
    family: str, photo: Image.Image, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(family)
    words = model.encode(photo, "What colour is the circle?").tokens.words
    assert words is not None
    ids = word_ids(model.tokenizer, ["colour", "circle"])
    expected = model.hf.get_input_embeddings().weight[ids].detach()
    torch.testing.assert_close(words(), expected.float())
    assert not words().is_inference() and words() is words()
    assert model.encode(photo, " ").tokens.words is None
