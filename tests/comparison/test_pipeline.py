"""The one pipeline, on a tiny real LLaVA: 16 visual tokens, random weights."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from spare_demo import measures
from spare_demo.comparison.pipeline import compare, run
from spare_demo.comparison.request import Request, RequestOptions
from spare_demo.comparison.result import KlCurves, Result
from spare_demo.measures import merged_error
from spare_demo.models import LlavaModel, View, load_model
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.pruners import PRUNERS, LayerPruner
from spare_demo.pruners.random import Random
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection

QUESTION = "Which number is written on the small triangle?"
N = 16
BEFORE = tuple(name for name, method in PRUNERS.items() if not isinstance(method, LayerPruner))
MERGING = ("prumerge", "prumerge-plus", "visionzip", "trim")


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)


def test_compare_answers_with_all_tokens_and_with_each_selection(
    result: Result, tiny_model: LlavaModel
) -> None:
    assert list(result.answers) == ["unpruned", "spare", "cdpruner"]
    assert list(result.selections) == ["spare", "cdpruner"]
    assert result.answers["unpruned"].visual_tokens == N
    for label, selection in result.selections.items():
        alone = PRUNERS[label].select(result.view.tokens, 5)
        assert torch.equal(selection.order, alone.order)
        again = tiny_model.answer(result.view, alone, max_new_tokens=4)
        assert result.answers[label].token_ids == again.token_ids
        assert result.answers[label].visual_tokens == 5


def test_every_option_reaches_the_model_and_stands_in_the_result(
    tiny_next: LlavaNextModel, photo: Image.Image
) -> None:
    by = RelevanceOptions(layer=-1, guidance_text="words")
    given: Any = {"aspect": "any", "relevance": by, "together": True, "positions": "original"}
    result = compare(tiny_next, photo, QUESTION, ("spare", "random"), "20%", 3, seed=7, **given)
    view = tiny_next.encode(photo, QUESTION, "any", by, together=True)
    k = round(view.tokens.n / 5)
    assert result.settings == RequestOptions(budget=k, max_new_tokens=3, seed=7, **given)
    assert (result.model, result.revision) == (tiny_next.name, tiny_next.revision)
    assert (result.visual_tokens, result.prompt) == (view.tokens.n, view.prompt)
    assert torch.equal(result.relevance, view.relevance)
    own = result.view
    seconds = (result.encode_seconds, result.relevance_seconds)
    assert seconds == (own.picture.encode_seconds, own.relevance_seconds)
    assert result.titles["spare"] == "SPARE by words"
    for label, method in {"spare": PRUNERS["spare"], "random": Random(7)}.items():
        kept = method.select(view.tokens, k)
        assert torch.equal(result.selections[label].order, kept.order)
        alone = tiny_next.answer(view, kept, 3, "original")
        assert result.answers[label].token_ids == alone.token_ids
        torch.testing.assert_close(result.answers[label].first_logits, alone.first_logits)


def test_run_shows_picks_first_then_every_word_and_measures_last(
    result: Result, tiny_model: LlavaModel, photo: Image.Image
) -> None:
    request = Request(photo, QUESTION, budget=5, max_new_tokens=4)
    first, *_, last = results = list(run(tiny_model, request))
    assert list(first.selections) == ["spare", "cdpruner"] and not first.answers
    assert set(first.select_seconds) == {"spare", "cdpruner"}
    assert first.reconstruction is None and not first.leftover
    assert first.partial_text == dict.fromkeys(["unpruned", "spare", "cdpruner"], "")
    assert [one.finished for one in results] == [False] * (len(results) - 1) + [True]
    assert not last.partial_text
    for before, after in pairwise(results):
        for label, text in before.partial_text.items():
            known = after.partial_text.get(label)
            assert (after.answers[label].text if known is None else known).startswith(text)
    assert list(last.answers) == list(result.answers) == ["unpruned", "spare", "cdpruner"]
    for label, answer in last.answers.items():
        assert answer.token_ids == result.answers[label].token_ids
    assert last.reconstruction is not None and set(last.leftover) == {"spare", "cdpruner"}
    assert last.request.aspect == "pad" and last.budget == 5
    assert last.request.positions == "compact"
    assert set(last.first_kl) == {"spare", "cdpruner"}
    (picture_known, *_) = run(tiny_model, request, result.view)
    assert picture_known.view is result.view


def test_the_default_device_of_a_program_changes_nothing(
    tiny_folder: Path, photo: Image.Image, tmp_path: Path
) -> None:
    """Wherever the package is called, not only in `compare`."""

    def call_each() -> list[object]:
        model = load_model(str(tiny_folder), "cpu")
        request = Request(photo, QUESTION, ("spare", "visionzip", "fastv"), budget=12)
        *_, last = run(model, request)
        last.save(tmp_path)
        last.html(tmp_path / "page.html")
        view, kept = last.view, last.selections["visionzip"]
        features, order = view.tokens.features, [3, 1, 2]
        return [
            {label: answer.token_ids for label, answer in last.answers.items()},
            Result.load(tmp_path).errors,
            list(model.stream(view, kept, 3)),
            [short.token_ids for short in model.answer_many([(view, None), (view, kept)], 3)],
            model.score_many([(view, kept)], [3, 4])[0].log_probabilities,
            model.answer_text(QUESTION, 3).token_ids,
            kept.row_tokens.tolist(),
            measures.reconstruction_curve(features, order, [1, 2]).tolist(),
            measures.random_spread(features, [1, 2], [0]).mean.tolist(),
            measures.svd_bound(measures.singular_squares(features), [1, 2]).tolist(),
        ]

    expected = call_each()
    with torch.device("meta"):  # as torch.set_default_device("cuda") in a script
        assert call_each() == expected


def test_none_for_the_question_is_no_question(tiny_model: LlavaModel, photo: Image.Image) -> None:
    given = {"pruners": ["uniform"], "budget": 5, "max_new_tokens": 2}
    asked = compare(tiny_model, photo, None, **given)  # type: ignore[arg-type]
    blank = compare(tiny_model, photo, "", **given)  # type: ignore[arg-type]
    assert asked.question == blank.question == ""
    assert asked.answers["uniform"].token_ids == blank.answers["uniform"].token_ids


def test_one_vision_pass_serves_every_method(tiny_model: LlavaModel, photo: Image.Image) -> None:
    looks: list[None] = []
    tower = tiny_model.hf.model.vision_tower
    with tower.register_forward_hook(lambda *_: looks.append(None)):
        result = compare(tiny_model, photo, QUESTION, BEFORE, budget=3, max_new_tokens=1)
        second = tiny_model.ask(result.view.picture, "And now?", RelevanceOptions(-1, "tokens"))
        again = tiny_model.answer(second, Selection([1, 2]), 1)
    assert len(looks) == 1
    assert set(result.answers) == {"unpruned", *BEFORE} and again.token_ids


def test_methods_that_merge_answer_from_their_rows(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    result = compare(tiny_model, photo, QUESTION, MERGING, budget=7, max_new_tokens=3)
    features = result.view.tokens.features
    assert [note.split(" merges")[0] for note in result.notes] == [
        PRUNERS[label].title for label in MERGING
    ]
    for label in MERGING:
        selection = result.selections[label]
        assert result.answers[label].visual_tokens == selection.size == 7
        assert result.answers[label].kept_per_layer == (7, 7, 7)
        rows = selection.features
        assert rows is not None
        by_hand = tiny_model.answer(
            result.view, Selection([0], features=rows.clone()), max_new_tokens=3
        )
        assert result.answers[label].token_ids == by_hand.token_ids
        curves = result.reconstruction
        for k, error in zip(curves.budgets, curves.errors[label], strict=True):
            merged = PRUNERS[label].select(result.view.tokens, k).features
            assert merged is not None
            assert error == pytest.approx(merged_error(features, merged), abs=1e-6)


def test_compare_refuses_a_budget_before_any_answer(
    tiny_model: LlavaModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model, "stream_together", lambda *_: pytest.fail("it answers"))
    with pytest.raises(ValueError, match="Choose a whole number from 1 to 16"):
        compare(tiny_model, photo, QUESTION, budget=N + 1)
    with pytest.raises(ValueError, match=r"^FastV "):
        compare(tiny_model, photo, QUESTION, ("spare", "fastv"), budget=1)
    with pytest.raises(ValueError, match=r"^FastV .*\. FastV "):
        compare(tiny_model, photo, QUESTION, ("fastv", "fastv"), budget=1)


def test_a_schedule_by_hand_runs_as_it_is_and_is_that_of_its_method(
    tiny_model: LlavaModel, photo: Image.Image, view: View
) -> None:
    plan = PRUNERS["fastv"].plan(view, 12)
    result = compare(tiny_model, photo, QUESTION, {"mine": plan}, 8, 2)
    assert result.plans["mine"].per_layer == plan.per_layer
    assert result.answers["mine"].kept_per_layer == plan.per_layer
    assert result.methods["mine"].name == "fastv" and result.titles == {"mine": "mine"}
    assert not result.select_seconds


@pytest.mark.parametrize("model", ["built-in", None])
def test_what_is_no_loaded_model_is_refused(model: Any, photo: Image.Image) -> None:
    with pytest.raises(ValueError, match=r"this is \w+\. Pass what spare_demo\.load_model returns"):
        compare(model, photo, QUESTION)


def test_what_is_no_request_is_refused(tiny_model: LlavaModel, photo: Image.Image) -> None:
    with pytest.raises(ValueError, match=r"must be a Request, not Image\. .* or call compare\."):
        next(run(tiny_model, photo))  # type: ignore[arg-type]


def test_titles_tell_the_settings(tiny_model: LlavaModel, photo: Image.Image) -> None:
    changed = "divprune:metric=euclidean"
    first = compare(tiny_model, photo, QUESTION, (changed, "spare"), 5, 1)
    assert first.titles == {changed: "DivPrune (metric=euclidean)", "spare": "SPARE"}
    draws = compare(tiny_model, photo, "What?", ("random:seed=1", "random:seed=2"), 8)
    assert list(draws.titles.values()) == ["Random, seed=1", "Random, seed=2"]
    one, two = (kept.order.tolist() for kept in draws.selections.values())
    assert one != two
    own: Any = {"spare": PRUNERS["spare"], "random:a": Random(1), "random:b": Random(2)}
    alike = compare(tiny_model, photo, QUESTION, own | {"SPARE": Random(3)}, 5, 1)
    assert list(alike.titles.values()) == ["spare", "random:a", "random:b", "SPARE"]
    by_hand = {"mine": PRUNERS["spare"], "set": Selection([1, 2])}
    second = compare(tiny_model, photo, QUESTION, by_hand, 5, 1)
    assert second.titles == {"mine": "mine", "set": "set"}
    assert second.methods["mine"].title == "SPARE"


def test_another_process_gets_a_result_without_its_view(result: Result) -> None:
    sent = pickle.loads(pickle.dumps(result))
    assert sent.view is None and sent.finished
    assert {label: a.token_ids for label, a in sent.answers.items()} == {
        label: a.token_ids for label, a in result.answers.items()
    }
    assert torch.equal(sent.selections["spare"].order, result.selections["spare"].order)
    assert copy.copy(result).view is copy.deepcopy(result).view is result.view


def test_a_result_shows_its_question_and_answers_and_no_tensors(result: Result) -> None:
    shown = repr(result)
    assert QUESTION in shown and repr(result.answers["spare"].text) in shown
    assert "tensor(" not in shown


def test_a_new_label_changes_nothing_else(result: Result) -> None:
    again = result.relabel({"spare": "A", "cdpruner": "B"}).relabel({"A": "spare", "B": "cdpruner"})
    assert list(again.answers) == list(result.answers)
    points = {"spare": (5, 0.5)}
    spread = ((1.0, 0.0),) * 3
    kl = KlCurves((1, N), {"spare": (1.0, 0.0), "cdpruner": (2.0, 0.0)}, points, spread, 1.0)
    assert result.reconstruction is not None
    curves = dataclasses.replace(result.reconstruction, points=points)
    named = dataclasses.replace(result, kl=kl, reconstruction=curves).relabel({"spare": "A"})
    assert named.kl is not None and named.reconstruction is not None
    assert named.kl.series == {"A": (1.0, 0.0), "cdpruner": (2.0, 0.0)}
    assert named.kl.points == named.reconstruction.points == {"A": (5, 0.5)}
    assert list(named.answers) == ["unpruned", "A", "cdpruner"]
    assert named.reconstruction.errors["A"] == result.reconstruction.errors["spare"]
