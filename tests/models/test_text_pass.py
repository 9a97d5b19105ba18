"""The question read during the vision pass is the same as read in a pass of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest
import torch
from PIL import Image

from spare_demo.models import LlavaModel
from spare_demo.relevance import RelevanceOptions, TextPieces

QUESTION = "What colour is the circle?"


@contextmanager
def texts_read(model: Any) -> Iterator[list[None]]:
    """One entry per pass of a model's text tower meanwhile."""
    passes: list[None] = []
    with model.text_tower.text.register_forward_hook(lambda *_: passes.append(None)):
        yield passes


@pytest.mark.parametrize("question", [QUESTION, "", "far " * 90])
@pytest.mark.parametrize("pieces", get_args(TextPieces))
def test_a_pass_that_ran_during_the_vision_pass_is_not_run_again(
    tiny_model: LlavaModel, photo: Image.Image, question: str, pieces: TextPieces
) -> None:
    assert tiny_model.text_tower is not None
    options = RelevanceOptions(text=pieces)
    picture = tiny_model.look(photo)
    usual = tiny_model.ask(picture, question, options)
    text_pass = tiny_model.read(question, options)
    assert text_pass is not None
    with texts_read(tiny_model) as texts, torch.inference_mode():
        assert (text_pass().text is not None) == len(texts) == bool(question)
    with texts_read(tiny_model) as texts:
        view = tiny_model.ask(picture, question, options, text_pass=text_pass)
        assert texts == []
    assert (view.text_stretches, view.text_words) == (usual.text_stretches, usual.text_words)
    if usual.tokens.clip_text is None:
        assert view.tokens.clip_text is None
    else:
        assert torch.equal(view.tokens.clip_text, usual.tokens.clip_text)


def test_a_question_is_encoded_once(tiny_model: LlavaModel, photo: Image.Image) -> None:
    with texts_read(tiny_model) as texts:
        tiny_model.encode(photo, QUESTION)
        assert len(texts) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_both_towers_run_in_one_pass(tiny_folder: Any, photo: Image.Image) -> None:
    from spare_demo.models import load_model

    model = load_model(str(tiny_folder), device="cuda")
    assert model.text_tower is not None
    usual = model.ask(model.look(photo), QUESTION)
    for _ in range(20):  # a missing wait would show sooner or later
        text_pass = model.read(QUESTION)
        with texts_read(model) as texts:
            picture = model.look(photo, concurrent=text_pass)
            assert len(texts) == 1
            view = model.ask(picture, QUESTION, text_pass=text_pass)
            assert len(texts) == 1
        assert torch.equal(view.tokens.clip_text, usual.tokens.clip_text)
        torch.testing.assert_close(view.tokens.features, usual.tokens.features)
