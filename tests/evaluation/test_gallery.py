"""Surprising cases: each rule on made-up answers, what is shown, and the shipped ones for real."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from spare_demo.comparison.pipeline import compare
from spare_demo.evaluation.gallery import (
    MOST_SHOWN,
    RULES,
    Case,
    choose_shown,
    find_cases,
    make_gallery,
    read_gallery,
    scene_sheets,
    write_gallery,
)
from spare_demo.evaluation.grading import grade
from spare_demo.evaluation.records import Row
from spare_demo.models import Answer, LlavaModel
from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes import draw, sets

SHIPPED = read_gallery(ASSETS / "examples" / "gallery.json")


def row(method: str, budget: int, right: bool, seed: int = 5, number: int = 0) -> Row:
    prediction = "red" if right else "blue"
    return Row(
        "page", str(seed), number, "What?", "red", prediction, right, "", method, budget, 0, 0
    )


def question(whole: bool, spare: str, other: str, seed: int = 5, number: int = 0) -> list[Row]:
    """Answers at 16, 32 and 64; in `spare` and `other` a "+" for every right one."""
    rows = [row("unpruned", 576, whole, seed, number)]
    for method, marks in (("spare", spare), ("cdpruner", other)):
        budgets = zip((16, 32, 64), marks, strict=True)
        rows += [row(method, k, mark == "+", seed, number) for k, mark in budgets]
    return rows


def found(rows: list[Row]) -> list[tuple[str, tuple[str, ...], int, int | None]]:
    return [(c.rule, c.methods, c.budget, c.wrong_budget) for c in find_cases(rows)]


def test_nothing_surprises_where_more_tokens_help_both_alike() -> None:
    rows = question(True, "-++", "-++") + question(True, "---", "---", number=1)
    assert find_cases(rows) == []


def test_right_at_a_budget_and_wrong_at_the_next() -> None:
    assert found(question(True, "-+-", "-+-")) == [
        ("more-is-worse", ("spare",), 32, 64),
        ("more-is-worse", ("cdpruner",), 32, 64),
    ]
    assert [case[2:] for case in found(question(True, "+--", "+--"))] == [(16, 32)] * 2


def test_methods_that_split_at_a_budget() -> None:
    assert found(question(True, "-++", "--+")) == [("split", ("spare", "cdpruner"), 32, None)]
    assert found(question(True, "--+", "-++")) == [("split", ("cdpruner", "spare"), 32, None)]


def test_pruned_is_right_where_all_tokens_are_wrong() -> None:
    (case, other) = find_cases(question(False, "--+", "--+"))
    assert (case.rule, case.budget, case.methods) == ("gain", 64, ("spare",))
    assert case.predictions == {"spare": "red", "unpruned": "blue"}
    assert other.methods == ("cdpruner",)


def test_each_rule_has_its_turn_and_no_scene_comes_twice() -> None:
    rows: list[Row] = []
    for seed in range(20):
        rows += question(True, "-++", "--+", seed)
    rows += question(True, "+-+", "+-+", 20) + question(False, "--+", "--+", 21)
    shown = choose_shown(find_cases(rows))
    assert len(shown) == MOST_SHOWN and len({case.seed for case in shown}) == MOST_SHOWN
    assert [case.rule for case in shown[:3]] == [*RULES]
    assert [case.seed for case in shown[3:]] == [1, 2, 3, 4, 5]


def test_the_files_hold_what_was_found_and_are_read_back(tmp_path: Path) -> None:
    rows = question(True, "-+-", "-+-", 5) + question(True, "---", "---", 6)
    gallery = make_gallery("m@1", "page", (5, 6), ("spare", "cdpruner"), (16, 32, 64), rows)
    assert (gallery.scenes, gallery.questions) == (2, 2)
    assert gallery.found == {"more-is-worse": 2, "split": 0, "gain": 0}
    write_gallery(tmp_path, gallery)
    assert read_gallery(tmp_path / "gallery.json") == gallery
    assert json.loads((tmp_path / "gallery.json").read_text())["rules"] == RULES
    page = (tmp_path / "index.html").read_text()
    assert "SPARE: right at 32, wrong at 64" in page and "seeds 5 to 6" in page
    assert "SPARE at 32: red; SPARE at 64: blue." in page
    assert "The one shown is chosen, not typical." in page
    assert "name='viewport'" in page  # else a phone shows it as wide as a desk's screen
    assert {file.name for file in tmp_path.glob("*.png")} == {"scene-5.png"}


def test_without_a_case_it_says_how_many_were_tried(tmp_path: Path) -> None:
    gallery = make_gallery(
        "m@1", "page", (5, 5), ("spare",), (16, 32, 64), question(True, "---", "---")
    )
    assert gallery.cases == () and "No surprising case" in gallery.sentence
    assert "1 question about 1 scene (seeds 5 to 5)" in gallery.sentence
    write_gallery(tmp_path, gallery)
    assert gallery.sentence in (tmp_path / "index.html").read_text()


def test_sheets_ask_what_the_page_offers() -> None:
    sheets = list(scene_sheets("page", range(3)))
    for sheet in sheets:
        sample = sets.sample_of("page", int(sheet.picture))
        assert [q.text for q in sheet.questions] == [q.text for q in sample.questions]
        assert [q.answers for q in sheet.questions] == [(q.answer,) for q in sample.questions]


def test_the_shipped_cases_are_some_of_every_rule_that_found_any() -> None:
    assert 1 <= len(SHIPPED.cases) <= MOST_SHOWN
    assert {case.rule for case in SHIPPED.cases} == {r for r, n in SHIPPED.found.items() if n}
    first, last = SHIPPED.seeds
    assert all(first <= case.seed <= last for case in SHIPPED.cases)


@pytest.mark.parametrize("case", SHIPPED.cases, ids=lambda case: f"{case.rule}-{case.seed}")
def test_a_shipped_case_still_shows_what_its_rule_says(built_in: LlavaModel, case: Case) -> None:
    """After a change of the weights the command of docs/CONTRIBUTING.md mines the cases again."""
    picture = draw.draw(sets.scene_of(case.set, case.seed))

    @functools.cache
    def answers(budget: int) -> dict[str, Answer]:
        return compare(built_in, picture, case.question, case.methods, budget, 16).answers

    def right(label: str, budget: int) -> bool:
        return grade(answers(budget)[label].text, case.truth) is True

    assert case.question in {q.text for q in sets.sample_of(case.set, case.seed).questions}
    assert right(case.methods[0], case.budget)
    if case.rule == "more-is-worse":
        assert not right(case.methods[0], case.wrong_budget or 0)
    else:
        assert not right("unpruned" if case.rule == "gain" else case.methods[1], case.budget)


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"rules": {}, "cases": 5}'])
def test_a_damaged_gallery_is_said_in_a_sentence(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "gallery.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=r"gallery\.json is missing or damaged\. Get it again"):
        read_gallery(file)
