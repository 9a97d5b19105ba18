"""What is asked: the file of JSON lines, its bad lines and missing pictures, and drawn scenes."""

from __future__ import annotations

import json
import ntpath
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from spare_demo.evaluation.sheets import Fields, Sheet, digest, draw_sheets, read_lines
from spare_demo.scenes.draw import draw
from spare_demo.scenes.world import rng_of


def refuse(sentence: str) -> None:
    raise ValueError(sentence)


def read(file: Path, images: Path, skip: Callable[[str], None] = refuse) -> list[Sheet]:
    """The sheets of a file whose fields have their usual names."""
    return read_lines(file, images, Fields(), None, skip)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 6), "red").save(folder / name)
    return folder


def write(images: Path, *lines: object) -> Path:
    file = images.parent / "questions.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return file


A = {"image": "a.png", "question": " What? ", "answer": "cat", "category": "ocr + spatial"}
B = {"image": "b.png", "question": "Which?", "answer": ["two", 2], "other": None}
C = {"image": "a.png", "question": "Where?", "choices": ["left", "right"], "answer": ["B", "Left"]}


def test_a_file_is_read_picture_by_picture(images: Path) -> None:
    sheets = read(write(images, A, B, "", C), images)
    assert [(s.set, s.picture, len(s.questions)) for s in sheets] == [
        ("data", "a.png", 2),
        ("data", "b.png", 1),
    ]
    cat, where = sheets[0].questions
    assert (cat.text, cat.answers, cat.category) == ("What?", ("cat",), "ocr + spatial")
    assert where.answers == ("right", "left")
    assert where.question == "Where?\nA. left\nB. right"
    assert sheets[1].questions[0].answers == ("two", "2")
    assert sheets[0].open().size == (8, 6)
    assert sheets[1].where == "b.png (line 2 of questions.jsonl)"


def test_a_whole_number_is_written_as_one(images: Path) -> None:
    line = {**A, "answer": [3.0, 2.5, -0.0], "category": 7.0}
    (asked,) = read(write(images, line), images)[0].questions
    assert (asked.answers, asked.category) == (("3", "2.5", "0"), "7")
    for category, text in ((0, "0"), (0.0, "0"), ("", ""), (None, "")):
        (asked,) = read(write(images, {**A, "category": category}), images)[0].questions
        assert asked.category == text


def test_the_questions_of_a_picture_stay_in_order_however_many_there_are(images: Path) -> None:
    lines = [{**(A, B)[number % 2], "question": str(number)} for number in range(2000)]
    for start, sheet in enumerate(read(write(images, *lines), images)):
        assert [q.text for q in sheet.questions] == [str(n) for n in range(start, 2000, 2)]


def test_one_picture_under_several_names_is_one(images: Path) -> None:
    (images / "linked").symlink_to(images)
    names = ["a.png", "./a.png", "x/../a.png", str(images / "a.png"), "linked/a.png"]
    sheets = read(write(images, *({**A, "image": name} for name in names)), images)
    assert [(s.picture, len(s.questions)) for s in sheets] == [("a.png", 4), ("linked/a.png", 1)]
    assert all(sheet.open().size == (8, 6) for sheet in sheets)


