"""The file of a comparison, written and read back, and lists of picks from elsewhere."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.models import LlavaModel
from spare_demo.results.record import read_pick_lists, record

QUESTION = "Which number is written on the small triangle?"
N = 16


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)


def test_the_record_is_json_and_can_be_read_back(result: Result) -> None:
    data = json.loads(json.dumps(record(result), allow_nan=False))
    assert data["model"]["name"] == "tiny-llava"
    assert data["model"]["revision"]
    assert (data["picture"]["width"], data["picture"]["height"]) == (90, 60)
    assert data["settings"]["budget"] == 5
    assert data["visual_tokens"] == N == len(data["relevance"])
    assert set(data["versions"]) == {
        "python",
        "torch",
        "transformers",
        "open_clip_torch",
        "pillow",
        "numpy",
        "plotly",
        "spare_demo",
    }
    for label, selection in result.selections.items():
        assert data["selections"][label]["order"] == selection.order.tolist()
        assert selection.gain is not None
        assert data["selections"][label]["gain"] == selection.gain.tolist()
    for label, answer in result.answers.items():
        assert data["answers"][label]["text"] == answer.text
        assert data["answers"][label]["kv_cache_bytes"] == answer.kv_cache_bytes
    back = read_pick_lists(json.dumps(data), "file")
    assert {label: picks.order.tolist() for label, picks in back.items()} == {
        label: selection.order.tolist() for label, selection in result.selections.items()
    }


def test_the_record_tells_no_path(result: Result, tiny_folder: object) -> None:
    assert str(tiny_folder) not in json.dumps(record(result))


def test_the_same_run_twice_gives_the_same_record(
    result: Result, tiny_model: LlavaModel, photo: Image.Image
) -> None:
    again = compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)

    def timeless(value: object) -> object:
        if isinstance(value, dict):
            return {
                k: timeless(v)
                for k, v in value.items()
                if not (k.endswith("_seconds") or k == "prefill_share")
            }
        return [timeless(v) for v in value] if isinstance(value, list) else value

    assert timeless(record(result)) == timeless(record(again))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("[1, 2, 1]", "1 is in the selection more than once"),
        ("[1, 16]", "Patch index 16 does not exist"),
        ("[-1, 2]", "-1 is negative"),
        ("[]", "empty"),
        ("[1.5]", "whole numbers"),
        ("[true]", "whole numbers"),
        ('["1"]', "whole numbers"),
        ('{"a": 1}', "whole numbers"),
        ("1, 2", "whole numbers"),
        ("[[1, 2]]", "whole numbers"),
        ("[" * 100_000, "whole numbers"),
        ("[null]", "whole numbers"),
        ("[99999999999999999999]", "whole numbers"),
    ],
)
def test_bad_picks_get_a_sentence(source: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        for selection in read_pick_lists(source, "mine").values():
            selection.check(N)


def test_a_file_of_picks_holds_one_list_or_several() -> None:
    assert read_pick_lists("[3, 0, 7]", "mine")["mine"].order.tolist() == [3, 0, 7]
    several = read_pick_lists('{"a": [2, 1], "b": [0]}', "mine")
    assert {label: s.order.tolist() for label, s in several.items()} == {"a": [2, 1], "b": [0]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("not json", "could not be read"),
        ("{}", "could not be read"),
        ("7", "could not be read"),
        ('{"unpruned": [1]}', "could not be read"),
        ('{"a": null}', "could not be read"),
        ('{"format": 99, "selections": {}}', "could not be read"),
        ('{"format": 1, "selections": {"a": {}}}', "could not be read"),
    ],
)
def test_a_bad_file_of_picks_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_pick_lists(text, "mine")
