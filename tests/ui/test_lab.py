"""The Lab's steps without a browser: live figures, cases, the file, and bad input."""

from __future__ import annotations

import gc
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spare_demo.evaluation.experiment import Experiment
from spare_demo.evaluation.records import Row, csv_text
from spare_demo.evaluation.sheets import draw_sheets
from spare_demo.evaluation.summary import summarise
from spare_demo.images.load import file_digest
from spare_demo.models import Model
from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings
from spare_demo.ui import build, examples
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.lab import Bench, Lab, duration


@pytest.fixture
def lab(tiny_model: Model, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Whose steps do not depend on the time that they take."""
    monkeypatch.setattr("spare_demo.ui.lab._STOP_SECONDS", math.inf)
    return Lab(tiny_model, Settings())


@pytest.mark.parametrize("kind", [Lab, Handlers])
def test_nothing_is_left_in_the_temporary_folder(
    kind: type, tiny_model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    built = kind(tiny_model, Settings())
    assert list(tmp_path.iterdir())
    del built
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_run_shows_more_after_every_scene(lab: Lab) -> None:
    shown = list(lab.measure(["random", "spare"], [8, 3], 3, "unseen-pairs", 0))
    first, *scenes, last = shown
    assert first["a"]["choices"][0] == ("SPARE", "spare")  # in the table's order
    assert (first["a"]["value"], first["b"]["value"]) == ("spare", "random")
    assert (first["at"]["choices"], first["at"]["value"]) == ([3, 8], 8)
    assert first["curve"] is None and not first["download"]["interactive"]
    assert [s["bench"].done for s in scenes] == [1, 2, 3]
    assert [*dict.fromkeys(row.picture for row in last["bench"].rows)] == [
        sheet.picture for sheet in draw_sheets("unseen-pairs", 18)
    ][:3]
    for s in scenes:
        summary = s["bench"].summary
        (spare, *_) = s["curve"].data
        assert list(spare.y) == [100 * summary.accuracy["spare", k].value for k in (3, 8)]
        assert f"{s['bench'].done} of 3 scenes" in s["progress"]
        assert "SPARE" in s["curve_words"]
    assert "Done: 3 of 3 scenes" in last["progress"]
    # Of each question an answer with all tokens, and one of each method at each budget.
    asked, answered = map(int, re.findall(r"(\d+) (?:questions|answers)", last["progress"]))
    assert answered == 5 * asked == len(last["bench"].rows)
    lines = Path(last["download"]["value"]).read_bytes().decode().split("\r\n")
    assert len(lines) - 2 == len(last["bench"].rows)
    assert lines[0].startswith("set,picture,number,question")


def test_a_run_is_summarised_once_after_every_scene(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    summarised: list[int] = []

    def count(rows: tuple[Row, ...], **options: Any) -> Any:
        summarised.append(len(rows))
        return summarise(rows, **options)

    monkeypatch.setattr("spare_demo.ui.lab.summarise", count)
    shown = list(lab.measure(["uniform"], [4], 2, "held-out", 0))
    assert summarised == [len(step["bench"].rows) for step in shown[1:-1]]


def test_a_run_that_was_stopped_keeps_what_it_found(lab: Lab) -> None:
    measuring = lab.measure(["uniform"], [4], 50, "held-out", 0)
    before = lab.finished(next(measuring)["bench"])
    assert "Stopped: 0 of 50 scenes; 0 questions, 0 answers." in before["progress"]
    bench = next(measuring)["bench"]
    measuring.close()
    shown = lab.finished(bench)
    assert "Stopped: 1 of 50 scenes" in shown["progress"]
    assert Path(shown["download"]["value"]).exists()
    assert lab.finished(None) == {"progress": ""}


def test_a_long_scene_can_be_stopped_in_its_middle(
    lab: Lab, passes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ["uniform", "fastv"], [12], 1, "held-out", 0
    *_, whole = lab.measure(*plan)
    of_all = passes.count("answer")
    monkeypatch.setattr("spare_demo.ui.lab._STOP_SECONDS", -1)
    steps = list(lab.measure(*plan))
    assert csv_text(steps[-1]["bench"].rows) == csv_text(whole["bench"].rows)
    questions = len({row.number for row in whole["bench"].rows})
    assert steps.count({}) == questions + len(whole["bench"].rows)  # their picks, and each answer
    passes.clear()
    measuring = lab.measure(*plan)
    for _ in range(steps.index({}) + questions + 1):  # as far as the first answer
        next(measuring)
    measuring.close()
    assert 0 < passes.count("answer") < of_all


def test_a_run_keeps_the_visitors_choices_that_it_has(lab: Lab) -> None:
    def values(a: object, b: object, at: object) -> list[object]:
        first = next(
            lab.measure(["spare", "cdpruner", "random"], [8, 3], 1, "held-out", 0, a, b, at)
        )
        assert lab.choices(first["bench"], a, b, at)["b"] == first["b"]
        return [first[name]["value"] for name in ("a", "b", "at")]

    assert values("spare", "random", 3) == ["spare", "random", 3]
    assert values("random", "uniform", 99) == ["random", "spare", 8]
    assert values("uniform", "spare", 8) == ["cdpruner", "spare", 8]
    assert values(None, ["random"], {}) == ["spare", "cdpruner", 8]
    assert lab.choices(None, "spare", "random", 3) == {}


def test_the_page_opens_on_the_a_and_b_of_its_own_run(tiny_model: Model, lab: Lab) -> None:
    parts = {part.elem_id: part for part in build(tiny_model, Settings()).blocks.values()}
    a, b, methods = (parts[f"lab-{name}"].value for name in ("a", "b", "methods"))
    first = next(lab.measure(methods, [4], 1, "held-out", 0))
    assert (a, b) == (first["a"]["value"], first["b"]["value"]) == ("spare", "cdpruner")


def test_stop_does_not_hang_on_menus_that_the_page_may_have_lost(tiny_model: Model) -> None:
    """A menu on the page may still hold what the run does not have; Gradio would refuse it."""
    demo = build(tiny_model, Settings())
    told = demo.config
    names = {part["id"]: part["props"].get("elem_id") for part in told["components"]}
    events = told["dependencies"]
    stops = {e["id"] for e in events if "lab-stop" in {names.get(p) for p, _ in e["targets"]}}
    (after,) = [event for event in events if event["trigger_after"] in stops]
    lab_menus = {"lab-a", "lab-b", "lab-at"}
    assert {names[part] for part in after["outputs"]} >= lab_menus
    menus = [demo.blocks[part] for part in after["inputs"] if names[part] in lab_menus]
    assert [menu.preprocess("gone") for menu in menus] == ["gone"] * 3


@pytest.fixture
def bench() -> Bench:
    """Two methods and three questions: A alone is right on the first, B on the second."""
    (sheet,) = draw_sheets("held-out", 3)
    rows = []
    for number, (one, two) in enumerate([(True, False), (False, True), (True, True)]):
        for method, right in (("spare", one), ("random", two), ("unpruned", True)):
            for k in (3, 8) if method != "unpruned" else (16,):
                said = "yes" if right else "<b>no</b>"
                rows.append(
                    Row(
                        sheet.set, sheet.picture, number, f"q{number}?", "yes", said,
                        right and k != 3, "ocr", method, k, 0.0, 0.0,
                    )
                )  # fmt: skip
    return Bench(Experiment({}, (3, 8)), 1, tuple(rows), 1)


@pytest.fixture
def named(bench: Bench) -> Bench:
    experiment = Experiment({name: PRUNERS[name] for name in ("spare", "random")}, (3, 8))
    return replace(bench, experiment=experiment)


@pytest.mark.parametrize(
    ("a", "b", "k", "questions"),
    [
        ("spare", "random", 8, ["q0?"]),
        ("random", "spare", 8, ["q1?"]),
        ("spare", "random", 3, []),
        ("unpruned", "spare", 3, ["q0?", "q1?", "q2?"]),
        ("unpruned", "random", 8, ["q0?"]),
        ("spare", "spare", 8, []),
    ],
)
def test_cases_are_where_a_is_right_and_b_is_wrong(
    lab: Lab, named: Bench, a: str, b: str, k: int, questions: list[str]
) -> None:
    pictures, rows, words = lab.cases(named, a, b, k)
    assert [row.question for row in rows] == questions
    assert f"on {len(questions)} of 3 questions at {k} tokens" in words
    assert len(pictures) == len(rows)
    for (path, caption), row in zip(pictures, rows, strict=True):
        assert Path(path).exists()
        assert row.question in caption


def test_a_picture_drawn_long_ago_stays_beside_one_drawn_now(
    lab: Lab, named: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "_MOST_FILES", 2)
    rows = [replace(named.rows[0], picture=str(seed)) for seed in range(3)]
    for age, row in enumerate(rows[:2]):
        os.utime(lab._picture(row), (age, age))
    pictures = [lab._picture(rows[place]) for place in (0, 2)]
    assert all(picture.exists() for picture in pictures)


def test_a_case_opens_as_an_example_with_its_true_answer(lab: Lab, named: Bench) -> None:
    (row,) = lab.cases(named, "spare", "random", 8)[1]
    example, seed = lab.case(named, row)
    assert example.answers == {"q0?": "yes"}
    assert example.key == file_digest(example.path)
    assert 0 <= seed < 2**32
    assert seed != lab.case(replace(named, seed=1), row)[1]


def test_the_table_of_skills_is_html_with_its_numbers(lab: Lab, named: Bench) -> None:
    html = lab.skills(named, 8)
    assert "ocr (n=3)" in html
    assert "66.7 (" in html
    assert html.count("<table") == 2 and html.count("95 % intervals") == 1
    assert lab.skills(named, 8) != lab.skills(named, 3)
    empty = lab.look_into(None, "spare", "random", 8)
    assert (empty["cases"]["visible"], empty["cases_words"], empty["skills"]) == (False, "", "")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"methods": []}, "at least one method"),
        ({"budgets": []}, "at least one method and one budget"),
        ({"scenes": 0}, "from 1 to 200"),
        ({"scenes": 201}, "from 1 to 200"),
        ({"scenes": 2.5}, "from 1 to 200"),
        ({"scenes": None}, "from 1 to 200"),
        ({"scenes": "ten"}, "from 1 to 200"),
        ({"which": "train"}, "no set 'train'"),
        ({"budgets": [17]}, "1 to 16"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_measured_is_refused(lab: Lab, changes: dict[str, Any], says: str) -> None:
    asked = {"methods": ["random"], "budgets": [4], "scenes": 1, "which": "held-out", "seed": 0}
    with pytest.raises(ValueError, match=says):
        list(lab.measure(**(asked | changes)))


def test_another_method_than_those_of_the_run_is_refused(lab: Lab, named: Bench) -> None:
    with pytest.raises(ValueError, match="methods of this run"):
        lab.cases(named, "cdpruner", "spare", 8)


def test_only_what_this_model_can_run_is_offered(lab: Lab, tiny_model: Model) -> None:
    for name, method in PRUNERS.items():
        assert (name in lab.methods) == (tiny_model.reason_against(method) is None)
    assert lab.budgets == (16,)


def test_every_budget_offered_can_be_measured(tiny_qwen: Any, monkeypatch: Any) -> None:
    """Also where scenes make fewer tokens than the largest picture would: 60 here, of 80."""
    monkeypatch.setattr("spare_demo.ui.lab.BUDGETS", (4, 70))
    monkeypatch.setattr(type(tiny_qwen), "most_tokens", 80)
    lab = Lab(tiny_qwen, Settings())
    assert lab.budgets == (4, 70)
    *_, last = lab.measure(["uniform"], lab.budgets, 1, "held-out", 0)
    assert "Done: 1 of 1 scenes" in last["progress"]
    rows = last["bench"].rows
    assert {row.budget for row in rows if row.method == "uniform"} == {4, 70}
    assert all(abs(row.kl) < 1e-6 for row in rows if row.budget == 70)


def test_a_schedule_is_measured_at_the_budgets_it_meets(lab: Lab) -> None:
    with pytest.raises(ValueError, match=r"FastV cannot meet any.* at least 6, or leave"):
        next(lab.measure(["random", "fastv"], [3, 4], 1, "held-out", 0))
    *_, last = lab.measure(["random", "fastv"], [3, 8], 1, "held-out", 0)
    bench = last["bench"]
    assert {row.budget for row in bench.rows if row.method == "fastv"} == {8}
    assert "questions at 8 tokens" in lab.cases(bench, "random", "fastv", 8)[2]
    pictures, rows, words = lab.cases(bench, "random", "fastv", 3)
    assert not pictures and not rows
    assert words.startswith("FastV was not measured at 3 tokens: its schedule needs a budget of")
    assert "FastV" in lab.skills(bench, 3)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7_800, "2 h 10 min")]
)
def test_durations_are_read_at_a_glance(seconds: float, words: str) -> None:
    assert duration(seconds) == words
