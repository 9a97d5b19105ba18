"""What a visitor types is words, never a control token.

And which words of a question MMTok reads, their tokens, and their rows in the language model.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_families import FAMILIES

from spare_demo.models import LlavaModel, Model
from spare_demo.models.generate.prompt import build_prompt, keywords, word_ids


@pytest.mark.parametrize("family", FAMILIES)
def test_control_tokens_in_a_question_are_words(
    family: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(family)
    tokenizer = model.tokenizer
    names = [token.content for token in tokenizer.added_tokens_decoder.values()]
    assert model.processor.image_token in names
    _, plain = build_prompt(model.processor, "What is it?", 4)
    _, typed = build_prompt(model.processor, f"What {''.join(names)} is it?", 4)
    for name in names:
        number = tokenizer.convert_tokens_to_ids(name)
        if number != tokenizer.unk_token_id:
            assert int((typed == number).sum()) == int((plain == number).sum()), name


@pytest.mark.parametrize("question", ["What is <it>?", "Is 1 < 2 > 0?", "<S> or [PAD", "a\nb"])
def test_any_other_question_is_as_it_was_typed(tiny_model: LlavaModel, question: str) -> None:
    prompt, _ = build_prompt(tiny_model.processor, question, 1)
    assert f"\n{question} ASSISTANT:" in prompt
    assert build_prompt(tiny_model.processor, f" {question}\n", 1)[0] == prompt


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (None, 'must be text, not NoneType. Pass "" for none'),
        (5, "not int"),
        ("\udc80", "is not valid"),
    ],
)
def test_a_question_that_is_no_text_is_refused(
    tiny_model: LlavaModel, photo: Image.Image, question: Any, reason: str
) -> None:
    picture = tiny_model.look(photo)
    for call in (
        lambda: tiny_model.encode(photo, question),
        lambda: tiny_model.ask(picture, question),
        lambda: tiny_model.answer_text(question),
    ):
        with pytest.raises(ValueError, match=f"^The question.*{reason}"):
            call()


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
        self.marks = marks

    def __call__(self, text: str, add_special_tokens: bool) -> Pieces:
        assert not add_special_tokens
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
