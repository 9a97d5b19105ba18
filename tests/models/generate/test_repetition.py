"""Generation settings that change greedy answers: applied as stock `generate` does, or refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image
from stock import answer_all, stock
from transformers import RepetitionPenaltyLogitsProcessor

from spare_demo.models import LlavaModel, ModelError, View, load_model
from spare_demo.models.generate.prompt import VICUNA
from spare_demo.models.generate.repetition import PromptPenalty, changed_settings
from spare_demo.pruners import PRUNERS

QUESTION = "How many stars are there?"


@pytest.mark.parametrize("penalty", [1.05, 1.5, 4.0, 0.5])
def test_a_repetition_penalty_is_applied_as_stock_does(
    tiny_model: LlavaModel, view: View, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = tiny_model.answer(view, None, 12)
    monkeypatch.setattr(tiny_model.hf.generation_config, "repetition_penalty", penalty)
    reference = stock(
        tiny_model, 12, input_ids=view.input_ids, pixel_values=view.pixel_values
    ).sequences[0, view.input_ids.shape[1] :]
    alone = tiny_model.answer(view, None, 12)
    assert list(alone.token_ids) == reference.tolist()
    together = answer_all(tiny_model, view, {"unpruned": None, "again": None}, 12)
    many = tiny_model.answer_many([(view, None)], 12)
    assert together["unpruned"].token_ids == together["again"].token_ids == alone.token_ids
    assert many[0].token_ids == alone.token_ids
    assert torch.equal(alone.first_logits, without.first_logits)  # the model's own, for KL
    if penalty == 4.0:
        assert alone.token_ids != without.token_ids


def test_inside_the_language_model_too(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model.hf.generation_config, "repetition_penalty", 4.0)
    plan = PRUNERS["fastv"].plan(view, view.tokens.n)  # nothing is dropped
    assert (
        tiny_model.answer(view, plan, 12).token_ids == tiny_model.answer(view, None, 12).token_ids
    )


@pytest.mark.parametrize(
    ("name", "value"), [("no_repeat_ngram_size", 2), ("suppress_tokens", [5]), ("min_length", 9)]
)
def test_what_is_not_applied_is_refused(
    tiny_model: LlavaModel, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model.hf.generation_config, name, value)
    with pytest.raises(ModelError, match=f"ask for {name}"):
        LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mine").check_answers()


def test_settings_that_change_nothing_are_taken(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "min_length": 0}
    said |= {"min_new_tokens": 0, "encoder_repetition_penalty": 1.0, "guidance_scale": 1.0}
    for name, value in said.items():
        monkeypatch.setattr(tiny_model.hf.generation_config, name, value)
    LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mine").check_answers()
    said |= {"temperature": 0, "num_beams": 1, "num_return_sequences": 1, "do_sample": False}
    assert changed_settings({**said, "repetition_penalty": 1.0, "top_p": 0.5}) == []
    more = {name: value + 1 for name, value in said.items()}
    assert changed_settings(more | {"repetition_penalty": 1.1}) == [*said, "repetition_penalty"]


def test_vicunas_system_sentence_and_stock_generate_on_it(
    tiny_folder: Any, tiny_model: LlavaModel, photo: Image.Image
) -> None:
    model = load_model(str(tiny_folder), "cpu", system="vicuna_v1", warm_up=False)
    view = model.encode(photo, QUESTION)
    image = model.processor.image_token
    assert view.prompt == f"{VICUNA} USER: {image}\n{QUESTION} ASSISTANT:"
    assert view.system == "vicuna_v1" and tiny_model.encode(photo, QUESTION).system == "none"
    ids = model.tokenizer(view.prompt.replace(image, image * 16), return_tensors="pt").input_ids
    assert torch.equal(ids, view.input_ids)
    reference = stock(model, 8, input_ids=ids, pixel_values=view.pixel_values)
    ours = model.answer(view, None, 8)
    assert list(ours.token_ids) == reference.sequences[0, ids.shape[1] :].tolist()
    assert torch.equal(ours.first_logits, reference.logits[0][0])
    with pytest.raises(ModelError, match="No system sentence is called 'other'"):
        load_model(str(tiny_folder), "cpu", system="other")


def test_prompts_given_as_embeddings_are_penalised_like_prompts_of_words(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sequences for each of two prompts, as beams lie, against the stock processor."""
    monkeypatch.setattr(tiny_model.hf.generation_config, "repetition_penalty", 3.0)
    prompts = [torch.tensor([[1, 4, 9]]), torch.tensor([[2, 4, 4, 7]])]
    new = torch.tensor([[5, 6], [9, 5], [7, 7], [5, 8]])
    scores = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
    ours = PromptPenalty(tiny_model.hf.generation_config, prompts)(new, scores)
    whole = RepetitionPenaltyLogitsProcessor(3.0)
    for row in range(4):
        words = torch.cat([prompts[row // 2][0], new[row]])[None]
        assert torch.equal(ours[row], whole(words, scores[row : row + 1].clone())[0])
    before = scores.clone()
    assert not torch.equal(ours, scores) and torch.equal(before, scores)
