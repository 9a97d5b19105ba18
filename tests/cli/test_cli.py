"""`python -m spare_demo`, called as a function, and as a program."""

from __future__ import annotations

import dataclasses
import errno
import gc
import io
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from spare_demo.analysis.leave_one_out import leave_one_out
from spare_demo.cli import methods
from spare_demo.cli.main import main
from spare_demo.cli.methods_table import markdown
from spare_demo.models import CATALOGUE, LlavaModel, ModelError, load_model
from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.pruners import PRUNERS
from spare_demo.render.canvas import Canvas
from spare_demo.render.card import Panel, card
from spare_demo.render.display import Display
from spare_demo.results.drawings import PANELS
from spare_demo.results.io import read_result

Run = Callable[..., tuple[int, Path]]
QUESTION = "Which number is written on the small triangle?"


@pytest.fixture
def run(
    tmp_path: Path,
    tiny_folder: Path,
    tiny_model: LlavaModel,
    photo_file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """compare on the tiny checkpoint, with more flags; returns status and output folder.

    panels: drawn unless the flags say others; none for the command's usual ones.
    """

    def load(name: str, device: str, **more: Any) -> Any:  # the tiny one once for all tests
        usual = more.get("language_model", True) and more.get("system") != "vicuna_v1"
        tiny = name == str(tiny_folder) and usual
        return tiny_model if tiny else load_model(name, device, **more)

    monkeypatch.setattr("spare_demo.cli.compare.load_model", load)

    def call(
        *flags: str, question: str = QUESTION, panels: tuple[str, ...] = ("kept",)
    ) -> tuple[int, Path]:
        out = tmp_path / "out"
        argv = ["compare", photo_file, question, "--out", str(out), "--max-new-tokens", "3"]
        argv += ["--model", str(tiny_folder), "--budget", "5"]
        argv += ["--panels", *panels] if panels else []
        return main([*argv, *flags]), out

    return call


def recorded(run: Run, *flags: str, **more: Any) -> tuple[Path, Any]:
    """The folder of a comparison that must succeed, and its result.json."""
    status, out = run(*flags, **more)
    assert status == 0
    return out, json.loads((out / "result.json").read_text())


@pytest.mark.parametrize(("name", "told"), [("auto", ["Why."]), ("mine", ["What.", "Why."])])
def test_where_the_program_chose_the_model_it_says_why_and_no_more(
    run: Run,
    tiny_model: LlavaModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    told: list[str],
) -> None:
    monkeypatch.setattr("spare_demo.cli.compare.load_model", lambda *_, **__: tiny_model)
    monkeypatch.setattr(tiny_model, "description", "What.")
    monkeypatch.setattr(tiny_model, "notes", ("Why.",))
    assert run("--model", name)[0] == 0
    output = capsys.readouterr()
    assert output.err.splitlines()[: len(told)] == told
    assert "Why." not in output.out  # which is the results alone: `| head` may end it


def test_compare_says_which_token_carries_each_answer(
    run: Run, tiny_model: LlavaModel, photo: Image.Image, capsys: pytest.CaptureFixture
) -> None:
    recorded(run, "--carrier", "--methods", "spare", "visionzip", "dart", "--budget", "12")
    words = " ".join(capsys.readouterr().out.split())
    view = tiny_model.encode(photo, QUESTION)
    kept = PRUNERS["spare"].select(view.tokens, 12)
    answer = tiny_model.answer(view, kept, 3)
    *_, last = leave_one_out(tiny_model, view, kept, answer, 3)
    place = Canvas(view.photo, view.grid).where(last.carrier.token)
    assert "SPARE: without the patch" in words or "SPARE: no single one of its 12 tokens" in words
    assert f"without the patch in {place}" in words
    assert "of its 12 merged rows" in words or "Of its 12 merged rows" in words
    assert run("--carrier", "--budget", "1")[0] == 0
    assert "budget of 2 or more" in " ".join(capsys.readouterr().out.split())


def test_compare_needs_answers_and_a_picture_to_look_for_the_carrier(
    run: Run, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        run("--carrier", "--without-language-model")
    assert "--carrier needs answers" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("--carrier", "--from", "result.json")
    assert "without --from" in capsys.readouterr().err


def test_compare_says_where_a_criterion_has_nothing_left(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run()[0] == 0
    assert "by its criterion" not in capsys.readouterr().out
    # As of features in which no token has a larger sine than this to those picked.
    monkeypatch.setattr("spare_demo.pruners.plain.DEPENDENT", 0.95)
    out, _ = recorded(run, "--methods", "spare", "random")
    kept = read_result((out / "result.json").read_text()).result.selections
    informed = kept["spare"].informed
    assert informed is not None and 1 <= informed < 5 and kept["random"].informed is None
    text = " ".join(capsys.readouterr().out.split())
    assert f"SPARE chose {informed} of its 5 tokens by its criterion; the rest lie in" in text


def test_compare_writes_pictures_the_record_and_a_page_beside_them(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, film = tmp_path / "new" / "page.html", tmp_path / "newer" / "picks.webp"
    status, out = run("--html", str(page), "--film", str(film), panels=())
    assert status == 0 and film.exists()
    assert {path.name for path in out.iterdir()} == {
        "comparison.png",
        "difference.png",
        "kept-cdpruner.png",
        "kept-spare.png",
        "reconstruction.html",
        "reconstruction.png",
        "relevance.png",
        "result.json",
    }
    for path in out.glob("*.png"):
        with Image.open(path) as image:
            image.load()
            assert image.width > 300
    data = json.loads((out / "result.json").read_text())
    chosen = {"layer": -2, "text": "stretches", "guidance_text": "clip"}  # without a flag
    assert data["settings"]["relevance"] == chosen
    assert [len(item["order"]) for item in data["selections"].values()] == [5, 5]
    printed = capsys.readouterr().out
    assert QUESTION in printed
    assert data["answers"]["spare"]["text"].split()[0][:10] in printed
    curve = (out / "reconstruction.html").read_text()
    assert "SVD bound" in curve and "<script src=" not in curve  # it needs no network
    assert 'name="viewport"' in curve
    assert QUESTION in page.read_text("utf-8") and f"The page is {page}" in printed


def test_a_folder_without_a_name_is_said_to_be_the_current_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--out", "", panels=("difference",))[0] == 0
    assert "Written to .: difference.png, result.json" in capsys.readouterr().out


def test_methods_that_merge_are_drawn_and_recorded_as_merged(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    headings: list[str] = []
    monkeypatch.setattr(
        "spare_demo.results.drawings.card", lambda question, panels, footer: _card(headings, panels)
    )
    out, _ = recorded(run, "--methods", "visionzip", "spare", panels=("comparison",))
    assert headings == [
        "All 16 tokens",
        "VisionZip, 5 merged of 16 tokens",
        "SPARE, 5 of 16 tokens",
    ]
    data = json.loads((out / "result.json").read_text())["selections"]
    assert len(data["visionzip"]["sources"]["rows"]) == 5
    assert data["visionzip"]["sources"]["rows"][0] == []  # the class token
    assert data["spare"]["sources"] is None
    _, data = recorded(run, "--methods", "spare", "--picks", str(out / "result.json"))
    assert list(data["selections"]) == ["spare", "visionzip (unmerged)", "spare (imported)"]


def _card(headings: list[str], panels: list[Panel]) -> Display:
    headings += [panel.heading for panel in panels]
    return card("", panels, "")


def test_settings_reach_the_methods(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    _, data = recorded(run, "--methods", "divprune", "--set", "divprune.metric=euclidean")
    assert data["methods"]["divprune"]["settings"] == {"metric": "euclidean"}
    assert "DivPrune (metric=euclidean)" in capsys.readouterr().out


def test_the_table_of_methods_says_what_cannot_run(
    monkeypatch: pytest.MonkeyPatch, tiny_model: LlavaModel, capsys: pytest.CaptureFixture[str]
) -> None:
    mute = LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mute")
    monkeypatch.setattr("spare_demo.models.load_model", lambda *_, **__: mute)
    assert main(["methods", "--model", "mute"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "spare cannot run on mute: this model has no CLIP text side" in told
    assert "prumerge cannot run" not in told
    assert main(["methods", "--table"]) == 0
    assert capsys.readouterr().out == markdown()


@pytest.mark.parametrize(("name", "kind"), [("picks.webp", "WEBP"), ("picks.gif", "GIF")])
def test_a_film_of_the_budgets_up_to_that_of_the_comparison(
    run: Run, tmp_path: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert run("--film", str(path))[0] == 0
    assert f"The film is {path}" in capsys.readouterr().out
    with Image.open(path) as film:
        assert (film.format, film.n_frames) == (kind, 4)  # 1, 2, 4 and 5 tokens


def test_an_earlier_result_makes_a_page_or_a_film_only_when_asked_again(
    run: Run, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = run()
    page, film = tmp_path / "page.html", tmp_path / "picks.webp"
    argv = ["compare", "--from", str(out / "result.json"), "--out", str(tmp_path / "again")]
    assert main([*argv, "--html", str(page)]) == 1
    assert "--from FILE --again" in capsys.readouterr().err and not page.exists()
    assert main([*argv, "--film", str(film)]) == 1
    assert "Add --again" in capsys.readouterr().err and not film.exists()
    assert main([*argv, "--film", str(film), "--again", "--model", str(tiny_folder)]) == 0
    assert film.exists()


def test_a_folder_that_cannot_be_is_refused_before_the_model_is_asked_again(
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, out = run()
    monkeypatch.delattr("spare_demo.cli.compare.load_model")
    (tmp_path / "taken").write_text("")
    argv = ["compare", "--from", str(out / "result.json"), "--out", str(tmp_path / "taken")]
    assert main([*argv, "--again"]) == 1
    assert "taken has to be a folder, but it is a file" in capsys.readouterr().err


def test_the_flags_arrive_in_the_record(run: Run) -> None:
    out, data = recorded(
        run,
        *("--methods", "random", "random", "--seed", "4", "--aspect", "crop"),
        *("--relevance-layer", "-1", "--relevance-text", "tokens", "--guidance-text", "words"),
        *("--budget", "2", "--positions", "original"),
    )
    assert data["settings"] == {
        "budget": 2,
        "max_new_tokens": 3,
        "seed": 4,
        "aspect": "crop",
        "together": False,
        "positions": "original",
        "relevance": {"layer": -1, "text": "tokens", "guidance_text": "words"},
    }
    assert list(data["selections"]) == ["random", "random (2)"]
    assert data["methods"]["random (2)"]["settings"] == {"seed": 4}
    assert (out / "kept-random-2.png").is_file()


def test_without_the_language_model_there_are_picks_and_no_answers(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    panels = ("--panels", "kept", "comparison", "relevance")
    out, _ = recorded(run, "--without-language-model", *panels, "--zip")
    names = {path.name for path in out.iterdir()}
    assert {"kept-spare.png", "relevance.png", "result.json", "citation.zip"} <= names
    assert "comparison.png" not in names
    record = json.loads((out / "result.json").read_text())
    assert record["answers"] == {} and record["cost"] == [] and not record["language_model"]
    assert "without its language model" in capsys.readouterr().out
    with zipfile.ZipFile(out / "citation.zip") as archive:
        assert "--without-language-model" in archive.read("README.txt").decode()
    again = read_result((out / "result.json").read_text())
    assert again.result.finished


def test_a_set_made_by_hand_took_no_time_to_choose(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.json").write_text("[1, 2]")
    recorded(run, "--without-language-model", "--picks", str(tmp_path / "mine.json"))
    assert re.search(r"^mine +2 +–$", capsys.readouterr().out, re.MULTILINE)


def test_compare_prints_the_headline_of_an_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, question = str(ASSETS / "examples" / "scene-1008.png"), "What word is written?"
    argv = ["compare", scene, question, "--out", str(tmp_path), "--model", "built-in"]
    assert main([*argv, "--budget", "24", "--device", "cpu", "--panels", "difference"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert (
        "With 24 of 576 tokens, no kept patch shows a letter of FOX. CDPruner still answers FOX; "
    ) in words


def test_compare_prints_answers_whole_that_are_too_long_for_the_table(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    tiny_model: LlavaModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, sentence = tiny_model.stream_together, "a word " * 20 + "at last"

    def lengthen(label: str, piece: Any) -> Any:
        short = isinstance(piece, str) or label == "spare"
        return piece if short else dataclasses.replace(piece, text=sentence)

    def talk(*asked: Any) -> Iterator[dict[str, Any]]:
        for pieces in real(*asked):
            yield {label: lengthen(label, piece) for label, piece in pieces.items()}

    monkeypatch.setattr(tiny_model, "stream_together", talk)
    recorded(run)
    printed = capsys.readouterr().out
    for title in ("All tokens", "CDPruner"):
        assert f"{title}: {sentence}" in " ".join(printed.split())
    assert "SPARE: a word" not in " ".join(printed.split())


def test_imported_picks_are_compared_beside_the_methods(run: Run, tmp_path: Path) -> None:
    picks = tmp_path / "mine.json"
    picks.write_text("[8, 3, 11]", encoding="utf-8-sig")  # as editors on Windows save it
    _, data = recorded(run, "--methods", "spare", "--picks", str(picks))
    assert data["selections"]["mine"]["order"] == [8, 3, 11]
    assert data["answers"]["mine"]["visual_tokens"] == 3
    # The record of that run is a file of picks itself.
    record = tmp_path / "earlier.json"
    record.write_text(json.dumps(data))
    _, again = recorded(run, "--methods", "--picks", str(record))
    assert again["answers"]["spare"]["token_ids"] == data["answers"]["spare"]["token_ids"]
    assert again["methods"]["spare"]["name"] is None
    # Where one name is a method's too, all that are imported say so.
    _, data = recorded(run, "--methods", "spare", "--picks", str(record))
    assert list(data["selections"]) == ["spare", "spare (imported)", "mine (imported)"]


def test_without_a_question_the_note_is_printed(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = recorded(run, question="", panels=())
    assert not (out / "relevance.png").exists()
    printed = capsys.readouterr().out
    assert "the text part of SPARE is off" in " ".join(printed.split())
    assert re.search(r"^SPARE, reconstruction only +5 ", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--methods", "sparse"], "There is no method 'sparse'. Did you mean spare? Choose one of"),
        (["--methods"], "Choose at least one method"),
        (["--budget", "0"], "A budget of 0 visual tokens"),
        (["--budget", "0.125"], 'or a share such as "12.5%"'),
        (["--budget", "ten"], 'or a share such as "12.5%"'),
        (["--max-new-tokens", "0"], "max_new_tokens must be at least 1."),
        (["--picks", "nowhere.json"], "No such file or directory: nowhere.json."),
        (["--picks", "."], ". is a folder. Name a file."),
        (["--set", "cdpruner.metric"], "Write METHOD.SETTING=VALUE"),
        (["--set", "zoo-prune.step=1"], "'zoo-prune' has settings but is not compared"),
        (["--methods", "divprune", "--set", "divprune.metric=oval"], "one of: cosine, euclidean"),
        (["--film", "picks.mp4"], "such as film.webp"),
        (["--film", "picks.webp", "--methods", "fastv"], "There is no pick order to show"),
        (["--html", "photo.png/page.html"], "photo.png has to be a folder, but it is a file"),
        (["--html", "loop/page.html"], "loop has to be a folder, but it is a file"),
        (["--html", "loop"], "Too many levels of symbolic links: loop."),
        (["--html", "o", "--out", "o"], "o and o/result.json cannot both be written"),
        (["--film", "a.gif", "--out", "a.gif/x"], "a.gif and a.gif/x/result.json cannot both be"),
        (["--film", "a.gif", "--html", "./a.gif"], "a.gif cannot both be written"),
        (["--html", "."], "is a folder. Name a file"),
        (["--html", "page.html", "--methods", "spare"], "two methods side by side"),
        (["--panels", "kept", "kl"], "The panel kl draws what only the page measures."),
        (["--panels", "kept", "grid"], "The panel grid needs 3 methods or more."),
        (["--panels", "consensus", "--methods", "spare", "uniform"], "The panel consensus needs 3"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_before_a_model_is_loaded(
    run: Run, tmp_path: Path, flags: list[str], sentence: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("spare_demo.cli.compare.load_model", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    status, out = run(*flags)
    assert status == 1 and not out.exists()
    error = " ".join(capsys.readouterr().err.split())
    assert sentence in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--budget", "17"], "A budget of 17 visual tokens is not possible."),
        (["--model", "xyz"], "There is no model 'xyz'. Choose one of: auto, built-in"),
    ],
)
def test_what_a_model_refuses_is_a_sentence(
    run: Run, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = run(*flags)
    assert status == 1 and not (out / "result.json").exists()
    error = " ".join(capsys.readouterr().err.split())
    assert sentence in error and "Traceback" not in error


def test_a_full_disk_is_said_to_be_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as a write does, without a name

    monkeypatch.setattr(Path, "write_bytes", fail)
    status, _ = run()
    assert status == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "The disk is full" in error and "Make room there" in error


def test_a_file_that_another_program_keeps_open_is_said_to_be_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Excel does on Windows."""

    def fail(path: Path, data: bytes) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "write_bytes", fail)
    status, out = run()
    error = " ".join(capsys.readouterr().err.split())
    assert status == 1
    assert f"{out / 'kept-spare.png'}. If another program has it open, close it there" in error


def test_a_drive_that_is_not_there_is_said_not_to_be(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.path.lexists", lambda path: False)
    status, out = run()
    assert status == 1
    assert f"No such file or directory: {out / 'result.json'}." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1, 1]", "more than once"),
        ("[1, 99]", "Patch index 99 does not exist"),
        ("nonsense", "could not be read"),
    ],
)
def test_bad_picks_are_refused(
    run: Run, tmp_path: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    picks = tmp_path / "mine.json"
    picks.write_text(text)
    status, _ = run("--picks", str(picks))
    assert status == 1
    assert sentence in capsys.readouterr().err


def test_a_question_too_long_and_a_file_that_is_no_picture(
    run: Run, photo_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(question="x" * 10_000)[0] == 1
    assert "10,000 characters; at most 2,000" in capsys.readouterr().err
    Path(photo_file).write_text("no picture")
    assert run()[0] == 1
    assert f"{photo_file}: This file is not a picture that can be read" in capsys.readouterr().err
    Path(photo_file).unlink()
    assert run()[0] == 1
    assert capsys.readouterr().err == f"There is no file {photo_file}.\n"


def test_the_tables_list_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["methods"]) == 0
    table = capsys.readouterr().out
    assert [line.split()[0] for line in table.splitlines() if not line.startswith(" ")] == [
        "method",
        *PRUNERS,
    ]
    assert main(["models"]) == 0
    table = capsys.readouterr().out
    for name in ("auto", *CATALOGUE):
        assert f"\n{name} " in table
    assert max(map(len, table.partition("\n\n")[0].splitlines())) <= 80


def test_from_draws_the_same_bytes_without_a_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    panels = ["--panels", *(name for name in PANELS if name != "kl")]
    methods = ["--methods", "spare", "random", "uniform"]
    out, _ = recorded(run, *panels, "--zip", *methods, "--budget", "6")
    monkeypatch.setattr(
        "spare_demo.cli.compare.load_model", lambda *_: pytest.fail("loaded a model")
    )
    printed = capsys.readouterr().out
    again = tmp_path / "drawn again"
    argv = ["compare", "--from", str(out / "result.json"), "--out", str(again), "--zip", *panels]
    assert main(argv) == 0
    names = {path.name for path in out.iterdir()}
    assert {"citation.zip", "order-spare.png", "leftover-random.png", "weight-spare.png"} <= names
    assert {path.name for path in again.iterdir()} == names
    for name in names:
        assert (again / name).read_bytes() == (out / name).read_bytes(), name
    # The same is told, but for the model's own introduction and where it was written to.
    told = capsys.readouterr().out.rpartition("\n\n")[0].strip()
    assert told.startswith(QUESTION)
    assert told in printed
    for more in ([], ["--again"]):
        assert main([*argv[:5], "--panels", "kl", *more]) == 1
        assert "The panel kl draws what" in capsys.readouterr().err


def test_from_and_again_asks_the_model_the_same(
    run: Run, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picks = tmp_path / "mine.json"
    picks.write_text("[8, 3, 11]")
    _, out = run("--methods", "cdpruner", "random", "--picks", str(picks), "--seed", "7")
    again = tmp_path / "again"
    argv = ["compare", "--from", str(out / "result.json"), "--again", "--out", str(again)]
    assert main([*argv, "--model", str(tiny_folder)]) == 0
    assert "The same tokens and answers as in the file." in capsys.readouterr().out
    first, second = (json.loads((d / "result.json").read_text()) for d in (out, again))
    assert first["settings"] == second["settings"]
    for label, item in first["selections"].items():
        assert second["selections"][label]["order"] == item["order"]
        assert second["answers"][label]["token_ids"] == first["answers"][label]["token_ids"]

    first["selections"]["cdpruner"]["order"].reverse()
    first["answers"]["mine"]["token_ids"] = [1]
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(first))
    argv[2] = str(changed)
    assert main([*argv, "--model", str(tiny_folder)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Not as in the file: CDPruner keeps other tokens; mine answers otherwise." in told


@pytest.mark.parametrize(
    ("flags", "more", "same"),
    [
        (["--system", "vicuna_v1"], [], "tokens and answers"),
        (["--without-language-model"], [], "tokens"),
        ([], ["--without-language-model"], "tokens"),
    ],
)
def test_again_loads_the_model_as_the_file_says(
    run: Run,
    tiny_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    more: list[str],
    same: str,
) -> None:
    _, out = run(*flags)
    again = tmp_path / "again"
    argv = ["compare", "--from", str(out / "result.json"), "--again", "--out", str(again), *more]
    assert main([*argv, "--model", str(tiny_folder)]) == 0
    assert f"The same {same} as in the file." in capsys.readouterr().out
    first, second = (json.loads((d / "result.json").read_text()) for d in (out, again))
    assert second["system"] == first["system"]
    assert second["language_model"] == (same == "tokens and answers")


def test_again_compares_what_each_layer_kept(
    run: Run, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = run("--methods", "fastv", "--budget", "9")
    file = out / "result.json"
    argv = ["compare", "--from", str(file), "--again", "--out", str(tmp_path / "again")]
    argv += ["--model", str(tiny_folder)]
    assert main(argv) == 0
    assert "The same tokens and answers as in the file." in capsys.readouterr().out
    told = json.loads(file.read_text())
    last = told["answers"]["fastv"]["layer_sets"][-1]
    others = [patch for patch in range(16) if patch not in last["kept"]]
    last["kept"] = [*last["kept"][1:], others[0]]
    file.write_text(json.dumps(told))
    assert main(argv) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Not as in the file: FastV keeps other tokens in some layers." in said


def test_again_holds_the_weights_as_the_file_says(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out = run()
    data = json.loads((out / "result.json").read_text())
    file = tmp_path / "quantised.json"
    argv = ["compare", "--from", str(file), "--again", "--out", str(tmp_path / "again")]
    asked: list[int] = []

    def load(*_: Any, bits: int, **__: Any) -> Any:
        asked.append(bits)
        raise ModelError("enough")

    monkeypatch.setattr("spare_demo.cli.compare.load_model", load)
    for revision, more, bits in (
        ("ab-8bit", (), 8),
        ("ab", (), 16),
        ("ab-8bit", ("--bits", "4"), 4),
        ("-4bit", (), 4),
    ):
        file.write_text(json.dumps(data | {"revision": revision}))
        monkeypatch.setenv("SPARE_BITS", "4" if bits == 16 else "16")  # the file's settings win
        assert main([*argv, *more]) == 1
        assert asked.pop() == bits


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory at 0x7f"), MemoryError()]
)
def test_memory_that_runs_out_while_choosing_is_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, error: Exception
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("spare_demo.comparison.selections.select_together", full)
    assert run()[0] == 1
    said = capsys.readouterr().err
    assert "not enough memory for this picture and question. Ask with a smaller" in said
    assert "0x7f" not in said and "Traceback" not in said
    error = RuntimeError("shape mismatch")  # no lack of memory, and not told as one
    with pytest.raises(RuntimeError, match="shape"):
        run()


def test_a_file_without_its_picture_is_drawn_on_grey_or_on_the_one_given(
    run: Run, photo_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = run()
    data = json.loads((out / "result.json").read_text())
    del data["picture"]["png"]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(data))
    target = tmp_path / "drawn"
    argv = ["compare", "--from", str(bare), "--out", str(target)]
    assert main(argv) == 0
    assert "so it is drawn grey" in " ".join(capsys.readouterr().out.split())
    assert (target / "kept-spare.png").read_bytes() != (out / "kept-spare.png").read_bytes()
    for flag in ("--again", "--zip"):  # neither is for a grey picture
        assert main([*argv, flag]) == 1
        assert "does not hold the picture" in capsys.readouterr().err
    assert main(["compare", photo_file, *argv[1:]]) == 0
    assert (target / "kept-spare.png").read_bytes() == (out / "kept-spare.png").read_bytes()
    Image.new("RGB", (90, 60)).save(photo_file)
    assert main(["compare", photo_file, *argv[1:]]) == 1
    assert "not the one this result was made of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--budget", "64"], "--budget is not read with --from"),
        (["--seed", "0"], "--seed is not read with --from"),
        (["--bud=3", "--again"], "--budget is not read with --from"),
        (["--methods"], "--methods is not read with --from"),
        (["--set", "divprune.metric=cosine"], "--set is not read with --from"),
        (["--max-new-tokens", "3"], "--max-new-tokens is not read with --from"),
        (["--aspect", "crop"], "--aspect is not read with --from"),
        (["--together"], "--together is not read with --from"),
        (["--device", "cpu"], "leave it out, or add --again"),
    ],
)
def test_an_option_that_an_earlier_result_decides_is_refused(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--from", "result.json", "--out", "drawn", *flags])
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("command", "variable"),
    [("compare", "SPARE_MODEL"), ("evaluate", "SPARE_MODEL"), ("compare", "SPARE_METHODS")],
)
def test_a_percent_sign_in_a_variable_stands_in_the_help(
    command: str,
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, "runs/50%/model")
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())  # the help breaks its lines anywhere
    assert stopped.value.code == 0 and "(default: runs/50%/model)" in shown


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["compare"],
        ["compare", "a.png", "?"],
        ["compare", "a.png", "--out", "x"],
        ["compare", "a.png", "?", "--out", "x", "--again"],
        ["compare", "a.png", "?", "--from", "b.json", "--out", "x"],
        ["compare", "--from", "b.json", "--out", "x", "--panels", "nonsense"],
        ["methods", "--bits", "4"],
        ["methods", "--table", "--device", "auto"],
        ["serve", "--budget", "0"],
    ],
)
def test_wrong_use_ends_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "usage: spare-demo" in capsys.readouterr().err


def test_a_reader_that_has_enough_ends_it_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-m", "spare_demo", "methods"]
    done = subprocess.run(argv, cwd=ASSETS.parent, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_output_that_nobody_reads_on_windows_ends_it_likewise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    with (
        open(tmp_path / "output", "w", encoding="utf-8") as output,
        monkeypatch.context() as patched,
    ):
        patched.setattr(output, "flush", refuse)
        patched.setattr(sys, "stdout", output)
        assert main(["models"]) == 141
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", ["methods", "serve --help", "methods --table"])
def test_an_output_that_cannot_be_written_is_a_sentence(words: str) -> None:
    argv = [sys.executable, "-m", "spare_demo", *words.split()]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            argv, cwd=ASSETS.parent, env=environment, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1 and done.stderr.startswith(b"The disk is full: ")
    assert b"or of the output" in done.stderr and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("output", [io.TextIOWrapper(io.BytesIO(), "ascii"), None])
def test_an_output_without_such_letters_or_none_at_all_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, output: io.TextIOWrapper | None
) -> None:
    # As uvicorn and tqdm do, whom a closed output would end.
    monkeypatch.setattr("spare_demo.cli.models.run", lambda *_: sys.stdout.write("Wörd\n"))
    monkeypatch.setattr("sys.stdout", output)
    assert main(["models"]) == 0
    if output is not None:
        assert output.buffer.getvalue() == b"W\\xf6rd\n"  # type: ignore[attr-defined]


def test_no_garbage_is_looked_for_while_a_command_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work: list[bool] = []
    monkeypatch.setattr(
        "spare_demo.cli.imports.import_module", lambda _: at_work.append(gc.isenabled()) or methods
    )
    assert main(["methods"]) == 0
    assert at_work == [False] and gc.isenabled()


@pytest.mark.usefixtures("stubborn_import")
@pytest.mark.parametrize("words", ["compare picture.png Why? --out out", "methods --model any"])
def test_an_interrupt_while_the_libraries_are_imported_ends_it_without_a_word(words: str) -> None:
    argv = [sys.executable, "-m", "spare_demo", *words.split()]
    with subprocess.Popen(
        argv, cwd=ASSETS.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == b"importing\n"
        program.send_signal(signal.SIGINT)
        assert program.communicate() == (b"", b"")
    assert program.returncode == 130


@pytest.mark.parametrize("aspect", ["fixed", "any"])
def test_a_picture_seen_in_several_views(
    run: Run, tiny_next_folder: Path, capsys: pytest.CaptureFixture[str], aspect: str
) -> None:
    flags = ("--model", str(tiny_next_folder), "--budget", "10%", "--aspect", aspect, "--together")
    out, data = recorded(run, *flags)
    n = data["visual_tokens"]
    assert n == (80 if aspect == "fixed" else 64)
    assert data["grid"]["parts"][0]["rows"] == 4
    assert sum(part["rows"] * part["cols"] for part in data["grid"]["parts"]) == n
    assert data["settings"]["budget"] == len(data["selections"]["spare"]["order"]) == round(n / 10)
    assert data["settings"]["together"] is True
    whole = data["answers"]["unpruned"]
    told = " ".join(capsys.readouterr().out.split())
    assert (f"{whole['newline_tokens']} newline tokens go in as well" in told) == (aspect == "any")
    assert whole["newline_tokens"] == (0 if aspect == "fixed" else data["grid"]["parts"][1]["rows"])
    with Image.open(out / "kept-spare.png") as image:
        assert image.width > 300


def test_a_model_without_class_token_or_clip(
    run: Run, tiny_qwen_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, data = recorded(run, "--model", str(tiny_qwen_folder), "--budget", "50%")
    assert data["methods"]["spare"]["name"] == "spare-reconstruction"
    assert data["visual_tokens"] == 6 and data["settings"]["budget"] == 3
    assert data["settings"]["aspect"] == "native" and data["relevance"] is None
    assert data["settings"]["positions"] == "original"
    assert "vision tower is not CLIP's" in capsys.readouterr().err


def test_positions_that_a_model_has_not_are_refused_with_the_reason(
    run: Run, tiny_qwen_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = run("--model", str(tiny_qwen_folder), "--budget", "50%", "--positions", "compact")
    told = " ".join(capsys.readouterr().err.split())
    assert status == 1 and "positions say the row and the column of a token" in told
    assert "Traceback" not in told and not (out / "result.json").exists()


def test_all_methods_are_those_that_can_run(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = recorded(run, "--methods", "all", "--panels", "grid", "consensus", "--zip")
    written = {path.name for path in out.iterdir()}
    assert written == {"grid.png", "consensus.png", "result.json", "citation.zip"}
    with zipfile.ZipFile(out / "citation.zip") as archive:
        assert {"grid.svg", "consensus.svg"} <= set(archive.namelist())
    methods = json.loads((out / "result.json").read_text())["methods"]
    assert {"spare", "spare-reconstruction", "cdpruner", "visionzip"} <= set(methods)
    assert "fastv" not in methods  # of 3 layers the first ones get all 16 tokens
    printed = " ".join(capsys.readouterr().out.split())
    assert "FastV is left out: its schedule needs a budget of at least 6 of 16 tokens." in printed
    status, out = run("--methods", "all", "--panels", "grid", question="")
    methods = json.loads((out / "result.json").read_text())["methods"]
    assert status == 0 and "spare" not in methods and "spare-reconstruction" in methods
    assert "SPARE is left out: it needs a question." in capsys.readouterr().out


def test_a_method_may_stand_beside_all_and_is_then_not_left_out(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    _, data = recorded(run, "--methods", "all", "random")
    assert list(data["methods"])[:2] == ["random", "spare"] and "fastv" not in data["methods"]
    capsys.readouterr()
    assert run("--methods", "fastv", "all")[0] == 1
    assert "FastV cannot meet a budget of 5" in " ".join(capsys.readouterr().err.split())
