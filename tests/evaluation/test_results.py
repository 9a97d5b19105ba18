"""The folder of results: only ever added to, never mixed, whole after whatever cut a run off."""

from __future__ import annotations

import dataclasses
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from spare_demo.evaluation.records import Place, Row, Skipped, csv_text
from spare_demo.evaluation.results import FORMAT, Results, has_results, load
from spare_demo.pruners import PRUNERS

SETTINGS = {"budgets": (16, 32), "model": {"name": "m"}}
NASTY = 'é,\n\r\n\r\x00"'
ROW = Row("s", "p1", 0, "a?", "x | y", NASTY, True, "ocr", "spare", 16, 0.25, math.nan)
PLACE = Place("s", "p1", 0, -2, 0.1, math.nan, -0.2, 0.5, 0.75)
QUESTIONS = {("s", "p1"): 2, ("s", "p2"): 2}


def rows_of(picture: str) -> list[Row]:
    first = replace(ROW, picture=picture)
    return [first, replace(first, number=1, right=False, error=0.5, budget="12.5%")]


def places_of(picture: str) -> list[Place]:
    return [replace(PLACE, picture=picture)]


def write(folder: Path, **settings: object) -> None:
    """A folder with the rows of one picture."""
    with Results(folder, SETTINGS | settings, QUESTIONS, 1) as results:
        results.add(rows_of("p1"))


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    with Results(tmp_path / "new" / "run", SETTINGS, QUESTIONS, 1) as results:
        assert results.done == set()
        results.add(rows_of("p1"), places_of("p1"))
    with Results(tmp_path / "new" / "run", SETTINGS, QUESTIONS, 1) as results:
        assert results.done == {("s", "p1")}
        assert repr(results.rows) == repr(rows_of("p1"))  # NaN is not equal to itself
        before = (results.folder / "results.csv").read_bytes().decode()
        results.add(rows_of("p2"))
    after = (tmp_path / "new" / "run" / "results.csv").read_bytes().decode()
    assert after.startswith(before)
    settings, rows, places = load(tmp_path / "new" / "run")
    assert settings["budgets"] == [16, 32]
    assert repr((rows, places)) == repr((rows_of("p1") + rows_of("p2"), places_of("p1")))
    assert csv_text(rows) == after


def test_a_cell_may_be_as_long_as_a_document(tmp_path: Path) -> None:
    rows = [replace(row, truth="x" * 200_000) for row in rows_of("p1")]
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        results.add(rows)
    assert repr(load(tmp_path)[1]) == repr(rows)
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        assert results.done == {("s", "p1")}


@pytest.mark.parametrize("keep", [0.05, 0.4, 0.6, 0.8, 0.97])
def test_what_a_cut_left_is_begun_anew(tmp_path: Path, keep: float) -> None:
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        results.add(rows_of("p1"), places_of("p1"))
        file = tmp_path / "results.csv"
        whole = file.read_bytes()
        results.add(rows_of("p2"), places_of("p2"))
    block = file.read_bytes()[len(whole) :]
    file.write_bytes(whole + block[: int(keep * len(block))])
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        assert results.done == {("s", "p1")}
        assert file.read_bytes() == whole
        assert repr(results.places) == repr(places_of("p1"))
        results.add(rows_of("p2"), places_of("p2"))
    assert file.read_bytes() == whole + block
    assert repr(load(tmp_path)[2]) == repr(places_of("p1") + places_of("p2"))


def test_a_folder_is_read_in_little_more_memory_than_its_size(tmp_path: Path) -> None:
    question = replace(ROW, question="What is on the table?", prediction="a lamp")
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        results.add([replace(question, number=i // 20) for i in range(4000)])
    tracemalloc.start()
    rows = load(tmp_path)[1]
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = (tmp_path / "results.csv").stat().st_size
    assert len(rows) == 4000
    assert held < 4 * size and most < 6 * size


def test_a_file_that_another_program_wrote_again_is_whole(tmp_path: Path) -> None:
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        results.add([replace(row, prediction="é") for row in rows_of("p1")])
    file = tmp_path / "results.csv"
    before, rows = file.read_bytes(), load(tmp_path)[1]
    for again in (before.replace(b"\r\n", b"\n"), b"\xef\xbb\xbf" + before):  # pandas, Excel
        file.write_bytes(again)
        assert repr(load(tmp_path)[1]) == repr(rows)
        with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
            assert repr(results.rows) == repr(rows)
        assert file.read_bytes() == again


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b",nan", b",", 2),
        (b",", b";", 1),
        (b",1,ocr", b",True,ocr", 2),
        (b",1,ocr", b",2,ocr", 2),
        (b"s,p1,0", b'"s,p1,0', 2),
    ],
)
def test_lines_that_another_program_spoilt_are_refused_and_stay(
    tmp_path: Path, old: bytes, new: bytes, line: int
) -> None:
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        results.add([replace(row, prediction="a") for row in rows_of("p1")])
    file = tmp_path / "results.csv"
    spoilt = file.read_bytes().replace(old, new)
    file.write_bytes(spoilt)
    sentence = f"Line {line} of .*results.csv is not as evaluate writes it"
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        Results(tmp_path, SETTINGS, QUESTIONS, 1)
    assert file.read_bytes() == spoilt


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    write(tmp_path)
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"other settings \(budgets\)"):
        Results(tmp_path, {**SETTINGS, "budgets": (16,)}, QUESTIONS, 1)
    with pytest.raises(ValueError, match="more"):
        Results(tmp_path, {**SETTINGS, "more": 1}, QUESTIONS, 1)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


