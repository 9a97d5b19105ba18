"""result.json read back: everything that is drawn or told comes back; other versions say so."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.images.geometry import tiled
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.results.export import result_text
from spare_demo.results.record import record
from spare_demo.results.record_parts import grid_of
from spare_demo.results.reopen import reopen
from spare_demo.tokens import Selection


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    methods = {
        "spare": PRUNERS["spare"],
        "uniform": PRUNERS["uniform"],
        "by hand": Selection(order=[7, 2, 11]),
    }
    return compare(tiny_model, photo, "Which number?", methods, budget=5, max_new_tokens=3)


@pytest.fixture
def data(result: Result) -> Any:
    return json.loads(result_text(result))


def test_it_comes_back_as_it_was(result: Result) -> None:
    text = result_text(result)
    opened = reopen(text)
    assert opened.notes == ()
    assert opened.pictured
    assert result_text(opened.comparison) == text
    assert opened.comparison.request.labelled["spare"] == PRUNERS["spare"]
    by_hand = opened.comparison.request.labelled["by hand"]
    assert isinstance(by_hand, Selection)
    assert by_hand.order.tolist() == [7, 2, 11]


def test_the_picture_comes_back_pixel_by_pixel(result: Result, photo: Image.Image) -> None:
    found = reopen(result_text(result)).comparison.view.photo
    np.testing.assert_array_equal(np.asarray(found), np.asarray(photo))


def test_the_api_needs_no_picture(result: Result) -> None:
    told = record(result)
    assert "png" not in told["picture"]
    opened = reopen(json.dumps(told))
    assert not opened.pictured
    assert opened.comparison.view.photo.size == result.view.photo.size
    assert "grey stands in its place" in opened.notes[0]


def test_without_a_question_there_is_no_relevance(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    silent = compare(tiny_model, photo, "", ("spare",), 3, 2)
    opened = reopen(result_text(silent)).comparison
    assert opened.exploration.view.relevance is None
    assert opened.exploration.notes == silent.exploration.notes
    assert opened.exploration.titles == silent.exploration.titles


def test_other_versions_are_named(data: Any) -> None:
    data["versions"]["torch"] = "1.0"
    (note,) = reopen(json.dumps(data)).notes
    assert note.startswith("It was made with torch 1.0 (here ")
    data["format"] = 99
    data["of the future"] = {"unknown": 1}
    data["answers"]["spare"]["of the future"] = 3
    first, _ = reopen(json.dumps(data)).notes
    assert "a newer version of the program (format 99, here 2)" in first


def test_the_first_format_is_still_read(data: Any, photo: Image.Image, result: Result) -> None:
    data["format"] = 1
    data["grid"] = {"rows": 4, "columns": 4}
    for name in ("views", "place_of_token"):
        del data[name]
    del data["picture"]["png"]
    for item in data["selections"].values():
        del item["leftover"]
    for item in data["answers"].values():
        del item["log_probabilities"], item["newline_tokens"]
    opened = reopen(json.dumps(data), photo)
    assert "an older version of the program (format 1, here 2)" in opened.notes[0]
    torch.testing.assert_close(opened.comparison.view.grid.boxes, result.view.grid.boxes)
    assert opened.comparison.leftover == dict.fromkeys(opened.comparison.selections)
    assert opened.comparison.answers["spare"].text == result.answers["spare"].text


def test_a_method_of_another_version_is_shown_as_a_set(data: Any) -> None:
    data["selections"]["spare"]["method"] = "clairvoyance"
    opened = reopen(json.dumps(data))
    assert "The method 'clairvoyance'" in opened.notes[0]
    assert isinstance(opened.comparison.request.labelled["spare"], Selection)
    assert opened.comparison.exploration.titles["spare"] == "spare"


def test_tiles_come_back(photo: Image.Image) -> None:
    grid = tiled(photo.size, (112, 56), 56, 14, True)
    views = [
        {
            "first_token": start,
            "rows": part.rows,
            "columns": part.cols,
            "patch": part.patch,
            "scale": list(part.scale),
            "shift": list(part.shift),
        }
        for start, part in zip(grid.starts, grid.parts, strict=True)
    ]
    assert grid_of({"views": views, "place_of_token": list(grid.place)}, photo) == grid


def changed(data: Any, path: str, value: Any) -> str:
    data = copy.deepcopy(data)
    *way, last = path.split("/")
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("visual_tokens", 17),
        ("visual_tokens", "many"),
        ("visual_tokens", float("inf")),
        ("settings", None),
        ("selections/spare/order", [1, 1]),
        ("selections/spare/order", [99]),
        ("selections/spare/weight", [1.0]),
        ("selections/spare", 3),
        ("answers", {}),
        ("answers/spare", {"text": "x"}),
        ("answers/spare/text", 3),
        ("answers/spare/prefill_seconds", "x"),
        ("answers/spare/token_ids", [None]),
        ("answers/uniform/kept_per_layer", []),
        ("relevance", ["a"]),
        ("reconstruction/random", {}),
        ("picture/png", "no base64!"),
        ("picture/png", base64.b64encode(b"no picture").decode()),
        ("picture/width", -1),
        ("views", []),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(data: Any, path: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^(This is no result\.json|The picture is not)"):
        reopen(changed(data, path, value))


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", "nonsense", "[" * 100_000])
def test_no_result_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no result\.json"):
        reopen(text)


def test_a_newer_file_that_cannot_be_opened_says_so(data: Any) -> None:
    data["format"] = 3
    del data["settings"]
    with pytest.raises(ValueError, match=r"newer version.*cannot read it"):
        reopen(json.dumps(data))


def test_another_picture_is_refused(data: Any) -> None:
    del data["picture"]["png"]
    with pytest.raises(ValueError, match="not the one this result was made of"):
        reopen(json.dumps(data), Image.new("RGB", (90, 60)))
