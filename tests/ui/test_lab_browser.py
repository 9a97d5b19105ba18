"""The Lab in headless Chromium: run, watch, stop, open a case, download."""

from __future__ import annotations

import csv
import itertools
import re
import time
from pathlib import Path
from typing import Any

import pytest
from browsing import MARKS, Visitor, expect

from spare_demo.evaluation import run as measuring

pytestmark = MARKS


@pytest.fixture
def lab(visitor) -> Any:
    """The Lab's tab, with two methods at one budget."""
    page = visitor.page
    page.get_by_role("tab", name="Lab").click()
    for label in ("Random", "Uniform grid"):
        page.locator("#lab-methods").get_by_role("button", name=f"Remove {label}").press("Enter")
    for k in (16, 32, 128, 192):
        page.locator("#lab-budgets").get_by_label(str(k), exact=True).uncheck()
    return page


def start(page: Any, scenes: int) -> None:
    page.locator("#lab-scenes input").fill(str(scenes))
    page.locator("#lab-run").click()


def right_in_a_while(*_: object) -> bool:
    time.sleep(0.2)
    return True


def test_a_double_click_on_run_begins_a_run_and_does_not_stop_it(lab) -> None:
    lab.locator("#lab-scenes input").fill("1")
    lab.locator("#lab-run").click()
    box = lab.locator("#lab-stop").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    lab.mouse.move(*middle)  # the second click, however late it comes
    lab.mouse.down(click_count=2)
    lab.mouse.up(click_count=2)
    expect(lab.locator("#lab-progress")).to_contain_text("Done: 1 of 1 scenes")


def test_who_runs_on_the_keyboard_stays_on_the_button(lab) -> None:
    lab.locator("#lab-scenes input").fill("1")
    lab.locator("#lab-run").press("Enter")
    expect(lab.locator("#lab-stop")).to_be_focused()
    expect(lab.locator("#lab-progress")).to_contain_text("Done: 1 of 1 scenes")
    expect(lab.locator("#lab-run")).to_be_focused()


def test_choices_are_one_group_for_a_screen_reader_and_the_arrow_keys(lab) -> None:
    budgets = lab.get_by_role("group", name="Budget", exact=True).get_by_role("radio")
    budgets.and_(lab.get_by_label("64", exact=True)).press("ArrowRight")
    expect(lab.locator("#lab-at label.selected")).to_have_text("128")
    expect(budgets.and_(lab.get_by_label("128", exact=True))).to_be_focused()


def test_run_looks_like_ask_in_light_and_dark(lab) -> None:
    seen = """() => ['#lab-run', '#ask'].map(button => {
        const {backgroundColor, color} = getComputedStyle(document.querySelector(button));
        return [backgroundColor, color];
    })"""
    lab.emulate_media(reduced_motion="reduce")  # else the colours change by and by
    for _ in ("light", "dark"):
        run, ask = lab.evaluate(seen)
        assert run == ask
        lab.evaluate("document.body.classList.toggle('dark')")


def test_on_paper_the_plan_stands_above_what_was_found(lab) -> None:
    """Broken across sheets beside each other, the plan's last lines lay under the next title."""
    lab.emulate_media(media="print")
    plan, found = (lab.locator(part).bounding_box() for part in ("#lab-plan", "#lab-found"))
    lab.emulate_media(media="screen")
    assert plan["y"] + plan["height"] <= found["y"]


