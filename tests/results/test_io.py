"""result.json: everything that is drawn or told comes back, and other versions say so."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.comparison.pipeline import compare, finish
from spare_demo.comparison.result import Result
from spare_demo.images.geometry import MultiGrid
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS, LayerPlan
from spare_demo.pruners.by_hand import SetByHand
from spare_demo.pruners.plan import Stop
from spare_demo.pruners.random import Random
from spare_demo.results.drawings import PANELS, drawings
from spare_demo.results.io import (
    MOST_LISTS,
    PACKAGES,
    read_pick_lists,
    read_result,
    to_json,
    write_result,
)
from spare_demo.tokens import Selection

QUESTION = "Which number is written on the small triangle?"
N = 16


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    methods = {
        "spare": PRUNERS["spare"],
        "uniform": PRUNERS["uniform"],
        "visionzip": PRUNERS["visionzip"],
        "fastv": PRUNERS["fastv"],
        "by hand": Selection(order=[7, 2, 11]),
    }
    return compare(tiny_model, photo, QUESTION, methods, budget=8, max_new_tokens=3)


@pytest.fixture
def data(result: Result) -> Any:
    return json.loads(write_result(result))


@dataclasses.dataclass(frozen=True)
class Learned(Random):
    """A method of one's own that holds a tensor."""

    weights: torch.Tensor = dataclasses.field(default_factory=lambda: torch.ones(2))
    name = "learned"


def test_a_method_of_ones_own_that_holds_a_tensor_is_written(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    made = compare(tiny_model, photo, QUESTION, {"mine": Learned()}, 8, 3)
    assert made.methods["mine"].settings["weights"].tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"Put it into spare_demo\.PRUNERS"):
        made.request  # noqa: B018
    saved = read_result(write_result(made))
    assert saved.result.selections["mine"].order.tolist() == made.selections["mine"].order.tolist()
    assert "'learned' with these settings is not in this version" in " ".join(saved.notes)


def test_it_comes_back_as_it_was(result: Result) -> None:
    text = write_result(result)
    saved = read_result(text)
    assert saved.notes == () and saved.pictured
    assert write_result(saved.result) == text
    methods = saved.result.request.labelled
    assert methods["spare"] == PRUNERS["spare"] and methods["fastv"] == PRUNERS["fastv"]
    assert isinstance(methods["by hand"], SetByHand)
    assert methods["by hand"].picks.order.tolist() == [7, 2, 11]
    for ours, theirs in zip(drawings(saved.result, PANELS), drawings(result, PANELS), strict=True):
        assert ours.name == theirs.name and ours.display.sentence == theirs.display.sentence
        np.testing.assert_array_equal(
            np.asarray(ours.display.image), np.asarray(theirs.display.image)
        )


