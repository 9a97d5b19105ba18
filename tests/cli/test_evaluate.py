"""`python -m spare_demo evaluate` as a person runs it, with a tiny model."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from spare_demo.cli import evaluate as command
from spare_demo.cli.main import main
from spare_demo.evaluation.results import load
from spare_demo.models import LlavaModel, Model, ModelError
from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings


@pytest.fixture
def measure(
    tiny_folder: Path, tiny_model: LlavaModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Runs the command into `tmp_path/out`, by default on the tiny model, and returns its exit
    status."""

    def run(
        *more: str, methods: tuple[str, ...] = ("spare", "random"), model: Model = tiny_model
    ) -> int:
        monkeypatch.setattr(command, "load_model", lambda *_, **__: model)
        words = ["evaluate", "--out", str(tmp_path / "out"), "--model", str(tiny_folder)]
        words += ["--device", "cpu", "--budgets", "8", "3", "--max-new-tokens", "3"]
        words += ["--resamples", "50", "--methods", *methods, *more]
        return main(words)

    return run


def test_scenes_from_start_to_report(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = ("--questions", "7", "--set", "held-out", "unseen-pairs")
    report = tmp_path / "docs" / "REPORT.md"
    written = ("--report", str(report), "--figures", str(tmp_path / "pictures"))
    monkeypatch.setattr("sys.argv", ["x", "evaluate", "--out", "my results"])
    assert measure(*sets, *written) == 0
    out, err = capsys.readouterr()
    assert "== held-out ==" in out and "== unseen-pairs ==" in out
    assert "14 questions about 4 pictures. The time left is shown once" in err
    assert "14/14 questions [" in err and "s/" not in err
    settings, rows, places = load(tmp_path / "out")
    assert len(rows) == 14 * (2 + 2 * 2)
    assert len(places) == 14 * 3  # two layers of the tower, and words of the language model
    assert settings["budgets"] == [3, 8]
    figures = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert figures["sets"]["held-out"]["questions"] == 7
    html = (tmp_path / "out" / "figures.html").read_text()
    assert html.count("plotly-graph-div") == 2 * 3
    assert "<script src" not in html
    assert "<html lang='en'>" in html and "name='viewport'" in html
    (upload,) = re.findall(r'name:"(\w*Cloud)"', html)  # of plotly's button for it
    assert f'"modeBarButtonsToRemove": ["{upload}"]' in html
    text = report.read_text()
    drawn = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(drawn) == 2 * 3
    for address in drawn:
        ElementTree.parse(report.parent / address)
    assert "python -m spare_demo evaluate --out 'my results'" in text
    right = figures["sets"]["held-out"]["accuracy"][0]["value"]
    assert f"With all 16 tokens {100 * right:.1f} %" in text


def test_the_files_are_written_though_nobody_reads_the_tables(
    measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    report = tmp_path / "REPORT.md"
    monkeypatch.setattr("sys.stdout", Full())
    assert measure("--questions", "2", "--report", str(report)) == 141
    assert (tmp_path / "out" / "summary.json").is_file() and report.is_file()


def test_a_folder_called_as_the_built_in_model_is_not_described_as_that(
    measure, tiny_model: LlavaModel, tmp_path: Path
) -> None:
    report = tmp_path / "REPORT.md"
    own = LlavaModel(tiny_model.hf, tiny_model.processor, None, name="built-in")
    more = ("--questions", "2", "--report", str(report))
    assert measure(*more, methods=("uniform",), model=own) == 0
    assert "The model and its training" not in report.read_text()


def test_by_words_the_labels_say_so_in_every_file(measure, tmp_path: Path) -> None:
    report, label = tmp_path / "REPORT.md", "spare@words"
    by = ("--guidance-text", "words", "--reference", "spare", "--questions", "2")
    assert measure(*by, "--report", str(report), methods=("random", "spare")) == 0
    settings, rows, _ = load(tmp_path / "out")
    assert settings["relevance"]["guidance_text"] == "words"
    assert list(settings["methods"]) == ["random", label]
    assert {row.method for row in rows} == {"unpruned", "blank", "random", label}
    text = report.read_text()
    assert "| SPARE, words of the language model, not CLIP |" in text
    assert "| SPARE |" not in text
    assert "| words, not CLIP |" in text


def test_the_same_command_measures_nothing_twice(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = command.run

    def cut(*args, **options):
        measuring = real(*args, **options)
        yield next(measuring)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", cut)
    assert measure("--questions", "20") == 130
    assert "The same command resumes after question 6 of 20." in capsys.readouterr().err
    file = tmp_path / "out" / "results.csv"
    begun = file.read_bytes()
    monkeypatch.setattr(command, "run", real)
    assert measure("--questions", "20") == 0
    whole = file.read_bytes()
    assert whole.startswith(begun) and len(whole) > len(begun)
    text = (tmp_path / "out" / "summary.md").read_text()
    report = tmp_path / "again.md"
    # What is finished is summed up again from the file, the report included.
    assert measure("--questions", "20", "--report", str(report), "--figures", str(tmp_path)) == 0
    assert file.read_bytes() == whole
    assert (tmp_path / "out" / "summary.md").read_text() == text
    assert report.exists()
    # The reference is the first method, as the help says, in whatever order they were measured.
    assert measure("--questions", "20", methods=("random", "spare")) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["sets"]["held-out"]["reference"] == "random"
    capsys.readouterr()
    assert measure("--questions", "21") == 1
    assert "other settings (questions)" in capsys.readouterr().err
    assert file.read_bytes() == whole


def test_a_file_in_the_folders_place_is_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load_model", lambda *_, **__: pytest.fail("it loads"))
    (tmp_path / "out").write_text("")
    assert main(["evaluate", "--out", str(tmp_path / "out"), "--questions", "1"]) == 1
    assert "out has to be a folder, but it is a file." in capsys.readouterr().err


def test_results_of_other_settings_are_refused_before_a_model_is_loaded(
    measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure("--questions", "2") == 0
    monkeypatch.setattr(command, "load_model", lambda *_, **__: pytest.fail("it loads"))
    capsys.readouterr()
    words = ["evaluate", "--out", str(tmp_path / "out"), "--questions", "2", "--methods", "spare"]
    words += ["random", "--budgets", "3", "8", "--max-new-tokens", "3"]
    for more, different in (
        (["--model", "built-in"], "model"),
        (["--budgets", "3"], "budgets"),
        (["--methods", "all"], "model"),
        (["--methods", "uniform"], "methods"),
        (["--no-blank", "--together", "--questions", "3"], "questions, blank, together"),
    ):
        model = ["--model", "llava-1.5-7b" if different == "model" else "any"]
        assert main([*words, *model, *more]) == 1
        assert f"other settings ({different})" in capsys.readouterr().err
    assert main([*words, "--reference", "uniform"]) == 1
    assert "--reference must be one of the methods: spare, random." in capsys.readouterr().err


@pytest.fixture
def data(tmp_path: Path) -> tuple[str, ...]:
    """A file of three questions, the second malformed, the third's picture damaged."""
    for name in ("a.png", "b.png"):
        Image.new("RGB", (60, 40), "navy").save(tmp_path / name)
    (tmp_path / "b.png").write_bytes((tmp_path / "b.png").read_bytes()[:40])
    lines = [
        {"image": "a.png", "question": "What?", "answer": "x", "category": "ocr"},
        {"image": "a.png", "question": "What?"},
        {"image": "b.png", "question": "Which?", "answer": "A", "choices": ["p", "q"]},
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    return "--data", str(file), "--images", str(tmp_path)


def test_own_data_with_bad_lines(
    measure, data: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(*data) == 1
    err = capsys.readouterr().err
    assert "Line 2 of own.jsonl" in err and "--skip-bad" in err
    assert not (tmp_path / "out").exists()
    assert measure(*data, "--skip-bad") == 0
    err = capsys.readouterr().err
    assert "Line 2 of own.jsonl" in err
    assert "\rThe picture b.png (line 3 of own.jsonl)" in err  # where the bar was
    _, rows, places = load(tmp_path / "out")
    assert {row.picture for row in rows} == {"a.png"}
    assert {row.method for row in rows} == {"unpruned", "spare", "random"}
    assert places == []


@pytest.mark.parametrize("picture, question", [("a.png", "Which? " * 5000), ("b.png", "Which?")])
def test_what_ends_a_run_says_how_to_leave_it_out(
    picture: str,
    question: str,
    measure,
    data: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = {"image": picture, "question": question, "answer": "x"}
    (tmp_path / "own.jsonl").write_text(json.dumps(line))
    assert measure(*data) == 1
    err = capsys.readouterr().err
    assert f"The picture {picture} (line 1 of own.jsonl)" in err
    assert err.endswith("Correct it, or leave out bad ones with --skip-bad.\n")


def test_what_is_left_out_counts_as_done_and_is_not_measured_again(
    measure, data: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    Image.new("RGB", (60, 40), "olive").save(tmp_path / "c.png")
    long = {"question": "Which? " * 5000, "answer": "x"}
    with (tmp_path / "own.jsonl").open("a") as file:
        for picture in ("a.png", "c.png"):
            file.write("\n" + json.dumps({"image": picture, **long}))
    assert measure(*data, "--skip-bad") == 0
    assert "4/4 questions [" in capsys.readouterr().err  # the damaged b.png too
    with (tmp_path / "out" / "skipped.csv").open(newline="") as file:
        skipped = list(csv.DictReader(file))
    assert [(line["picture"], line["number"]) for line in skipped] == [
        ("a.png", "1"),
        ("c.png", "0"),
    ]
    assert all("too long" in line["reason"] for line in skipped)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.csv")}
    real, seen = command.run, []

    def count(*args: Any, **options: Any) -> Any:
        for each in real(*args, **options):
            seen.append(each.sheet.picture)
            yield each

    monkeypatch.setattr(command, "run", count)
    assert measure(*data, "--skip-bad") == 0
    err = capsys.readouterr().err
    assert seen == ["b.png"]  # which may have been mended
    assert "Left out earlier: 2 questions, with the reasons in skipped.csv." in err
    assert "4/4 questions [" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.csv")} == before


def test_the_first_questions_of_data_whose_fields_have_other_names(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (60, 40), "navy").save(tmp_path / "a.png")
    line = {"photo": "a.png", "question": "What?", "truth": "x", "type": "ocr"}
    lines = [line, {**line, "question": "Which?"}, {**line, "photo": "gone.png"}]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = ("--data", str(tmp_path / "own.jsonl"), "--picture-field", "photo")
    assert measure(*data) == 1
    assert 'Line 1 of own.jsonl: "answer" must be a text' in capsys.readouterr().err
    data += ("--answer-field", "truth", "--category-field", "type", "--questions", "2")
    assert measure(*data, "--choices-field", "option") == 1
    assert "in a field option. Name the one that holds the choices" in capsys.readouterr().err
    assert measure(*data) == 0
    rows = load(tmp_path / "out")[1]
    assert {(row.question, row.truth, row.category) for row in rows} == {
        ("What?", "x", "ocr"),
        ("Which?", "x", "ocr"),
    }


def test_a_damaged_picture_ends_the_run_with_its_line(
    measure, data: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[2]]))
    assert measure(*data) == 1
    assert "b.png (line 2 of own.jsonl)" in capsys.readouterr().err
    assert {row.picture for row in load(tmp_path / "out")[1]} == {"a.png"}  # what was done stays


def test_nothing_pruned_is_a_run_as_well(measure, tmp_path: Path) -> None:
    assert measure("--questions", "3", methods=()) == 0
    assert {row.method for row in load(tmp_path / "out")[1]} == {"unpruned", "blank"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--budgets", "0"), "1 or more"),
        (("--questions", "0"), "at least one question"),
        (("--max-new-tokens", "0"), "1 or more"),
        (("--resamples", "0"), "1 or more"),
        (("--methods", "spare", "random", "--reference", "uniform"), "spare, random"),
        (("--methods", "sparse"), "no method 'sparse'"),
        (("--methods", "spare@0"), "Write a layer counted from the end"),
        (("--methods", "uniform@-1"), "'uniform@-1' reads no question, so"),
        (("--images", "x"), "needs --data"),
        (("--data", "hf:owner/name:train", "--images", "x"), "Leave --images out"),
        (("--data", "x.jsonl", "--config", "small"), "--config needs a dataset of the hub"),
        (("--config", "small"), "--config needs a dataset of the hub"),
        (("--data", "x.jsonl", "--set", "held-out"), "--set held-out has questions, and --data"),
        (("--figures", "x"), "--figures is read with --report only"),
        (("--data", "x.jsonl", "--questions", "0"), "--questions must be 1 or more"),
        (("--instruction", "Be brief\udcff"), "The instruction has a character that is not valid"),
        (("--data", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--seeds", "0", "199"), "--seeds is read with --gallery only."),
        (("--report", "o.md", "--out", "o.md"), "o.md/results.csv cannot both be written"),
        (("--report", "o", "--out", "o/run"), "o and o/run/results.csv cannot both be written"),
        (("--report", "r.md", "--figures", "r.md"), "r.md and r.md/a figure cannot both"),
        (("--report", "o/summary.md", "--out", "o"), "o/summary.md cannot both be written"),
        (("--report", "."), "is a folder"),
        (("--report", "x.md", "--figures", __file__), "has to be a folder, but it is a file"),
        (("--set", "divprune.metric=oval"), "Choose one of: cosine, euclidean"),
        (("--set", "divprune.colour=red"), "has no setting 'colour'"),
        (
            ("--methods", "divprune", "--set", "visionzip.contextual=0.5"),
            "'visionzip' has settings but is not measured",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(
    refusal, options: tuple[str, ...], says: str
) -> None:
    assert says in refusal(*options)


def test_a_budget_beyond_the_tokens_is_a_sentence_and_leaves_no_folder(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure("--budgets", "17", "--questions", "2") == 1
    assert "1 to 16" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_method_that_a_model_cannot_run_is_refused_or_left_out(
    measure, tiny_model: LlavaModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mute = LlavaModel(tiny_model.hf, tiny_model.processor, None, name="mute")
    assert measure("--questions", "2", methods=("uniform", "spare"), model=mute) == 1
    assert "SPARE cannot be measured: this model has no CLIP text side" in capsys.readouterr().err
    assert measure("--questions", "2", methods=("all",), model=mute) == 0
    assert "SPARE is left out" in capsys.readouterr().err
    methods = {row.method for row in load(tmp_path / "out")[1]}
    assert "spare" not in methods and {"uniform", "spare-reconstruction"} <= methods


def test_all_methods_may_stand_beside_one_with_settings(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("spare:squash=minmax", "spare@-1,tokens", "random@original")
    assert measure("--questions", "2", methods=("all", "spare", *more)) == 0
    settings, rows, _ = load(tmp_path / "out")
    assert tuple(settings["methods"])[-3:] == more
    relevance = {"layer": -1, "text": "tokens", "guidance_text": "clip"}
    assert settings["variants"] == {
        more[1]: {"relevance": relevance, "positions": "compact"},
        more[2]: {"relevance": settings["relevance"], "positions": "original"},
    }
    assert {row.method for row in rows} == {"unpruned", "blank", *settings["methods"]}
    out, err = capsys.readouterr()
    assert "SPARE, layer -1, each word apart" in out and "Random, original positions" in out
    left_out = set(re.findall(r"^(.+) is left out: ", err, re.MULTILINE))
    measured = set(settings["methods"]) - set(more)
    assert {m.title for name, m in PRUNERS.items() if name not in measured} == left_out


def parse(*words: str) -> argparse.Namespace:
    """What the command makes of words that were typed."""
    parser = argparse.ArgumentParser()
    command.add_options(parser, Settings())
    return parser.parse_args(["--out", "x", *words])


def test_every_method_is_measured_unless_some_are_named() -> None:
    assert list(command._experiment(parse()).methods) == list(PRUNERS)


def test_a_method_is_measured_as_it_is_set_and_kept_apart(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, methods = ("--questions", "3", "--set", "held-out"), ("random", "divprune")
    euclidean = (*few, "--set", "divprune.metric=euclidean", "--reference", "divprune")
    assert measure(*euclidean, methods=methods) == 0
    settings, rows, _ = load(tmp_path / "out")
    label = "divprune:metric=euclidean"
    assert settings["methods"][label] == {"name": "divprune", "metric": "euclidean"}
    assert {row.method for row in rows} == {"unpruned", "blank", "random", label}
    assert "DivPrune (metric=euclidean)" in capsys.readouterr().out
    assert measure(*few, methods=methods) == 1
    assert "holds results of other settings (methods)" in capsys.readouterr().err
    assert measure("--questions", "3", *euclidean[2:], methods=methods) == 0  # goes on


@pytest.mark.parametrize(("seed", "label"), [("5", "random:seed=0"), ("0", "random")])
def test_a_seed_that_is_set_wins_over_that_of_the_run(seed: str, label: str) -> None:
    arguments = parse("--methods", "random", "--seed", seed, "--set", "random.seed=0")
    methods = command._experiment(arguments).methods
    assert methods == {label: PRUNERS["random"]} and methods[label].seed == 0


@pytest.mark.parametrize(
    ("typed", "more", "labels"),
    [
        (("spare", "spare@"), (), ["spare"]),
        (("spare@-1,tokens", "spare@tokens, -1"), (), ["spare@-1,tokens"]),
        (("spare@-1, words",), ("--guidance-text", "words"), ["spare@-1,words"]),
    ],
)
def test_what_is_measured_in_one_way_has_one_label(
    typed: tuple[str, ...], more: tuple[str, ...], labels: list[str]
) -> None:
    arguments = parse("--methods", *typed, "--reference", typed[-1], *more)
    assert list(command._experiment(arguments).methods) == labels
    assert arguments.reference == labels[0]


def test_a_word_that_is_no_set_names_the_sets(measure, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        measure("--set", "seen")
    sets = "held-out, unseen-pairs, held-out-wordings"
    assert f"neither a set of scenes ({sets})" in capsys.readouterr().err


def test_model_options_are_those_of_compare(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Every command that loads a model takes --bits, and hands it on."""
    asked: list[tuple[str, int]] = []

    def load(name: str, device: str, bits: int = 16, **_: Any) -> Any:
        asked.append((device, bits))
        raise ModelError("enough")

    monkeypatch.setattr(command, "load_model", load)
    monkeypatch.setattr("spare_demo.cli.compare.load_model", load)
    monkeypatch.setattr("spare_demo.models.load_model", load)
    picture = tmp_path / "grey.png"
    Image.new("RGB", (8, 8)).save(picture)
    out = ("--out", str(tmp_path / "out"))
    for words in (
        ["compare", str(picture), "Why?", *out],
        ["evaluate", "--questions", "1", *out],
        ["methods"],
    ):
        model = ["--model", str(tiny_folder), "--device", "cpu", "--bits", "4"]
        assert main([*words, *model]) == 1
        assert capsys.readouterr().err.strip() == "enough"
    assert asked == [("cpu", 4)] * 3


def test_a_budget_over_all_views_is_another_measurement(
    measure, tiny_next: Model, tmp_path: Path
) -> None:
    found = {}
    for name, more in (("shares", []), ("together", ["--together"])):
        words = ["--out", str(tmp_path / name), "--budgets", "7", "--questions", "1", "--no-blank"]
        assert measure(*words, *more, methods=("spare",), model=tiny_next) == 0
        settings, rows, _ = load(tmp_path / name)
        assert settings["together"] == bool(more)
        found[name] = next(row.error for row in rows if row.method == "spare")
    assert found["shares"] != found["together"]


def test_shares_of_pictures_of_any_size(
    measure, tiny_qwen: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, size in (("a.png", (300, 80)), ("b.png", (56, 56)), ("c.png", (90, 500))):
        Image.radial_gradient("L").resize(size).convert("RGB").save(tmp_path / name)
    lines = [{"image": f"{x}.png", "question": "What?", "answer": "x"} for x in "abc"]
    (tmp_path / "own.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    words = ["--budgets", "50%", "10%", "--data", str(tmp_path / "own.jsonl")]
    report = ["--report", str(tmp_path / "R.md"), "--figures", str(tmp_path / "pictures")]
    methods = ("divprune", "fastv")
    assert measure(*words, *report, methods=methods, model=tiny_qwen) == 0
    told = capsys.readouterr()
    assert "FastV is measured at 50%: below 35% it has no schedule." in told.err
    assert "10% of the tokens" in told.out
    settings, rows, _ = load(tmp_path / "out")
    assert settings["budgets"] == ["10%", "50%"]
    whole = {row.picture: int(row.budget) for row in rows if row.method == "unpruned"}
    assert len(set(whole.values())) == 3
    assert f"{min(whole.values())} to {max(whole.values())} tokens" in told.out
    assert [row.budget for row in rows if row.method == "divprune"] == ["10%", "50%"] * 3
    figures = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {c["count"] for c in figures["sets"]["data"]["accuracy"]} == {3}
    before = (tmp_path / "out" / "results.csv").read_bytes()
    assert measure(*words, methods=methods, model=tiny_qwen) == 0  # nothing is left to measure
    assert (tmp_path / "out" / "results.csv").read_bytes() == before


def test_a_schedule_is_measured_at_the_budgets_it_meets_and_resumed(
    measure, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = ("--report", str(tmp_path / "R.md"), "--figures", str(tmp_path / "pictures"))
    few, methods = ("--questions", "3", *report), ("random", "fastv", "dart")
    assert measure(*few, methods=methods) == 0
    assert "FastV is measured at 8: below 6 it has no schedule." in capsys.readouterr().err
    _, rows, _ = load(tmp_path / "out")
    budgets = {label: {row.budget for row in rows if row.method == label} for label in methods}
    assert budgets == {"random": {3, 8}, "fastv": {8}, "dart": {8}}
    monkeypatch.setattr(command, "run", lambda *args, **options: iter(()))
    before = (tmp_path / "out" / "results.csv").read_bytes()
    assert measure(*few, methods=methods) == 0  # all of it is there
    assert (tmp_path / "out" / "results.csv").read_bytes() == before
    other = ("--out", str(tmp_path / "other"))
    assert measure("--questions", "3", "--budgets", "3", *other, methods=("fastv",)) == 1
    assert "at least 6 on this model. Leave it out, or give 6 as" in capsys.readouterr().err


def test_a_gallery_is_mined_from_seeds(
    tiny_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["evaluate", "--model", str(tiny_folder), "--device", "cpu"]
    words += ["--gallery", str(tmp_path / "gallery"), "--seeds", "3"]
    assert main([*words, "2"]) == 1
    assert "the smaller one first" in capsys.readouterr().err
    monkeypatch.setattr(command.gallery, "BUDGETS", (4, 8))  # the tiny model has 16 tokens
    assert main([*words, "4"]) == 0
    # Its answers are noise, so none is right.
    printed = capsys.readouterr()
    assert "No surprising case among" in printed.out and "(seeds 3 to 4)" in printed.out
    assert "Try other seeds with --seeds." in printed.err
    data = json.loads((tmp_path / "gallery" / "gallery.json").read_text())
    assert data["cases"] == [] and data["seeds"] == [3, 4] and data["scenes"] == 2
    assert (tmp_path / "gallery" / "index.html").exists()


def test_a_gallery_is_of_the_system_sentence_asked_for(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = []

    def load_model(*given: Any, system: str, **more: Any) -> Model:
        systems.append(system)
        raise ModelError("no model")

    monkeypatch.setattr(command.gallery, "load_model", load_model)
    words = ["--model", str(tiny_folder), "--gallery", str(tmp_path / "gallery")]
    assert main(["evaluate", *words, "--system", "none"]) == 1
    assert systems == ["none"]


@pytest.mark.parametrize("option", ["--methods random", "--skip-bad", "--max-new-tokens 16"])
def test_a_gallery_refuses_options_that_it_does_not_read(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--gallery", str(tmp_path), *option.split()]) == 1
    said = capsys.readouterr().err
    assert f"{option.split()[0]} is not read with --gallery. Leave it out." in said


def test_results_or_a_gallery_and_not_both(
    tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for goals in ([], ["--out", "a", "--gallery", "b"]):
        with pytest.raises(SystemExit):
            main(["evaluate", "--model", str(tiny_folder), *goals])
        assert "--gallery" in capsys.readouterr().err
