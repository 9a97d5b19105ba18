"""Questions of a dataset: grouped by picture, and with nothing from outside the dataset."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from PIL import Image
from references import encoded

from spare_demo.evaluation import hub_data
from spare_demo.evaluation.hub_data import _picture_file, read_dataset
from spare_demo.evaluation.sheets import Fields, Sheet

needs_datasets = pytest.mark.skipif(
    find_spec("datasets") is None, reason='datasets is not installed: pip install ".[datasets]"'
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the hub's cache."""
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def png(colour: str) -> bytes:
    return encoded(Image.new("RGB", (8, 6), colour))


def asked(sheets: Sequence[Sheet]) -> list[tuple[list[str], Any]]:
    """The questions of each sheet, and the colour of its picture."""
    return [([q.text for q in s.questions], s.open().getpixel((0, 0))) for s in sheets]


RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of Parquet whose pictures are bytes: red, blue, and red again."""
    import datasets

    path = tmp_path / "with-bytes"
    path.mkdir()
    rows = {
        "photo": [{"bytes": png(colour), "path": "x.png"} for colour in ("red", "blue", "red")],
        "question": ["What?", "Which?", "Where?"],
        "answer": [["cat"], ["dog", "puppy"], ["right"]],
        "choices": [None, [], ["left", "right"]],
        "other": [1, 2, 3],
    }
    features = datasets.Features(
        photo=datasets.Image(),
        question=datasets.Value("string"),
        answer=datasets.List(datasets.Value("string")),
        choices=datasets.List(datasets.Value("string")),
        other=datasets.Value("int64"),
    )
    datasets.Dataset.from_dict(rows, features).to_parquet(path / "validation.parquet")
    return path


FIELDS = Fields(picture="photo")


def refuse(sentence: str) -> None:
    raise ValueError(sentence)


def read(
    source: str,
    config: str | None,
    fields: Fields,
    most: int | None = None,
    skip: Callable[[str], None] = refuse,
) -> list[Sheet]:
    """The sheets of a dataset; a bad row ends the reading unless it is skipped."""
    return read_dataset(source, config, fields, most, skip)


@needs_datasets
def test_rows_with_one_picture_are_one_sheet(folder: Path, home: Path) -> None:
    sheets = read(f"hf:{folder}:validation", None, FIELDS)
    assert asked(sheets) == [(["What?", "Where?"], RED), (["Which?"], BLUE)]
    assert [q.answers for s in sheets for q in s.questions] == [
        ("cat",),
        ("right",),
        ("dog", "puppy"),
    ]
    assert sheets[0].questions[1].choices == ("left", "right")
    assert sheets[1].where == f"{sheets[1].picture} (row 2 of {folder})"
    kept = home / "spare-demo" / "pictures"
    assert {f.name[:16] for f in kept.iterdir()} == {s.picture for s in sheets}
    again = read(f"hf:{folder}:validation", None, FIELDS)
    assert [s.picture for s in again] == [s.picture for s in sheets]
    assert len(list(kept.iterdir())) == 2


@needs_datasets
def test_an_answer_in_a_table_may_be_a_word_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(png("red"))
    lines = ["photo,question,answer", *(f"red.png,Which?,{word}" for word in ("None", "NA", "2"))]
    (tmp_path / "validation.csv").write_text("\n".join(lines))
    (sheet,) = read(f"hf:{tmp_path}:validation", None, FIELDS)
    assert [q.answers for q in sheet.questions] == [("None",), ("NA",), ("2",)]


@needs_datasets
def test_no_more_rows_are_read_than_asked_for(folder: Path) -> None:
    sheets = read(f"hf:{folder}:validation", None, FIELDS, most=2)
    assert asked(sheets) == [(["What?"], RED), (["Which?"], BLUE)]


@needs_datasets
def test_the_answer_of_a_class_label_is_its_name(tmp_path: Path) -> None:
    import datasets

    rows = {"image": [png("red")] * 3, "question": ["Red?", "Blue?", "?"], "answer": [1, 0, None]}
    features = datasets.Features(
        image=datasets.Value("binary"),
        question=datasets.Value("string"),
        answer=datasets.ClassLabel(names=["no", "yes"]),
    )
    datasets.Dataset.from_dict(rows, features).to_parquet(tmp_path / "test.parquet")
    bad: list[str] = []
    (sheet,) = read(f"hf:{tmp_path}:test", None, Fields(), None, bad.append)
    assert [q.answers for q in sheet.questions] == [("yes",), ("no",)]
    assert len(bad) == 1


@needs_datasets
@pytest.mark.parametrize(
    ("source", "fields", "says"),
    [
        ("hf:FOLDER:validation", Fields(), r"has no field image, only photo, .* --picture-field"),
        (
            "hf:FOLDER:validation",
            Fields(picture="photo", answer="truth"),
            r"no field truth.*--answer-field",
        ),
        ("hf:FOLDER:train", FIELDS, "it has no split train, only validation"),
        ("hf:FOLDER/gone:train", FIELDS, "cannot be read"),
        ("hf:owner/name:train", FIELDS, "owner/name cannot be read: .* Check the network"),
    ],
)
def test_what_a_dataset_lacks_is_a_sentence(
    folder: Path, source: str, fields: Fields, says: str
) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        read(source.replace("FOLDER", str(folder)), None, fields)
    assert str(refused.value).count("\n") == 0


@needs_datasets
def test_a_configuration_that_is_not_there(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be read: .*'small'"):
        read(f"hf:{folder}:validation", "small", FIELDS)


@needs_datasets
def test_a_bad_row_is_named_and_left_out_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.mkdir()
    (path / "a.png").write_bytes(png("red"))
    (tmp_path / "secret.png").write_bytes(png("blue"))
    rows = [
        {"image": "a.png", "question": "What?", "answer": "x"},
        {"image": "a.png", "question": "What?", "answer": None},
        {"image": "../secret.png", "question": "Which?", "answer": "x"},
        {"image": "gone.png", "question": "Which?", "answer": "x"},
        {"image": None, "question": "Which?", "answer": "x"},
        {"image": "https://example.org/a.png", "question": "Which?", "answer": "x"},
        {"image": str(path / "a.png"), "question": "Where?", "answer": "x"},
    ]
    (path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match=r'Row 2 of .*: "answer" must be a text'):
        read(f"hf:{path}:test", None, Fields())
    bad: list[str] = []
    sheets = read(f"hf:{path}:test", None, Fields(), None, bad.append)
    assert asked(sheets) == [(["What?", "Where?"], RED)]
    ends = [line.split(": ", 1)[1] for line in bad]
    assert ends == [
        '"answer" must be a text that is not empty.',
        "the picture ../secret.png is outside the dataset.",
        "there is no picture gone.png in the dataset.",
        '"image" holds no picture.',
        "there is no picture https://example.org/a.png in the dataset.",
    ]


@needs_datasets
def test_a_picture_of_an_archive_in_the_folder(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "archive"
    path.mkdir()
    for archive in (path / "photos.zip", tmp_path / "outside.zip"):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("a.png", png("blue"))
    row = {"image": "zip://a.png::photos.zip", "question": "What?", "answer": "x"}
    (path / "test.jsonl").write_text(json.dumps(row))
    assert asked(read(f"hf:{path}:test", None, Fields())) == [(["What?"], BLUE)]
    (path / "test.jsonl").write_text(json.dumps({**row, "image": "zip://a.png::../outside.zip"}))
    with pytest.raises(ValueError, match="outside the dataset"):
        read(f"hf:{path}:test", None, Fields())


@pytest.mark.parametrize("source", ["hf:owner/name", "hf:", "hf::train", "hf:owner/name:"])
def test_a_source_without_a_split(source: str) -> None:
    with pytest.raises(ValueError, match=r"names no split\. Give it as hf:OWNER/NAME:SPLIT"):
        read(source, None, Fields())


def test_without_datasets_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r'Install it: pip install "\.\[datasets\]"'):
        read("hf:owner/name:train", None, Fields())


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("images/a.png", "hf://datasets/owner/name/images/a.png"),
        ("hf://datasets/owner/name@abc/a.png", "hf://datasets/owner/name@abc/a.png"),
        (
            "https://huggingface.co/datasets/owner/name/resolve/main/b/a.png",
            "hf://datasets/owner/name@main/b/a.png",
        ),
        ("hf://datasets/owner/name/../other/a.png", None),
        ("hf://datasets/owner/names/a.png", None),
        ("hf://datasets/other/name/a.png", None),
        ("https://huggingface.co/datasets/owner/other/resolve/main/a.png", None),
        ("http://127.0.0.1/a.png", None),
        ("file:///etc/passwd", None),
        ("../../a.png", None),
    ],
)
def test_an_address_on_the_hub_is_inside_the_dataset(
    place: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "https://huggingface.co")
    assert hub_data._inside_hub(place, "owner/name") == address


@pytest.mark.parametrize("chain", ["file://{0}::", "file://{0}::zip://a.png::", "simplecache::"])
def test_no_chain_of_addresses_leads_out_of_the_dataset(tmp_path: Path, chain: str) -> None:
    (tmp_path / "secret.png").write_bytes(png("blue"))
    address = chain.format(tmp_path / "secret.png") + "a.png"
    for name in (str(tmp_path), "owner/name"):
        with pytest.raises(ValueError, match="is outside the dataset"):
            _picture_file(address, name, "image")
