"""Answers decoded as one batch are those of each alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import torch
from PIL import Image

from spare_demo.models import LlavaModel, View
from spare_demo.models.rows import kept_rows
from spare_demo.models.together import Together, decode_together
from spare_demo.tokens import Selection

PICKS = [None, [3, 0, 15, 7], [5], list(range(0, 16, 2))]


def answer(
    model: LlavaModel,
    view: View,
    picks: Sequence[list[int] | None],
    longest: int,
    stop: threading.Event | None = None,
) -> tuple[Together, list[str]]:
    rows = [kept_rows(view.picture, p and Selection(p)) for p in picks]
    steps = decode_together(
        model.hf, model.tokenizer, model._passes, view.input_ids, rows, longest, stop
    )
    texts = [""] * len(picks)
    while True:
        try:
            texts = [text + piece for text, piece in zip(texts, next(steps), strict=True)]
        except StopIteration as end:
            return end.value, texts


@pytest.mark.parametrize("question", ["What colour is the circle?", "", "Is 日本語 here? 🙂"])
@pytest.mark.parametrize("longest", [1, 2, 24])
def test_each_is_what_it_is_alone(
    tiny_model: LlavaModel, photo: Image.Image, question: str, longest: int
) -> None:
    view = tiny_model.encode(photo, question)
    together, texts = answer(tiny_model, view, PICKS, longest)
    for pick, ours, text in zip(PICKS, together.answers, texts, strict=True):
        alone = tiny_model.answer(view, pick and Selection(pick), longest)
        assert text == ours.text == alone.text
        for name in (
            "token_ids",
            "prompt_tokens",
            "visual_tokens",
            "newline_tokens",
            "kv_cache_bytes",
            "kept_per_layer",
            "ended",
        ):
            assert getattr(ours, name) == getattr(alone, name), name
        torch.testing.assert_close(ours.first_logits, alone.first_logits, atol=1e-5, rtol=0)
        assert ours.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-4)
        assert ours.prefill_seconds > 0 and (ours.decode_seconds > 0) == (longest > 1)


def test_an_answer_that_ends_leaves_the_others_going(
    tiny_model: LlavaModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tiny_model.encode(photo, "How many stars are there?")
    usual, _ = answer(tiny_model, view, PICKS, 12)
    end = usual.answers[1].token_ids[3]  # what one answer says early now ends it
    monkeypatch.setattr(tiny_model.hf.generation_config, "eos_token_id", end)
    together, _ = answer(tiny_model, view, PICKS, 12)
    assert len({len(each.token_ids) for each in together.answers}) > 1
    for pick, ours in zip(PICKS, together.answers, strict=True):
        alone = tiny_model.answer(view, pick and Selection(pick), 12)
        assert (ours.token_ids, ours.ended) == (alone.token_ids, alone.ended)


def test_the_padded_cache_is_told_apart(tiny_model: LlavaModel, photo: Image.Image) -> None:
    view = tiny_model.encode(photo, "What colour is the circle?")
    together, _ = answer(tiny_model, view, PICKS, 4)
    largest = max(each.kv_cache_bytes for each in together.answers)
    assert together.allocated_bytes == 4 * largest
    assert sum(each.kv_cache_bytes for each in together.answers) < together.allocated_bytes


def test_it_stops_between_steps(tiny_model: LlavaModel, photo: Image.Image) -> None:
    view = tiny_model.encode(photo, "What colour is the circle?")
    stop = threading.Event()
    stop.set()
    together, texts = answer(tiny_model, view, PICKS, 12, stop)
    assert texts == [""] * 4
    assert all(each.stopped and each.token_ids == () for each in together.answers)
    assert together.allocated_bytes == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_each_what_it_is_alone(tiny_folder, photo: Image.Image) -> None:
    from spare_demo.models import load_model

    test_each_is_what_it_is_alone(load_model(str(tiny_folder), device="cuda"), photo, "Why?", 24)