def test_a_plan_made_by_hand_is_asked_again_as_it_was(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    method = PRUNERS["fastv"]
    stops, entering = (Stop(1, 9), Stop(3, 2)), Selection(range(3, 15))
    plan = LayerPlan(method, N, tiny_model.layers, 8, stops, entering)
    assert plan.stops != method.plan(tiny_model.encode(photo, QUESTION), 8).stops
    made = compare(tiny_model, photo, QUESTION, {"mine": plan, "fastv": method}, 8, 3)
    assert [record.planned_by_hand for record in made.methods.values()] == [True, False]
    saved = read_result(write_result(made)).result
    for asked in (made.request, saved.request):
        assert asked.labelled["fastv"] == method
        again = finish(tiny_model, asked)
        assert again.plans["mine"].stops == stops
        assert again.plans["mine"].per_layer == made.plans["mine"].per_layer
        assert again.answers["mine"].text == made.answers["mine"].text
        for ours, theirs in zip(
            again.answers["mine"].layer_sets, made.answers["mine"].layer_sets, strict=True
        ):
            assert ours.kept.tolist() == theirs.kept.tolist()


def test_a_plan_by_hand_of_a_method_before_the_language_model_is_damage(data: Any) -> None:
    data["methods"]["spare"]["planned_by_hand"] = True
    with pytest.raises(ValueError, match="damaged"):
        read_result(json.dumps(data))


def test_the_page_of_a_strangers_curve_runs_nothing_of_theirs(data: Any, tmp_path: Path) -> None:
    data["methods"]["spare"]["title"] = "<img src=x onerror=alert(1)>"
    read_result(json.dumps(data)).result.save(tmp_path)
    words = (tmp_path / "reconstruction.html").read_text("utf-8").rpartition("</script>")[2]
    assert "&lt;img src=x" in words and "<img" not in words


def test_a_result_saves_and_loads_itself(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"result.json", "kept-spare.png", "comparison.png", "reconstruction.html"} <= names
    loaded = Result.load(tmp_path / "out" / "result.json")
    assert write_result(loaded) == write_result(result)
    assert write_result(Result.load(str(tmp_path / "out"))) == write_result(result)
    loaded.save(str(tmp_path / "again"))
    for name in names:
        again = (tmp_path / "again" / name).read_bytes()
        assert again == (tmp_path / "out" / name).read_bytes()
    marked = tmp_path / "marked.json"  # as editors on Windows save it
    marked.write_text(write_result(result), encoding="utf-8-sig")
    assert write_result(Result.load(marked)) == write_result(result)


@pytest.mark.usefixtures("half_by_default")
def test_the_shares_of_merged_rows_come_back_whatever_pytorch_makes_by_default(
    result: Result,
) -> None:
    again = read_result(write_result(result)).result.selections["visionzip"].sources
    assert again is not None and torch.equal(again, result.selections["visionzip"].sources)


def test_a_count_that_numpy_made_is_written_as_a_number(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    hand = {"mine": Selection([3, 1], informed=np.int64(1))}
    made = compare(tiny_model, photo, QUESTION, hand, 2, 1)
    assert read_result(write_result(made)).result.selections["mine"].informed == 1


def test_what_cannot_be_saved_or_loaded_is_said(result: Result, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Save the last result of run"):
        dataclasses.replace(result, reconstruction=None, answers={}).save(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"not a result\.json of this program"):
        Result.load(tmp_path / "other.json")


def test_a_result_from_a_file_holds_no_model_and_no_features(result: Result) -> None:
    saved = read_result(write_result(result)).result
    assert result.view is not None and saved.view is None
    assert saved.selections["visionzip"].features is None and saved.selections["visionzip"].merged
    assert saved.selections["visionzip"].size == result.selections["visionzip"].size == 8
    assert not len(saved.answers["spare"].first_logits)


def test_the_values_are_those_of_the_result(result: Result, data: Any) -> None:
    assert (data["model"], data["settings"]["budget"]) == ("tiny-llava", 8)
    assert data["revision"] and data["question"] == QUESTION
    assert (data["picture"]["width"], data["picture"]["height"]) == (90, 60)
    assert data["visual_tokens"] == N == len(data["relevance"])
    assert set(data["versions"]) == {"python", "spare_demo", *PACKAGES}
    for label, selection in result.selections.items():
        item = data["selections"][label]
        assert item["order"] == selection.order.tolist()
        assert item["gain"] == (None if selection.gain is None else selection.gain.tolist())
        assert "features" not in item
    for label, answer in result.answers.items():
        assert data["answers"][label]["text"] == answer.text
        assert data["answers"][label]["kv_cache_bytes"] == answer.kv_cache_bytes
        assert "first_logits" not in data["answers"][label]
    assert [row["label"] for row in data["cost"]] == list(result.answers)
    assert data["near_ties"]["spare"] == result.selections["spare"].near_ties is not None


def test_the_file_tells_no_path(result: Result, tiny_folder: object) -> None:
    assert str(tiny_folder) not in write_result(result)


def test_the_same_run_twice_gives_the_same_values(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    def timeless(value: object) -> object:
        if isinstance(value, dict):
            times = ("_seconds", "prefill_share")
            return {k: timeless(v) for k, v in value.items() if not k.endswith(times)}
        return [timeless(v) for v in value] if isinstance(value, list) else value

    one, two = (
        to_json(compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)) for _ in range(2)
    )
    assert timeless(one) == timeless(two)


def test_the_api_needs_no_picture(result: Result) -> None:
    data = to_json(result)
    assert "png" not in data["picture"]
    saved = read_result(json.dumps(data))
    assert not saved.pictured
    assert saved.result.photo.size == result.photo.size
    assert "so it is drawn grey" in saved.notes[0]


def test_without_a_question_there_is_no_relevance(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    silent = compare(tiny_model, photo, "", ("spare",), 3, 2)
    saved = read_result(write_result(silent)).result
    assert saved.relevance is None
    assert (saved.notes, saved.titles) == (silent.notes, silent.titles)


def test_other_versions_are_named(data: Any) -> None:
    data["versions"]["torch"] = "1.0"
    (note,) = read_result(json.dumps(data)).notes
    assert note.startswith("It was made with torch 1.0 (here ")
    data["format"] = 99
    data["of the future"] = {"unknown": 1}
    data["answers"]["spare"]["of the future"] = 3
    first, _ = read_result(json.dumps(data)).notes
    assert "a newer version of the program (format 99, here 3)" in first


def test_a_grid_of_several_views_comes_back(tiny_next: LlavaModel, photo: Image.Image) -> None:
    made = compare(tiny_next, photo, QUESTION, ("spare",), 8, 1)
    assert isinstance(made.grid, MultiGrid)
    again = read_result(write_result(made)).result
    assert again.grid == made.grid
    torch.testing.assert_close(again.grid.boxes, made.grid.boxes)


def test_a_method_of_another_version_is_shown_as_a_set(data: Any) -> None:
    data["methods"]["spare"]["name"] = "clairvoyance"
    saved = read_result(json.dumps(data))
    assert "The method 'clairvoyance'" in saved.notes[0]
    assert saved.result.request.labelled["spare"].by_hand
    assert saved.result.titles["spare"] == "spare"
    data["methods"]["fastv"]["name"] = "telepathy"
    with pytest.raises(ValueError, match=r"'telepathy', which acts inside the language model"):
        read_result(json.dumps(data))


def changed(data: Any, path: str, value: Any) -> str:
    data = copy.deepcopy(data)
    *way, last = path.split("/")
    place = data
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("visual_tokens", 17),
        ("visual_tokens", "many"),
        ("visual_tokens", float("inf")),
        ("settings", None),
        ("settings/seed", -1),
        ("selections/spare/order", [1, 1]),
        ("selections/spare/order", [99]),
        ("selections/spare/order", [1.5]),
        ("selections/spare/gain", [1.0]),
        ("selections/visionzip/sources", {"patches": 10**9, "rows": [[[0, 1]]]}),
        ("selections/visionzip/sources", {"patches": 16, "rows": [[[99, 1.0]]]}),
        ("selections/visionzip/sources", {"patches": 16, "rows": []}),
        ("selections/spare", 3),
        ("weights/spare", [1.0]),
        ("answers", {}),
        ("answers/spare", {"text": "x"}),
        ("answers/spare/text", 3),
        ("answers/spare/prefill_seconds", "x"),
        ("answers/spare/token_ids", [None]),
        ("answers/uniform/kept_per_layer", []),
        ("answers/uniform/kept_per_layer/0", 10**29),
        ("answers/fastv/layer_sets", []),
        ("answers/fastv/layer_sets/0/kept", ["a"]),
        ("answers/fastv/layer_sets/0/kept", [99]),
        ("answers/fastv/layer_sets/0/kept", [-1]),
        ("relevance", ["a"]),
        ("question", "\ud800"),
        ("reconstruction/random", {}),
        ("reconstruction", None),
        ("reconstruction/budgets", [1, 2, 3]),
        ("reconstruction/budgets/0", -1),
        ("reconstruction/budgets/1", 1),
        ("reconstruction/errors/spare", [0.5]),
        ("reconstruction/random/low", []),
        ("reconstruction/bound", [0.5]),
        ("reconstruction/bound/0", None),
        ("kl", {"budgets": [], "series": {}, "points": {}, "random": [[], [], []], "done": 0}),
        ("plans", {}),
        ("methods", {}),
        ("grid/rows", 10**9),
        ("grid/patch", 0),
        ("grid/scale", [0.0, 1.0]),
        ("grid/scale", [math.nan, 1.0]),
        ("grid/scale", [1.0, -1.0]),
        ("grid/photo_size", [1, 1]),
        ("grid/shift", [1e9, 0.0]),
        ("grid/shift", [1e6, 0.0]),
        ("grid/shift", [0.0, -1e6]),
        ("answers/spare/prefill_seconds", 1e308),
        ("answers/spare/prefill_seconds", "1"),
        ("encode_seconds", math.nan),
        ("reconstruction/random/high/0", "1e400"),
        ("reconstruction/errors/spare/0", -math.inf),
        ("relevance/0", "1e400"),
        ("weights/spare/0", math.nan),
        ("weights/spare/0", None),
        ("picture/png", "no base64!"),
        ("picture/png", base64.b64encode(b"no picture").decode()),
        ("picture/width", -1),
        ("picture/width", 10**9),
        ("grid", []),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(data: Any, path: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^This is not a result\.json"):
        read_result(changed(data, path, value))


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", "nonsense", "[" * 100_000])
def test_no_result_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a result\.json"):
        read_result(text)


@pytest.mark.parametrize(("number", "age"), [(4, "newer"), (2, "older"), (1, "older")])
def test_a_file_of_another_format_that_cannot_be_opened_says_so(
    data: Any, number: int, age: str
) -> None:
    data["format"] = number
    del data["settings"]
    with pytest.raises(ValueError, match=rf"{age} version.*cannot read it"):
        read_result(json.dumps(data))


def test_another_picture_is_refused(data: Any) -> None:
    del data["picture"]["png"]
    with pytest.raises(ValueError, match="not the one this result was made of"):
        read_result(json.dumps(data), Image.new("RGB", (90, 60)))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("[1, 2, 1]", "1 is in the selection more than once"),
        ("[1, 16]", "Patch index 16 does not exist"),
        ("[-1, 2]", "-1 is negative"),
        ("[]", "empty"),
        *((text, "whole numbers") for text in ("[1.5]", "[true]", '["1"]', '{"a": 1}', "1, 2")),
        *((text, "whole numbers") for text in ("[[1, 2]]", "[" * 100_000, "[null]", f"[{10**20}]")),
    ],
)
def test_bad_picks_get_a_sentence(source: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        for selection in read_pick_lists(source, "mine").values():
            selection.check(N)


def test_a_file_of_picks_holds_one_list_or_several_or_is_a_result(result: Result) -> None:
    assert read_pick_lists("[3, 0, 7]", "mine")["mine"].order.tolist() == [3, 0, 7]
    several = read_pick_lists('{"a": [2, 1], "b": [0]}', "mine")
    assert {label: s.order.tolist() for label, s in several.items()} == {"a": [2, 1], "b": [0]}
    back = read_pick_lists(write_result(result), "file")
    assert {label: picks.order.tolist() for label, picks in back.items()} == {
        f"{label} (unmerged)" if selection.merged else label: selection.order.tolist()
        for label, selection in result.selections.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        *("not json", "{}", "7", '{"unpruned": [1]}', '{"a": null}'),
        '{"format": 99, "selections": {}}',
        '{"format": 1, "selections": {"a": {}}}',
    ],
)
def test_a_bad_file_of_picks_gets_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="could not be read"):
        read_pick_lists(text, "mine")


def test_more_pick_lists_than_can_be_compared_are_refused() -> None:
    lists = {str(number): [number] for number in range(MOST_LISTS)}
    assert len(read_pick_lists(json.dumps(lists), "mine")) == MOST_LISTS
    with pytest.raises(ValueError, match=f"These are {MOST_LISTS + 1} lists of patches; at most"):
        read_pick_lists(json.dumps(lists | {"more": [1]}), "mine")