def test_a_run_fills_in_and_a_case_opens_with_one_click(
    lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Whatever the weights: all tokens are right, then SPARE, then CDPruner, and so on by turns.
    turns = itertools.cycle([True, True, False])
    monkeypatch.setattr(measuring, "is_right", lambda prediction, asked: next(turns))
    start(lab, 2)
    expect(lab.locator("#lab-progress")).to_contain_text("Done: 2 of 2 scenes")
    expect(lab.locator("#lab-run")).to_be_visible()
    expect(lab.locator("#lab-curve .js-plotly-plot .main-svg").first).to_be_visible()
    row = lab.locator("#lab-skills tr", has=lab.get_by_role("rowheader", name="SPARE")).first
    expect(row).to_contain_text(re.compile(r"100\.0 \(\d+\.\d to 100\.0\)"))
    words = lab.locator("#lab-cases-words")
    expect(words).to_contain_text("questions at 64 tokens")  # filled in once the run has ended
    found = re.search(r"on (\d+) of (\d+) questions at 64 tokens", words.inner_text())
    assert found and found[1] == found[2]

    with lab.expect_download() as download:
        lab.locator("#lab-download").click()
    download.value.save_as(tmp_path / "lab.csv")
    with open(tmp_path / "lab.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 3 * int(found[1])
    assert {row["right"] for row in rows if row["method"] == "cdpruner"} == {"0"}

    case = lab.locator("#lab-cases button").first
    question = case.inner_text().split(" A: ")[0]
    case.click()
    expect(lab.get_by_role("tab", name="Compare")).to_have_attribute("aria-selected", "true")
    expect(lab.locator("#question textarea")).to_have_value(question.strip())
    expect(lab.locator("#truth")).to_contain_text("True answer")
    expect(lab.locator("#answers h3").nth(2)).to_contain_text("CDPruner · 64")
    expect(lab.locator("#answers .figures")).to_have_text([re.compile("prefill")] * 3)
    assert lab.evaluate("window.scrollY") == 0


def test_stop_keeps_what_was_found(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "is_right", right_in_a_while)  # each scene is drawn anew
    start(lab, 150)
    expect(lab.locator("#lab-progress")).to_contain_text(re.compile(r"[1-9]\d* of 150 scenes"))
    expect(lab.locator("#lab-curve .js-plotly-plot .main-svg").first).to_be_visible()
    lab.evaluate("() => SPARE.on('film-over', () => { SPARE.filmIsOver = true })")
    lab.locator("#lab-stop").click()
    expect(lab.locator("#lab-progress")).to_contain_text("Stopped")
    expect(lab.locator("#lab-run")).to_be_visible()
    expect(lab.locator("#lab-download")).to_be_enabled()
    assert lab.evaluate("() => SPARE.filmIsOver") is None  # one may be made beside it
    expect(lab.locator("#lab-cases-words")).to_contain_text("questions at 64 tokens")
    # Another pair is looked into without running anything again.
    lab.locator("#lab-a input").click()
    lab.get_by_role("option", name="All tokens", exact=True).click()
    expect(lab.locator("#lab-cases-words")).to_contain_text("All tokens is right")
    expect(lab.locator("#lab-looked .error")).to_be_hidden()


def test_run_begins_anew_right_after_stop(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "is_right", right_in_a_while)
    start(lab, 150)
    expect(lab.locator("#lab-progress")).to_contain_text(re.compile(r"[1-9]\d* of 150 scenes"))
    lab.locator("#lab-scenes input").fill("1")
    lab.locator("#lab-stop").click()
    lab.locator("#lab-run").click()
    expect(lab.locator("#lab-progress")).to_contain_text("Done: 1 of 1 scenes")


def test_who_waits_is_told_their_place_and_can_stop(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "is_right", right_in_a_while)
    start(lab, 150)
    expect(lab.locator("#lab-progress")).to_contain_text("of 150 scenes")
    other = Visitor(lab.context.new_page()).open(lab.url).page
    other.get_by_role("tab", name="Lab").click()
    start(other, 1)
    expect(other.locator("#lab-looked")).to_contain_text("queue: 1/1")
    other.wait_for_timeout(600)  # else the click is taken for the second one of Run's
    other.locator("#lab-stop").click()
    expect(other.locator("#lab-run")).to_be_visible()
    expect(other.locator("#lab-looked")).not_to_contain_text("queue")
    expect(other.locator("#lab-looked .error")).to_be_hidden()
    lab.locator("#lab-stop").click()
    expect(lab.locator("#lab-run")).to_be_visible()


def test_a_wrong_number_of_scenes_is_a_sentence_and_nothing_scrolls_sideways(lab) -> None:
    lab.set_viewport_size({"width": 390, "height": 900})
    start(lab, 999)
    expect(lab.locator("#lab-message")).to_contain_text("from 1 to 200")
    expect(lab.locator("#lab-run")).to_be_visible()
    lab.wait_for_timeout(600)  # else the click is taken for the second one of Run's
    start(lab, 1)
    expect(lab.locator("#lab-progress")).to_contain_text("Done")
    expect(lab.locator("#lab-skills table").first).to_be_visible()
    for width in (390, 1024, 1440):
        lab.set_viewport_size({"width": width, "height": 900})
        assert lab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tables = lab.locator("#lab-skills .scroll")
        hidden = tables.evaluate_all("all => all.map(part => part.scrollWidth - part.clientWidth)")
        assert len(hidden) == 2 and max(hidden) == 0, width
        run = lab.locator("#lab-run").bounding_box()
        assert run and run["x"] + run["width"] <= width
