"""Kept tokens at the positions that they have among all tokens, or packed without gaps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from PIL import Image
from stock import answer_all, stock
from tiny_families import TINY
from torch import Tensor

from spare_demo import PRUNERS, Selection
from spare_demo.models import Answer, Model, View
from spare_demo.models.families import FAMILIES as CLASSES
from spare_demo.models.generate.together import JoinedCache

QUESTION = "What colour is the circle?"
FAMILIES = [name for kind, name in TINY.items() if "compact" in CLASSES[kind].position_options]
PICKS = [[5], [3, 0, 15, 7], list(range(1, 16, 2))]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def view(model: Any, photo: Image.Image) -> View:
    return model.encode(photo, QUESTION, "any" if "any" in model.aspects else None)


def placeholders(model: Model, view: View) -> Tensor:
    return (view.input_ids[0] == model.hf.config.image_token_id).nonzero().flatten()


def picture_rows(view: View) -> tuple[Tensor, list[int]]:
    """The rows of all placeholders, newline rows where they belong, and the row of each token."""
    picture, rows, of_token = view.picture, [], []
    breaks = picture.breaks.tolist()
    for token, row in enumerate(picture.features):
        while breaks and breaks[0] == token:
            rows.append(picture.newline)
            breaks.pop(0)
        of_token.append(len(rows))
        rows.append(row)
    rows += [picture.newline] * len(breaks)
    return torch.stack(rows), of_token


def whole_prompt(model: Model, view: View, kept: list[int]) -> tuple[Tensor, Tensor]:
    """(T, d) embeddings of the unpruned prompt, and (T,) which of its rows go on."""
    places, (rows, of_token) = placeholders(model, view), picture_rows(view)
    assert len(rows) == len(places)
    embeds = model.hf.get_input_embeddings()(view.input_ids)[0].clone()
    embeds[places] = rows
    stays = torch.ones(len(embeds), dtype=torch.bool)
    for token, row in enumerate(of_token):
        stays[places[row]] = token in kept
    return embeds, stays


@pytest.mark.parametrize("kept", PICKS)
@torch.inference_mode()
def test_original_is_the_stock_model_given_those_positions(
    model: Model, view: View, kept: list[int]
) -> None:
    embeds, stays = whole_prompt(model, view, kept)
    expected = stock(
        model,
        inputs_embeds=embeds[stays][None],
        position_ids=stays.nonzero().flatten()[None],
        attention_mask=torch.ones(1, int(stays.sum()), dtype=torch.long),
    )
    answer = model.answer(view, Selection(kept), 20, "original")
    assert list(answer.token_ids) == expected.sequences[0].tolist()
    torch.testing.assert_close(answer.first_logits, expected.logits[0][0], atol=1e-5, rtol=0)
    compact = model.answer(view, Selection(kept), 20, "compact")
    assert compact.prompt_tokens == answer.prompt_tokens == int(stays.sum())
    assert (compact.first_logits - answer.first_logits).abs().max() > 1e-3  # positions matter


@pytest.mark.parametrize("kept", PICKS)
@torch.inference_mode()
def test_original_is_the_whole_prompt_in_which_nobody_sees_a_dropped_token(
    model: Model, view: View, kept: list[int]
) -> None:
    """In float64, nothing taken out and no position given."""
    embeds, stays = whole_prompt(model, view, kept)
    seen = torch.ones(len(stays), len(stays), dtype=torch.bool).tril() & stays[None]
    seen |= torch.eye(len(stays), dtype=torch.bool)  # a dropped row must see something: itself
    mask = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    exact = copy.deepcopy(model.hf).double()
    expected = exact(inputs_embeds=embeds.double()[None], attention_mask=mask[None, None])
    answer = model.answer(view, Selection(kept), 1, "original")
    torch.testing.assert_close(
        answer.first_logits.double(), expected.logits[0, -1], atol=1e-4, rtol=0
    )


def test_keeping_all_is_the_stock_answer_with_either(model: Model, view: View) -> None:
    usual = model.answer(view, None, 12)
    every = Selection(torch.arange(view.tokens.n).flip(0))
    for positions in model.position_options:
        for selection in (None, every):
            answer = model.answer(view, selection, 12, positions)
            assert answer.token_ids == usual.token_ids
            torch.testing.assert_close(answer.first_logits, usual.first_logits, atol=1e-6, rtol=0)


def test_the_usual_is_compact(model: Model, view: View) -> None:
    few = Selection([3, 0, 15, 7])
    expected = model.answer(view, few, 6, "compact")
    for answer in (model.answer(view, few, 6), model.answer(view, few, 6, None)):
        assert torch.equal(answer.first_logits, expected.first_logits)
    assert model.position_option(None) == "compact"


def merged(view: View) -> Selection:
    """Two kept tokens and a row after them, mixed of others: its largest part is token 2."""
    sources = torch.zeros(3, view.tokens.n)
    sources[0, 4] = sources[1, 9] = 1.0
    sources[2, [1, 2, 8]] = torch.tensor([0.2, 0.5, 0.3])
    features = sources @ view.picture.features.float()
    return Selection([4, 9], features=features, sources=sources)


@torch.inference_mode()
def test_a_merged_row_has_the_position_of_its_largest_part(
    tiny_model: Model, photo: Image.Image
) -> None:
    view = tiny_model.encode(photo, QUESTION)
    selection, places = merged(view), placeholders(tiny_model, view)
    first, last, total = int(places[0]), int(places[-1]), view.input_ids.shape[1]
    ids = torch.cat([view.input_ids[0, :first], view.input_ids[0, last + 1 :]])
    text = tiny_model.hf.get_input_embeddings()(ids)
    embeds = torch.cat([text[:first], selection.features, text[first:]])
    own = [*range(first), first + 4, first + 9, first + 2, *range(last + 1, total)]
    expected = tiny_model.hf(
        inputs_embeds=embeds[None], position_ids=torch.tensor([own]), use_cache=True
    )
    answer = tiny_model.answer(view, selection, 1, "original")
    torch.testing.assert_close(answer.first_logits, expected.logits[0, -1], atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def asked(model: Any, view: View, photo: Image.Image) -> list[tuple[View, Selection | None]]:
    """Two questions about two pictures, with all, few and merged tokens."""
    other = model.encode(photo.rotate(90, expand=True), "How many?")
    sets: list[Selection | None] = [None, *map(Selection, PICKS)]
    every: list[tuple[View, Selection | None]] = [(v, s) for s in sets for v in (view, other)]
    return [*every, (view, merged(view)), (other, merged(other))]


def test_in_a_batch_each_is_what_it_is_alone(model: Model, asked: list) -> None:
    batch = model.answer_many(asked, 5, "original")
    alone = [model.answer(view, kept, 5, "original") for view, kept in asked]
    assert [reply.token_ids for reply in batch] == [answer.token_ids for answer in alone]
    for reply, answer in zip(batch, alone, strict=True):
        torch.testing.assert_close(reply.first_logits, answer.first_logits, atol=2e-4, rtol=1e-4)
    packed = model.answer_many(asked, 5)
    assert any(
        (one.first_logits - two.first_logits).abs().max() > 1e-3
        for one, two in zip(batch, packed, strict=True)
    )


def test_given_words_are_scored_in_a_batch_as_alone(model: Model, asked: list) -> None:
    given = model.answer(*asked[3], 3).token_ids
    batch = model.score_many(asked, given, "original")
    for score, (view, kept) in zip(batch, asked, strict=True):
        alone = model.score(view, kept, given, "original")
        assert score.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-4)
        by_itself = model.answer(view, kept, len(given), "original").token_ids == given
        assert score.by_itself == by_itself


def test_decoded_together_each_is_what_it_is_alone(
    model: Model, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {"all": None, "merged": merged(view)}
    kept |= {str(picks): Selection(picks) for picks in PICKS}
    monkeypatch.setattr(model.hf.generation_config, "eos_token_id", None)
    joined: list[int] = []
    step = JoinedCache.step

    def watched(self: JoinedCache, tokens: Any) -> Tensor:
        joined.append(len(tokens))
        return step(self, tokens)

    monkeypatch.setattr(JoinedCache, "step", watched)
    answers: dict[str, Answer] = {}
    for pieces in model.stream_together(view, kept, 8, "original"):
        answers |= {label: piece for label, piece in pieces.items() if isinstance(piece, Answer)}
    assert joined == [len(kept)] * 7  # all of them share their steps
    for label, selection in kept.items():
        alone = model.answer(view, selection, 8, "original")
        assert answers[label].token_ids == alone.token_ids
        assert answers[label].log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-4)


def test_what_a_prompt_goes_on_with_is_scored_there_too(model: Model, view: View) -> None:
    few = Selection([3, 0, 15, 7])
    ids = model.answer(view, few, 2, "original").token_ids
    text = " " + model.tokenizer.decode(ids)
    score = model.score_continuation(QUESTION, (view, few), text, "original")
    compact = model.score_continuation(QUESTION, (view, few), text)
    assert score.log_probabilities != pytest.approx(compact.log_probabilities, abs=1e-4)


@pytest.mark.parametrize("name", ["fastv", "pyramiddrop", "sparsevlm"])
def test_inside_the_language_model_original_keeps_what_the_methods_code_packs(
    deep_model: Model, photo: Image.Image, name: str
) -> None:
    view = deep_model.encode(photo, QUESTION)
    plan = PRUNERS[name].plan(view, 9)
    usual, compact, original = (
        deep_model.answer(view, plan, 4, positions) for positions in (None, "compact", "original")
    )
    assert torch.equal(usual.first_logits, compact.first_logits)
    same = torch.allclose(compact.first_logits, original.first_logits, atol=1e-6)
    assert same == (not plan.method.repacks)
    together = answer_all(deep_model, view, {"inside": plan}, 4)
    assert together["inside"].token_ids == usual.token_ids


def test_a_family_with_several_axes_has_one_way_and_says_why(
    tiny_qwen: Model, photo: Image.Image
) -> None:
    view = tiny_qwen.encode(photo, QUESTION)
    few = Selection([1, 3])
    usual, original = tiny_qwen.answer(view, few, 3), tiny_qwen.answer(view, few, 3, "original")
    assert torch.equal(usual.first_logits, original.first_logits)
    assert tiny_qwen.position_option(None) == "original"
    sentence = r"cannot give kept tokens 'compact' positions\. This model's positions say the row"
    for ask in (tiny_qwen.stream, tiny_qwen.answer):
        with pytest.raises(ValueError, match=sentence):
            ask(view, few, positions="compact")
    with pytest.raises(ValueError, match=sentence):
        tiny_qwen.answer_many([(view, few)], 2, "compact")
    with pytest.raises(ValueError, match=sentence):
        tiny_qwen.stream_together(view, {"few": few}, 2, "compact")


def test_other_positions_are_refused_with_those_there_are(model: Model, view: View) -> None:
    with pytest.raises(ValueError, match=r"'packed' positions\. Choose one of: compact, original"):
        model.answer(view, None, 2, "packed")