def test_a_picture_on_another_drive_is_outside(images: Path, monkeypatch) -> None:
    monkeypatch.setattr(os.path, "relpath", lambda *_: ntpath.relpath("D:\\a.png", "C:\\photos"))
    with pytest.raises(ValueError, match=r"is outside .*; name a folder above it with --images"):
        read(write(images, A), images)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"image": "a.png", ', "not JSON"),
        ('["a.png"]', "not a JSON object"),
        ({**A, "question": "  "}, '"question" must be a text'),
        ({**A, "image": None}, '"image" must be a text'),
        ({"image": "a.png", "question": "Q"}, '"answer" must be a text'),
        ({**A, "answer": float("nan")}, '"answer" must be a text'),
        ({**A, "answer": []}, "must not be an empty list"),
        ({**A, "answer": True}, '"answer" must be a text, such as "yes" or "true" in quotes'),
        ({**B, "answer": ["x", False]}, 'must be a text, such as "no" or "false" in quotes'),
        ({**A, "image": "../questions.jsonl"}, "; name a folder above it with --images"),
        ({**A, "image": __file__}, "; name a folder above it with --images"),
        ({**C, "choices": ["one"]}, "choices must be 2 to 26"),
        ({**C, "choices": ["red", "blue", "Red"]}, "choices must all differ"),
        ({**C, "answer": "C"}, "neither one of the choices nor its letter"),
        ({**C, "answer": "AB"}, "neither one of the choices nor its letter"),
        ({**A, "image": "a" * 5000}, "there is no picture aaa"),
        ({**A, "image": "gone.png"}, "there is no picture gone.png"),
        ({**A, "question": "Which\ud800"}, '"question" has half of a pair'),
        ({**A, "answer": ["cat", "\udcff"]}, '"answer" has half of a pair'),
        ("[" * 100_000, "too many brackets"),
        ('{"answer": ' + "1" * 5_000 + "}", "a number of too many digits"),
    ],
)
def test_a_bad_line_is_named_and_left_out_only_if_asked(
    images: Path, bad: object, says: str
) -> None:
    file = write(images, A, bad, B)
    with pytest.raises(ValueError, match=r"Line 2 of questions\.jsonl") as refused:
        read(file, images)
    assert says in str(refused.value)
    told: list[str] = []
    sheets = read(file, images, told.append)
    assert [s.picture for s in sheets] == ["a.png", "b.png"]
    assert told == [str(refused.value)]


@pytest.mark.parametrize(
    "text",
    [
        "image,question,answer\na.png,What is it?,a cat\n",
        f"\n[{json.dumps(A)},\n{json.dumps(A)}\n]",
    ],
    ids=["table", "list"],
)
def test_another_kind_is_refused_as_a_whole_and_not_by_a_line(images: Path, text: str) -> None:
    file = images.parent / "questions.csv"
    file.write_text(text)
    told: list[str] = []
    with pytest.raises(ValueError, match=r"questions\.csv has no usable .* JSON object per line"):
        read(file, images, told.append)
    assert told == []


def test_text_that_is_not_utf_8_and_a_file_without_questions(images: Path) -> None:
    file = images.parent / "latin.jsonl"
    file.write_bytes(json.dumps(A).encode() + b'\n{"image": "\xe9"}\n')
    with pytest.raises(ValueError, match=r"Line 2.*not UTF-8"):
        read(file, images)
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(A).encode())  # as Windows begins a file
    assert len(read(file, images)) == 1
    with pytest.raises(ValueError, match="no usable question"):
        read(write(images, ""), images)


def test_drawn_scenes_are_their_sets_own() -> None:
    sheets = list(draw_sheets("unseen-pairs", 9))
    assert sum(len(s.questions) for s in sheets) == 9
    first = sheets[0]
    assert first.scene is not None
    assert first.open().tobytes() == draw(first.scene).tobytes()
    assert rng_of("unseen-pairs", int(first.picture)) is not None
    for asked in first.questions:
        assert asked.category
        assert all(0 <= i < len(first.scene.things) for i in asked.things)


def test_the_fingerprint_follows_what_is_asked(images: Path) -> None:
    one, two = list(draw_sheets("held-out", 6)), list(draw_sheets("unseen-pairs", 6))
    assert digest(one) == digest(list(draw_sheets("held-out", 6)))
    other = read(write(images, A), images)
    another = read(write(images, {**A, "answer": "dog"}), images)
    third = read(write(images, {**A, "category": "ocr"}), images)
    plain = read(write(images, {**A, "category": ""}), images)
    assert len({digest(s) for s in (one, two, one + two, other, another, third, plain)}) == 7
