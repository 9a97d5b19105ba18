"""The question's text read beside the vision pass is the one read by itself."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from PIL import Image

from spare_demo.models import LlavaModel
from spare_demo.relevance import RelevanceOptions, TextPieces

QUESTION = "What colour is the circle?"


class Texts(list[None]):
    """One entry per pass of a model's text tower, while used as a context."""

    def __init__(self, model: Any) -> None:
        self._tower = model.text_tower.text

    def __enter__(self) -> Texts:
        self._handle = self._tower.register_forward_hook(lambda *_: self.append(None))
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()


@pytest.mark.parametrize("question", [QUESTION, "", "far " * 90])
@pytest.mark.parametrize("pieces", get_args(TextPieces))
def test_what_was_read_ahead_is_taken_once(
    tiny_model: LlavaModel, photo: Image.Image, question: str, pieces: TextPieces
) -> None:
    options = RelevanceOptions(text=pieces)
    picture = tiny_model.look(photo)
    usual = tiny_model.ask(picture, question, options)
    reading = tiny_model.reading(question, options)
    assert reading is not None
    with torch.inference_mode():
        reading()
    with Texts(tiny_model) as texts:
        taken = tiny_model.ask(picture, question, options)
        assert texts == []
        again = tiny_model.ask(picture, question, options)
        assert len(texts) == bool(question)
    for view in (taken, again):
        assert (view.text_stretches, view.text_words) == (usual.text_stretches, usual.text_words)
        if usual.tokens.clip_text is None:
            assert view.tokens.clip_text is None
        else:
            assert torch.equal(view.tokens.clip_text, usual.tokens.clip_text)


def test_readings_that_nobody_takes_do_not_pile_up(tiny_model: LlavaModel) -> None:
    for number in range(20):
        reading = tiny_model.reading(f"Is it {number}?")
        assert reading is not None
        with torch.inference_mode():
            reading()
    assert tiny_model._ahead is not None and len(tiny_model._ahead._read) == 4
    tiny_model._ahead._read.clear()


def test_without_a_gpu_nothing_is_read_ahead(tiny_model: LlavaModel, photo: Image.Image) -> None:
    with Texts(tiny_model) as texts:
        tiny_model.look(photo, beside=tiny_model.reading(QUESTION))
        assert texts == []
        tiny_model.encode(photo, QUESTION)
        assert len(texts) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_both_towers_run_in_one_pass(tiny_folder: Any, photo: Image.Image) -> None:
    from spare_demo.models import load_model

    model = load_model(str(tiny_folder), device="cuda")
    usual = model.ask(model.look(photo), QUESTION)
    for _ in range(20):  # a missing wait would show sooner or later
        with Texts(model) as texts:
            picture = model.look(photo, beside=model.reading(QUESTION))
            assert len(texts) == 1
            view = model.ask(picture, QUESTION)
            assert len(texts) == 1
        assert torch.equal(view.tokens.clip_text, usual.tokens.clip_text)
        torch.testing.assert_close(view.tokens.features, usual.tokens.features)
