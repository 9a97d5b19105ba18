"""Methods inside the language model through the whole pipeline: compare, files, record, page."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.analysis.answer_shift import kl_curves
from spare_demo.analysis.cost import cost_rows, operations_text, tokens_text
from spare_demo.cli import compare as compare_command
from spare_demo.cli import main as program
from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.request import choose
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.measures import kl_divergence
from spare_demo.models import LlavaModel
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.pruners import PRUNERS, LayerPlan, LayerPruner
from spare_demo.pruners.plan import LayerSet
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import BLUE
from spare_demo.render.overlay import layer_overlay
from spare_demo.results.drawings import drawings, error_curve
from spare_demo.results.export import write_files
from spare_demo.results.io import read_result, write_result
from spare_demo.settings import Settings
from spare_demo.ui.api import Api
from spare_demo.ui.wire import comparison_data

QUESTION = "Which number is written on the small triangle?"
INSIDE = [name for name, method in PRUNERS.items() if isinstance(method, LayerPruner)]


@pytest.fixture(scope="module")
def result(deep_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(deep_model, photo, QUESTION, ("spare", *INSIDE), budget=9, max_new_tokens=3)


def test_both_kinds_stand_side_by_side(result: Result, deep_model: LlavaModel) -> None:
    assert list(result.answers) == ["unpruned", "spare", *INSIDE]
    assert list(result.selections) == ["spare"] and list(result.plans) == INSIDE
    assert result.inside == tuple(INSIDE)
    for label, plan in result.plans.items():
        answer = result.answers[label]
        assert answer.kept_per_layer == plan.per_layer
        again = deep_model.answer(
            result.view, PRUNERS[label].plan(result.view, 9), max_new_tokens=3
        )
        assert again.token_ids == answer.token_ids
    curves = result.reconstruction
    assert list(curves.errors) == ["spare"] and not curves.points
    assert set(result.weights) == {"spare"}


def test_a_budget_out_of_reach_says_which_are_not(
    deep_model: LlavaModel, photo: Image.Image
) -> None:
    with pytest.raises(ValueError, match=r"FastV cannot meet a budget of 2.*from 4 to 16"):
        compare(deep_model, photo, QUESTION, ("spare", "fastv"), budget=2)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("fastv", "Choose a budget from 6 to 16."),
        ("sparsevlm", "SparseVLM needs a language model of more than 3 layers, and this one has 3"),
    ],
)
def test_programs_and_the_command_line_are_told_the_same(
    tiny_model: LlavaModel,
    photo_file: str,
    tmp_path: Path,
    method: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Api(tiny_model, Settings(max_new_tokens=1))
    with pytest.raises(ValueError, match=re.escape(sentence)):
        api.compare(photo_file, QUESTION, "spare", method, 2)
    monkeypatch.setattr(compare_command, "load_model", lambda name, device, **_: tiny_model)
    argv = ["compare", photo_file, QUESTION, "--methods", method, "--budget", "2"]
    assert program.main([*argv, "--out", str(tmp_path / "out")]) != 0
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out" / "result.json").exists()


def test_a_ready_made_plan_stands_for_itself(result: Result, deep_model: LlavaModel) -> None:
    plan = PRUNERS["fastv"].plan(result.view, 9)
    exploration = explore(result.view, choose({"mine": plan, "spare": PRUNERS["spare"]}))
    assert exploration.plans(3) == ({"mine": plan}, {})
    assert list(exploration.selections(3)) == ["spare"]
    with pytest.raises(ValueError, match="in 4 layers"):
        explore(result.view, choose({"wrong": LayerPlan(plan.method, 16, 4, 9, ())}))


def test_the_record_lists_what_each_layer_kept(result: Result) -> None:
    written = json.loads(write_result(result))
    assert list(written["selections"]) == ["spare"]
    for label in INSIDE:
        schedule, plan = written["plans"][label], PRUNERS[label].plan(result.view, 9)
        assert schedule["per_layer"] == list(plan.per_layer)
        assert (schedule["average"], schedule["counted"]) == (plan.average, plan.counted)
        layers = written["answers"][label]["layer_sets"]
        assert [layer["layer"] for layer in layers] == [0, *(stop.layer for stop in plan.stops)]
        rows = [[] if layer["sources"] is None else layer["sources"]["rows"] for layer in layers]
        for shares in itertools.chain(*rows):
            assert sum(share for _, share in shares) == pytest.approx(1, abs=1e-4)
        counts = [
            len(layer["kept"]) + (0 if layer["grown"] else len(r))
            for layer, r in zip(layers, rows, strict=True)
        ]
        assert counts == [plan.enters, *(stop.keep + stop.merged for stop in plan.stops)]
    assert any(layer["sources"] for layer in written["answers"]["sparsevlm"]["layer_sets"])
    assert result.answers["dart"].average_visual_tokens == result.plans["dart"].average


def test_the_files_have_a_picture_for_each_stop(result: Result, tmp_path: Path) -> None:
    names = write_files(result, tmp_path)
    assert "kept-spare.png" in names and "difference.png" not in names
    for label, plan in result.plans.items():
        for stop in plan.stops:
            assert f"kept-{label}-from-layer-{stop.layer + 1}.png" in names
    assert all((tmp_path / name).stat().st_size for name in names)


def test_of_several_views_each_patch_is_marked_where_it_lies(
    tiny_next: LlavaNextModel, photo: Image.Image, tmp_path: Path
) -> None:
    found = compare(tiny_next, photo, QUESTION, ("fastv",), "70%", max_new_tokens=1)
    layer = found.plans["fastv"].stops[0].layer + 1
    assert f"kept-fastv-from-layer-{layer}.png" in write_files(found, tmp_path)
    canvas, chosen = Canvas(photo, found.view.grid), [3, 40]  # of the base view, of the tiles
    kept = LayerSet(1, torch.tensor(chosen))
    pixels = np.array(layer_overlay(canvas, kept, 1, 3, BLUE, "FastV").image)
    outline_entry = [
        token
        for token in range(found.view.grid.n)
        for x, y, *_ in [canvas.rectangle(token)]
        if tuple(pixels[y, x]) == BLUE
    ]
    assert outline_entry == chosen


def test_a_written_result_opens_again(result: Result) -> None:
    again = read_result(write_result(result)).result
    assert list(again.methods) == ["spare", *INSIDE]
    assert again.inside == tuple(INSIDE) and list(again.selections) == ["spare"]
    for label, plan in result.plans.items():
        assert again.plans[label].stops == plan.stops
        assert again.plans[label].per_layer == plan.per_layer
        for old, new in zip(
            result.answers[label].layer_sets, again.answers[label].layer_sets, strict=True
        ):
            assert old.layer == new.layer and torch.equal(old.kept, new.kept)
            assert (old.sources is None) == (new.sources is None)
            if old.sources is not None:
                torch.testing.assert_close(new.sources, old.sources)
    before = [(drawn.name, drawn.display.sentence) for drawn in drawings(result, ("kept",))]
    assert before == [(drawn.name, drawn.display.sentence) for drawn in drawings(again, ("kept",))]
    told = json.loads(write_result(result))
    told["methods"]["fastv"]["name"] = "slowv"
    with pytest.raises(ValueError, match=r"slowv.*not in this version"):
        read_result(json.dumps(told))


def test_costs_tell_average_and_last_layer(result: Result) -> None:
    rows = {row.label: row for row in cost_rows(result.answers)}
    assert tokens_text(rows["unpruned"]) == "16" and tokens_text(rows["spare"]) == "9"
    plan = result.plans["fastv"]
    assert rows["fastv"].average_visual_tokens == plan.average
    assert tokens_text(rows["fastv"]) == f"{plan.average:.1f} a layer, {plan.last} in the last"
    assert rows["fastv"].kv_cache_share < 1


def test_operations_and_cache_are_those_of_each_layer(
    result: Result, deep_model: LlavaModel
) -> None:
    text = deep_model.hf.config.text_config
    width, inner, kv = text.hidden_size, text.intermediate_size, text.num_key_value_heads
    narrow = width // text.num_attention_heads * kv
    matrices = 2 * width * width + 2 * width * narrow + 3 * width * inner
    for label, plan in result.plans.items():
        answer = result.answers[label]
        others = result.answers["unpruned"].prompt_tokens - 16
        lengths = [others + count for count in plan.per_layer]
        by_hand = sum(2 * t * matrices + 2 * t * t * width for t in lengths)
        by_hand += 2 * width * text.vocab_size
        assert answer.prefill_operations == by_hand
        assert answer.kv_cache_bytes == sum(2 * t * narrow * 4 for t in lengths)
        row = next(row for row in cost_rows(result.answers) if row.label == label)
        assert by_hand == row.prefill_operations < result.answers["unpruned"].prefill_operations
    again = read_result(write_result(result)).result
    assert cost_rows(again.answers) == cost_rows(result.answers)
    before = json.loads(write_result(result))  # a file from before operations were told
    for item in before["answers"].values():
        del item["prefill_operations"]
    (row, *_) = cost_rows(read_result(json.dumps(before)).result.answers)
    assert operations_text(row.prefill_operations) == "not known"


@pytest.fixture(scope="module")
def exploration(result: Result) -> Exploration:
    return explore(result.view, result.request.labelled)


def test_what_needs_a_set_leaves_them_out(exploration: Exploration) -> None:
    told = comparison_data(exploration)["methods"]
    assert told["fastv"]["inside"] and told["fastv"]["order"] is None
    assert not told["spare"]["inside"]


def test_kl_is_measured_where_a_schedule_meets_the_budget(
    result: Result, exploration: Exploration, deep_model: LlavaModel
) -> None:
    whole, view = result.answers["unpruned"], exploration.view
    *_, last = kl_curves(deep_model, exploration, whole, 8)
    assert last.budgets == (1, 2, 4, 8, 16) and list(last.series) == ["spare", *INSIDE]
    for label in result.plans:
        low, plan = PRUNERS[label].lowest(16, 6), PRUNERS[label].plan(view, 8)
        *first, middle, end = last.series[label]
        assert [kl is None for kl in first] == [k < low for k in (1, 2, 4)] and end == 0
        alone = deep_model.answer(view, plan, max_new_tokens=1)
        assert middle == float(kl_divergence(whole.first_logits, alone.first_logits))
    measured = dataclasses.replace(result, kl=last)
    again = read_result(write_result(measured)).result
    assert again.kl.series == last.series
    (drawn,) = drawings(measured, ("kl",))
    for sentence in (
        "k of FastV is the average over layers (its paper counts tokens after layer K only); below "
        "4 it has no schedule.",
        "k of PyramidDrop is the average over layers; below",
        "k of SparseVLM is counted as its paper counts: a layer counts as pruned once its output",
    ):
        assert sentence in drawn.display.sentence
    by_hand = explore(view, choose({"mine": PRUNERS["dart"].plan(view, 8)}))
    *_, points = kl_curves(deep_model, by_hand, whole, 8)
    assert points.points == {"mine": (8, last.series["dart"][3])} and not points.series


def test_the_error_curve_says_why_it_leaves_them_out(result: Result) -> None:
    (drawn,) = drawings(result, ("reconstruction",))
    for title in ("FastV", "DART"):
        assert f"{title} has no error of one set" in drawn.display.sentence
    first = {label: result.methods[label] for label in ("fastv", "spare")}
    chart = error_curve(result.reconstruction, first, result.titles, result.budget)
    lines = {trace.name: (trace.line.color, list(trace.y)) for trace in chart.figure.data}
    assert lines["SPARE"][0] == "rgb(213,94,0)"  # the second method's, whatever the first shows
    assert set(lines["FastV"][1]) == {None}


def test_a_layer_shows_kept_merged_and_dropped(result: Result) -> None:
    canvas = Canvas(result.view.photo, result.view.grid)
    sources = torch.zeros(1, result.visual_tokens)
    sources[0, [5, 7, 9]] = 1 / 3
    drawn = layer_overlay(canvas, LayerSet(2, torch.tensor([0, 5]), sources), 2, 6, BLUE, "It")
    assert "In layer 3 of 6 It still has 2 of 16 tokens" in drawn.sentence
    assert "1 row merged from 2 others" in drawn.sentence
    layer_set = LayerSet(2, torch.tensor([0, 5, 9]), sources)
    one = layer_overlay(canvas, layer_set, 2, 6, BLUE, "It").sentence
    assert one.endswith(", and 1 row merged from 1 other.")
    picture, plain = np.array(drawn.image), np.array(canvas.dim)

    def corner(token: int) -> tuple[slice, slice]:
        x0, y0, x1, y1 = canvas.rectangle(token)
        return slice(y0, y0 + (y1 - y0) // 2), slice((x0 + x1) // 2, x1)

    colour = np.array(BLUE)
    for token, marked in ((7, True), (9, True), (3, False), (12, False)):
        area = picture[corner(token)]
        assert bool((area == colour).all(axis=-1).any()) == marked
        if not marked:
            assert (area == plain[corner(token)]).all()
    x0, y0, x1, y1 = canvas.rectangle(5)
    middle = (slice((y0 + y1) // 2 - 2, (y0 + y1) // 2), slice((x0 + x1) // 2 - 2, (x0 + x1) // 2))
    assert (picture[middle] == np.array(canvas.image)[middle]).all()
    alone = LayerSet(0, torch.tensor([0]))
    assert "merged" not in layer_overlay(canvas, alone, 0, 6, BLUE, "It").sentence


def test_settings_of_a_method_reach_its_plan(result: Result) -> None:
    by_rank = replace(PRUNERS["fastv"], counting="rank")
    exploration = explore(result.view, {"by rank": by_rank})
    plan = exploration.plans(2)[0]["by rank"]
    assert plan.last == 2 and plan.counted == 2 and plan.average > 2
