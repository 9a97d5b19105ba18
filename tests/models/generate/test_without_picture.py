"""Questions without a picture, and texts that go on from a prompt."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from tiny_families import FAMILIES

from spare_demo.models.generate import answering
from spare_demo.models.generate.prompt import build_prompt, continuation_ids
from spare_demo.models.model import Model

QUESTION = "How many stars are there?"


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def ids_of(model: Model, question: str = QUESTION) -> torch.Tensor:
    return build_prompt(model.processor, question, 0, model.system)[1]


def test_the_prompt_has_neither_image_token_nor_its_line(model: Model) -> None:
    prompt, ids = build_prompt(model.processor, QUESTION, 0)
    assert QUESTION in prompt and model.processor.image_token not in prompt
    with_picture, _ = build_prompt(model.processor, QUESTION, 3)
    assert len(prompt) < len(with_picture.replace(model.processor.image_token, ""))
    assert int((ids == model.hf.config.image_token_id).sum()) == 0


def test_the_answer_takes_the_likeliest_token_each_time(model: Model) -> None:
    answer = model.answer_text(QUESTION, 4)
    ids = ids_of(model)
    with torch.no_grad():
        first = model.hf(input_ids=ids).logits[0, -1]
    torch.testing.assert_close(answer.first_logits, first.float(), atol=1e-4, rtol=1e-4)
    so_far = torch.cat([ids, torch.tensor([answer.token_ids])], dim=1)
    with torch.no_grad():
        greedy = model.hf(input_ids=so_far).logits[0, ids.shape[1] - 1 : -1].argmax(-1)
    assert tuple(greedy.tolist()) == answer.token_ids


def test_a_score_is_the_log_probability_of_each_token(model: Model) -> None:
    text = " blue star"
    prompt, ids = build_prompt(model.processor, QUESTION, 0, model.system)
    given = continuation_ids(model.tokenizer, prompt, text)
    score = model.score_continuation(QUESTION, None, text)
    so_far, expected = ids, []
    for token in given:
        with torch.no_grad():
            logits = model.hf(input_ids=so_far).logits[0, -1].double()
        expected.append(float(logits.log_softmax(-1)[token]))
        so_far = torch.cat([so_far, torch.tensor([[token]])], dim=1)
    assert score.log_probabilities == pytest.approx(expected, abs=1e-4)
    assert not score.by_itself


def test_the_models_own_answer_is_scored_as_its_own(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = model.answer_text(QUESTION, 2).token_ids
    other = (own[0], (own[1] + 1) % model.hf.config.text_config.vocab_size)
    for given in (own, other):
        monkeypatch.setattr(answering, "continuation_ids", lambda *_, given=given: given)
        assert model.score_continuation(QUESTION, None, "").by_itself == (given == own)


def test_with_a_picture_a_continuation_is_scored_as_its_tokens(
    model: Model, photo: Image.Image
) -> None:
    view = model.encode(photo, QUESTION)
    given = continuation_ids(model.tokenizer, view.prompt, " blue")
    score = model.score_continuation(QUESTION, (view, None), " blue")
    assert score.log_probabilities == pytest.approx(
        model.score(view, None, given).log_probabilities, abs=1e-4
    )


@pytest.mark.parametrize("text", [" blue", "blue", " 日本語"])
def test_the_tokens_of_a_continuation_give_its_text(model: Model, text: str) -> None:
    prompt, _ = build_prompt(model.processor, QUESTION, 0)
    given = continuation_ids(model.tokenizer, prompt, text)
    assert model.tokenizer.decode(list(given)).strip() == text.strip()


def test_without_its_language_model_there_is_none(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model, "has_language_model", False)
    with pytest.raises(ValueError, match="without its language model"):
        tiny_model.answer_text(QUESTION)
