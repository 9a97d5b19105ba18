"""What pruning changes: forced words, KL, first differing words, one question against another."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import references
import torch
from hypothesis import given
from hypothesis import strategies as st

from spare_demo.analysis.answer_shift import (
    KL_SEEDS,
    compare_questions,
    first_difference,
    first_token_kl,
    kl_curves,
    measure_change,
    word_maps,
)
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.models import Answer, LlavaModel, View
from spare_demo.pruners.random import Random
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection


@pytest.fixture(scope="module")
def whole(tiny_model: LlavaModel, view: View) -> Answer:
    return tiny_model.answer(view, None, 5)


@pytest.fixture(scope="module")
def exploration(view: View) -> Exploration:
    return explore(view, choose(("spare", "uniform"))).with_set("mine", Selection(order=[7, 2]))


def one_pass(model: LlavaModel, view: View, kept: list[int], ids: list[int]) -> np.ndarray:
    """(t, vocabulary) log-probabilities by a single pass over prompt and words, in float64."""
    embed = model.hf.get_input_embeddings()
    place = (view.input_ids[0] == model.hf.config.image_token_id).nonzero().flatten()
    parts = [
        embed(view.input_ids[0, : int(place[0])]),
        view.tokens.features[kept],
        embed(view.input_ids[0, int(place[-1]) + 1 :]),
        embed(torch.tensor(ids[:-1], dtype=torch.long)),
    ]
    with torch.no_grad():
        logits = model.hf(inputs_embeds=torch.cat(parts)[None]).logits[0, -len(ids) :]
    raw = logits.double().numpy()
    return raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("kept", [list(range(16)), [3, 8, 11]])
def test_given_words_are_scored_as_one_pass_scores_them(
    tiny_model: LlavaModel, view: View, kept: list[int]
) -> None:
    ids = [40, 41, 300, 5]
    forced = tiny_model.score(view, Selection(order=kept), ids)
    assert forced.token_ids == tuple(ids)
    expected = one_pass(tiny_model, view, kept, ids)[range(4), ids]
    np.testing.assert_allclose(forced.log_probabilities, expected, atol=1e-4)
    assert forced.text == tiny_model.tokenizer.decode(ids, skip_special_tokens=True).strip()


def test_the_words_an_answer_chose_are_scored_as_it_wrote_them(
    tiny_model: LlavaModel, view: View, whole: Answer
) -> None:
    forced = tiny_model.score(view, None, whole.token_ids)
    assert forced.log_probabilities == whole.log_probabilities
    assert forced.token_ids == whole.token_ids
    assert len(whole.log_probabilities) == len(whole.token_ids)


def test_a_token_that_ends_an_answer_may_be_given_at_its_end(
    tiny_model: LlavaModel, view: View
) -> None:
    end = tiny_model.hf.generation_config.eos_token_id
    assert isinstance(end, int)
    forced = tiny_model.score(view, None, [40, end])
    assert forced.token_ids == (40, end)
    assert forced.ended == "end"


@pytest.mark.parametrize("token_ids", ["blue", [], None, [1.0], [-1], [10**9]])
def test_what_is_no_token_of_the_model_is_refused(
    tiny_model: LlavaModel, view: View, token_ids: Any
) -> None:
    scored = tiny_model.score(view, None, torch.tensor([40, 5]))  # type: ignore[arg-type]
    assert all(type(token) is int for token in scored.token_ids)
    for score in (
        lambda: tiny_model.score(view, None, token_ids),
        lambda: tiny_model.score_many([(view, None)], token_ids),
    ):
        with pytest.raises(ValueError, match="token_ids must be at least one whole number from 0"):
            score()
    if token_ids:  # at once, not at the first piece
        with pytest.raises(ValueError, match="token_ids must be at least one"):
            tiny_model.stream(view, None, 3, token_ids)


def test_the_change_of_an_answer(tiny_model: LlavaModel, view: View, whole: Answer) -> None:
    kept = [1, 6, 9]
    found = measure_change(tiny_model, view, Selection(order=kept), whole)
    ids = list(whole.token_ids)
    q = one_pass(tiny_model, view, kept, ids)
    p = one_pass(tiny_model, view, list(range(16)), ids)
    assert found.kl == pytest.approx((np.exp(p[0]) * (p[0] - q[0])).sum(), abs=1e-4)
    count = len(found.words)
    assert count == len(ids) - (whole.ended == "end")
    rows = range(count)
    np.testing.assert_allclose(found.pruned, np.exp(q)[rows, ids[:count]], atol=1e-5)
    np.testing.assert_allclose(found.whole, np.exp(p)[rows, ids[:count]], atol=1e-5)
    assert found.probability == pytest.approx(np.exp(q[rows, ids[:count]].sum()), rel=1e-3)
    assert found.whole_probability == pytest.approx(np.exp(p[rows, ids[:count]].sum()), rel=1e-3)
    assert "".join(found.words).strip() == whole.text
    ended = dataclasses.replace(whole, ended="end")  # by the last token, which is then no word
    shorter = measure_change(tiny_model, view, Selection(order=kept), ended)
    assert (shorter.words, shorter.whole) == (found.words[:-1], found.whole[:-1])
    assert shorter.pruned == found.pruned[:-1]
    json.dumps(dataclasses.asdict(found), allow_nan=False)


def test_changes_and_curves_are_measured_at_the_positions_named(
    tiny_model: LlavaModel, view: View, whole: Answer
) -> None:
    exploration = explore(view, choose(["spare"]))
    kept = exploration.picks["spare"].prefix(4)
    forced = tiny_model.score(view, kept, whole.token_ids, "original")
    kl = first_token_kl(whole, forced)
    assert kl != pytest.approx(measure_change(tiny_model, view, kept, whole).kl, rel=1e-3)
    assert measure_change(tiny_model, view, kept, whole, "original").kl == pytest.approx(kl)
    *_, curves = kl_curves(tiny_model, exploration, whole, 4, "original")
    assert curves.series["spare"][curves.budgets.index(4)] == pytest.approx(kl, abs=1e-5)


def test_with_every_token_kept_nothing_changes(
    tiny_model: LlavaModel, view: View, whole: Answer
) -> None:
    found = measure_change(tiny_model, view, Selection(order=list(reversed(range(16)))), whole)
    assert found.kl == 0
    assert found.pruned == found.whole


def test_an_answer_without_a_token_has_no_change(
    tiny_model: LlavaModel, view: View, whole: Answer
) -> None:
    none = dataclasses.replace(whole, token_ids=())
    assert measure_change(tiny_model, view, Selection(order=[1]), none) is None


def test_kl_against_k(tiny_model: LlavaModel, exploration: Exploration, whole: Answer) -> None:
    view, steps = exploration.view, []
    for curves in kl_curves(tiny_model, exploration, whole, 6):
        steps.append(curves)
    last, budgets = steps[-1], (1, 2, 4, 6, 8)
    assert last.budgets == (*budgets, 16)
    assert [step.budgets for step in steps] == [last.budgets[:m] for m in range(1, 7)]
    assert [step.done for step in steps] == [m / 6 for m in range(1, 7)]
    assert set(last.series) == {"spare", "uniform"}
    for label, curve in last.series.items():
        assert curve[-1] == 0
        for k, kl in zip(last.budgets[:-1], curve, strict=False):
            picks = exploration.selections(k)[label]
            expected = first_token_kl(whole, tiny_model.answer(view, picks, 1))
            assert kl == expected
            assert kl > 0
    answer = tiny_model.answer(view, Selection(order=[7, 2]), 1)
    assert last.points == {"mine": (2, first_token_kl(whole, answer))}
    draws = np.array(
        [
            [
                first_token_kl(whole, tiny_model.answer(view, Random(s).select(view.tokens, k), 1))
                for k in budgets
            ]
            for s in KL_SEEDS
        ]
    )
    mean, low, high = (np.array(part) for part in last.random)
    np.testing.assert_allclose(mean[:5], draws.mean(axis=0))
    np.testing.assert_array_equal(low[:5], draws.min(axis=0))
    np.testing.assert_array_equal(high[:5], draws.max(axis=0))
    assert (mean[5], low[5], high[5]) == (0, 0, 0)


def test_merged_rows_are_not_the_unpruned_prompt_at_any_budget(
    tiny_model: LlavaModel, view: View, whole: Answer
) -> None:
    exploration = explore(view, choose(("trim", "spare")))
    *_, last = kl_curves(tiny_model, exploration, whole, 6)
    rows = exploration.selections(16)["trim"]
    assert last.series["trim"][-1] == first_token_kl(whole, tiny_model.answer(view, rows, 1)) > 0
    assert last.series["spare"][-1] == 0


@pytest.mark.parametrize(
    ("a", "b", "word", "spans"),
    [
        ("7", "1", 0, ((0, 1), (0, 1))),
        ("the blue star", "the  red star", 1, ((4, 8), (5, 8))),
        ("a red star", "a red", 2, ((6, 10), (5, 5))),
        ("", "yes", 0, ((0, 0), (0, 3))),
    ],
)
def test_the_first_differing_word(
    a: str, b: str, word: int, spans: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    found = first_difference(a, b)
    assert (found.word, (found.a, found.b)) == (word, spans)


@given(st.text(max_size=20), st.text(max_size=20))
def test_answers_differ_where_their_words_do(a: str, b: str) -> None:
    found = first_difference(a, b)
    assert (found is None) == (a.split() == b.split())
    if found:
        assert a.split()[: found.word] == b.split()[: found.word]
        assert a[slice(*found.a)] != b[slice(*found.b)]
        mirrored = first_difference(b, a)
        assert (mirrored.a, mirrored.b) == (found.b, found.a)


def test_question_against_question(tiny_model: LlavaModel, view: View) -> None:
    other = tiny_model.ask(view.picture, "How many stars are there?")
    shift = compare_questions(view, other)
    np.testing.assert_allclose(shift.relevance, other.relevance - view.relevance)
    expected = np.corrcoef(view.relevance.numpy(), other.relevance.numpy())[0, 1]
    assert shift.correlation == pytest.approx(expected)

    same = compare_questions(view, view)
    assert not same.relevance.any()
    assert same.correlation == pytest.approx(1)
    silent = compare_questions(view, tiny_model.ask(view.picture, ""))
    assert (silent.relevance, silent.correlation) == (None, None)


def test_word_maps_are_the_cosines_of_the_words(tiny_model: LlavaModel, view: View) -> None:
    words = tiny_model.ask(view.picture, view.question, RelevanceOptions(text="tokens"))
    names, maps = word_maps(words)
    assert names == words.text_words
    assert maps.shape == (16, len(names))
    np.testing.assert_allclose(maps, references.token_cosines(words.tokens), atol=1e-12)
    with pytest.raises(ValueError, match="no relevance of single words"):
        word_maps(view)