def test_settings_without_results_give_way_to_others(tmp_path: Path) -> None:
    with Results(tmp_path, SETTINGS, QUESTIONS, 1):
        pass  # refused before its first picture
    (tmp_path / "relevance.csv").write_bytes(csv_text(places_of("p1"), Place).encode())
    with Results(tmp_path, {**SETTINGS, "budgets": (64,)}, QUESTIONS, 1) as results:
        assert results.places == []
        results.add(rows_of("p1"))
    assert load(tmp_path)[0]["budgets"] == [64]
    assert load(tmp_path)[2] == []
    with pytest.raises(ValueError, match=r"other settings \(budgets\)"):
        Results(tmp_path, SETTINGS, QUESTIONS, 1)


def test_the_settings_of_another_program_stay(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    with pytest.raises(ValueError, match="other settings"):
        Results(tmp_path, SETTINGS, QUESTIONS, 1)
    assert (tmp_path / "settings.json").read_text() == '{"theme": "dark"}'


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("mine")
    with pytest.raises(ValueError, match="Choose another folder"):
        Results(tmp_path, SETTINGS, QUESTIONS, 1)
    assert (tmp_path / "results.csv").read_text() == "mine"
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        Results(tmp_path, SETTINGS, QUESTIONS, 1)
    with pytest.raises(ValueError, match="holds no results"):
        load(tmp_path / "nothing")


def test_questions_left_out_stay_so_unless_their_picture_was_cut_off(tmp_path: Path) -> None:
    skipped = {
        "p1": [Skipped("s", "p1", 1, "Long.")],
        "p2": [Skipped("s", "p2", number, "Long.") for number in (0, 1)],
    }
    questions = {("s", picture): 2 for picture in ("p2", "p1", "p3")}
    with Results(tmp_path, SETTINGS, questions, 1) as results:
        for picture, of_picture in skipped.items():
            results.add(rows_of("p1")[:1] if picture == "p1" else [], [], of_picture)
    file = tmp_path / "skipped.csv"
    whole = file.read_bytes()
    with Results(tmp_path, SETTINGS, questions, 1) as results:
        assert results.done == {("s", "p1"), ("s", "p2")}
        results.add([], [], [Skipped("s", "p3", 0, "Long.")])  # its other question is not there
    with Results(tmp_path, SETTINGS, questions, 1) as results:
        assert results.done == {("s", "p1"), ("s", "p2")}
        assert file.read_bytes() == whole
        results.sort()
    with Results(tmp_path, SETTINGS, questions, 1) as results:
        assert results.skipped == skipped["p2"] + skipped["p1"]
    (tmp_path / "results.csv").unlink()  # then other settings are taken
    with Results(tmp_path, SETTINGS | {"more": 1}, questions, 1) as results:
        assert results.done == set()


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with (
        Results(tmp_path, SETTINGS, QUESTIONS, 1),
        pytest.raises(ValueError, match=r"Another run is writing to .*Choose another folder"),
    ):
        Results(tmp_path, SETTINGS, QUESTIONS, 1)
    with Results(tmp_path, SETTINGS, QUESTIONS, 1):
        assert json.loads((tmp_path / "settings.json").read_text())["model"] == {"name": "m"}


def test_a_folder_says_its_format_and_one_without_is_the_first(tmp_path: Path) -> None:
    write(tmp_path)
    file = tmp_path / "settings.json"
    settings = json.loads(file.read_text())
    assert settings.pop("format") == FORMAT == 1
    file.write_text(json.dumps(settings))
    assert load(tmp_path)[0] == {"format": 1, "positions": "compact", **settings}
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        assert results.done == {("s", "p1")}
    for other in (2, "two", None):
        file.write_text(json.dumps({"format": other, **settings}))
        with pytest.raises(ValueError, match=f"has format {other}; this version reads format 1"):
            load(tmp_path)
        with pytest.raises(ValueError, match=r"other settings \(format\)"):
            Results(tmp_path, SETTINGS, QUESTIONS, 1)
    for damaged in ("[]", "[" * 100_000, '{"model": "\\ud800"}'):
        file.write_text(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            load(tmp_path)


def test_a_folder_of_before_guidance_by_words_was_guided_by_clip(tmp_path: Path) -> None:
    before = {**SETTINGS, "relevance": {"layer": -2, "text": "tokens"}}
    write(tmp_path, **before)
    assert load(tmp_path)[0]["relevance"] == {"guidance_text": "clip", **before["relevance"]}
    now = {**before, "relevance": {**before["relevance"], "guidance_text": "clip"}}
    with Results(tmp_path, now, QUESTIONS, 1) as results:
        assert results.done == {("s", "p1")}


def test_a_folder_without_positions_has_compact_ones(tmp_path: Path) -> None:
    write(tmp_path)
    with Results(tmp_path, {**SETTINGS, "positions": "compact"}, QUESTIONS, 1) as results:
        assert results.done == {("s", "p1")}
    with pytest.raises(ValueError, match=r"other settings \(positions\)"):
        Results(tmp_path, {**SETTINGS, "positions": "original"}, QUESTIONS, 1)


def test_a_folder_of_before_a_methods_setting_was_measured_as_all_were_then(tmp_path: Path) -> None:
    names = ("spare", "visionzip", "trim", "uniform")
    now = {name: {"name": name, **dataclasses.asdict(PRUNERS[name])} for name in names}
    later = ("statistics", "size_bias", "text")
    before = {
        name: {key: value for key, value in settings.items() if key not in later}
        for name, settings in now.items()
    }
    assert all(before[name] != now[name] for name in names[:3])
    for name, read in (("spare", now["spare"]), ("visionzip", now["visionzip"])):
        folder = tmp_path / name
        write(folder, methods={name: before[name]})
        assert load(folder)[0]["methods"] == {name: read}
        with Results(folder, {**SETTINGS, "methods": {name: read}}, QUESTIONS, 1) as results:
            assert results.done == {("s", "p1")}
    # Then TRIM read the question alone.
    write(tmp_path, methods=before)
    trim = {**now["trim"], "text": "question"}
    assert load(tmp_path)[0]["methods"] == {**now, "trim": trim}
    with pytest.raises(ValueError, match=r"other settings \(methods\)"):
        Results(tmp_path, {**SETTINGS, "methods": now}, QUESTIONS, 1)


def test_pictures_are_put_into_the_order_in_which_they_are_asked(tmp_path: Path) -> None:
    with Results(tmp_path / "one", SETTINGS, QUESTIONS, 1) as results:
        for picture in ("p1", "p2"):
            results.add(rows_of(picture), places_of(picture))
    with Results(tmp_path / "two", SETTINGS, QUESTIONS, 1) as results:
        for picture in ("p2", "p1"):
            results.add(rows_of(picture), places_of(picture))
        results.sort()
    names = ("results.csv", "relevance.csv")
    whole = {name: (tmp_path / "one" / name).read_bytes() for name in names}
    assert {name: (tmp_path / "two" / name).read_bytes() for name in names} == whole
    before = (tmp_path / "two" / "results.csv").stat().st_ino
    with Results(tmp_path / "two", SETTINGS, QUESTIONS, 1) as results:
        results.sort()
        assert repr(results.rows) == repr(rows_of("p1") + rows_of("p2"))
    assert (tmp_path / "two" / "results.csv").stat().st_ino == before  # not written anew


def test_pictures_that_are_no_scenes_leave_no_file_of_places(tmp_path: Path) -> None:
    with Results(tmp_path, SETTINGS, QUESTIONS, 1) as results:
        for picture in ("p2", "p1"):
            results.add(rows_of(picture))
        results.sort()
    assert not (tmp_path / "relevance.csv").exists()


def test_a_model_that_is_no_object_is_another_setting(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"model": "m"}')
    known = {"model": {"name": "built-in"}}
    with pytest.raises(ValueError, match=r"other settings \(model\)"):
        has_results(tmp_path, known, partly=True)
