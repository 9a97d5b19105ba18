"""Chips, the search for a disagreement and guessing first, in a browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import browsing
import pytest
from test_access_browser import grave

from spare_demo.evaluation.gallery import read_gallery
from spare_demo.pruners import PRUNERS
from spare_demo.ui.gallery import GALLERY_FILE

expect = browsing.expect

pytestmark = [*browsing.MARKS, pytest.mark.long]


@pytest.fixture
def scene(visitor) -> Iterator[list[str]]:
    """A new scene on the page, answered; the further questions it offers."""
    offered = visitor.find("#chips .chip")
    first = visitor.page.evaluate("SPARE.state.data.key")
    visitor.find("#scene").click()
    visitor.page.wait_for_function("key => SPARE.state.data.key !== key", arg=first)
    visitor.expect_answers(576, 64, 64)
    expect(offered.first).to_be_visible()
    yield offered.all_inner_texts()


def test_a_chip_asks_its_question_and_the_true_answer_is_known(visitor, scene: list[str]) -> None:
    before = visitor.find("#question textarea").input_value()
    assert before not in scene
    visitor.find("#chips .chip").nth(len(scene) - 1).click()
    expect(visitor.find("#question textarea")).to_have_value(scene[-1])
    expect(visitor.find("#answers .asked")).to_have_attribute("data-question", scene[-1])
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#truth")).to_contain_text("True answer")
    assert visitor.find("#chips .chip").all_inner_texts() == [before, *scene[:-1]]


def test_new_scene_stays_under_the_pointer_while_its_answer_comes(visitor) -> None:
    button = visitor.find("#scene")
    before, key = button.bounding_box(), visitor.page.evaluate("SPARE.state.data.key")
    visitor.page.evaluate(
        """() => {
            const places = window.places = [];
            const note = () => {
                const box = document.querySelector('#scene')?.getBoundingClientRect();
                if (box) places.push(box.y + box.height / 2);
                requestAnimationFrame(note);
            };
            note();
        }"""
    )
    button.click()
    visitor.page.wait_for_function("key => SPARE.state.data.key !== key", arg=key)
    visitor.expect_answers(576, 64, 64)
    places = visitor.page.evaluate("places")
    assert max(abs(y - places[0]) for y in places) <= before["height"]


def test_a_double_click_on_ask_hits_neither_stop_nor_new_scene(visitor) -> None:
    question = "How many objects are there?"
    for pause in (60, 200):
        visitor.find("#question textarea").fill(question)
        box = visitor.find("#ask").bounding_box()
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        visitor.page.mouse.click(*middle)
        visitor.page.wait_for_timeout(pause)
        visitor.page.mouse.click(*middle)
        expect(visitor.find("#answers .asked")).to_have_attribute("data-question", question)
        visitor.expect_answers(576, 64, 64)
        expect(visitor.find("#question textarea")).to_have_value(question)
        question = "What color is the triangle?"


def test_another_question_asked_at_once_is_no_double_click(visitor) -> None:
    visitor.ask("How many objects are there?" + " please" * 400)
    expect(visitor.find("#message")).to_contain_text("Shorten it")  # refused: Ask is back
    visitor.ask("What is red?")
    expect(visitor.find("#answers .asked")).to_have_attribute("data-question", "What is red?")


def test_chips_are_hidden_beside_an_upload_and_gone_once_it_is_asked(visitor, wide_picture) -> None:
    expect(visitor.find("#chips .chip").first).to_be_visible()
    visitor.upload(wide_picture)
    expect(visitor.find("#chips .chip").first).not_to_be_visible()
    visitor.ask("What is it?")
    expect(visitor.find("#chips .chip")).to_have_count(0)


def test_a_search_ends_on_a_scene_that_splits_a_and_b(visitor) -> None:
    visitor.find("#marks").get_by_role("button", name="32", exact=True).click()
    visitor.expect_answers(576, 32, 32)
    visitor.find("#find-disagreement").click()
    expect(visitor.find("#tried")).to_contain_text("A and B answer differently")
    visitor.expect_answers(576, 32, 32)
    texts = visitor.find("#answers .card:is(.a, .b) .answer-text").all_inner_texts()
    assert texts[0] != texts[1]
    asked = visitor.find("#answers .asked").get_attribute("data-question")
    expect(visitor.find("#question textarea")).to_have_value(asked)
    expect(visitor.find("#chips .chip").filter(has_text=asked)).to_have_count(0)
    expect(visitor.find("body")).not_to_have_class(re.compile("asked-anew"))
    visitor.find("#ask").click()
    expect(visitor.find("#tried p")).to_have_count(0)


def test_a_search_that_is_stopped_in_its_first_scene_says_so(visitor, monkeypatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr("spare_demo.ui.find.find_split", lambda *_: goes_on.wait(120) and None)
    visitor.find("#find-disagreement").click()
    words = visitor.find("#tried .words")
    expect(words).to_have_text("Asking about the first scene …")
    after = "part => getComputedStyle(part, '::after').content"
    assert words.evaluate(after) == "none"
    visitor.find("#stop").click()
    expect(visitor.find("#stop")).to_be_hidden()
    goes_on.set()
    assert words.evaluate(after) == '" stopped"'
    visitor.unfold("all-methods")
    visitor.find("#compare-all").click()
    expect(visitor.find("#many .multiples img").first).to_be_visible()
    assert words.evaluate(after) == '" stopped"'  # whatever runs now


def test_answers_stay_hidden_until_both_are_guessed(visitor) -> None:
    a, b = (visitor.find(f"#answers .card.{slot} .answer-text") for slot in "ab")
    whole, bars = visitor.find("#answers .card.all .answer-text"), visitor.find(".first-words")
    toggle = visitor.find("#guess-first input")
    visitor.expect_answers(576, 64, 64)
    toggle.check()
    expect(a).to_be_visible()  # it was seen already
    visitor.find("#examples button").nth(1).click()
    guesses = visitor.find("#answers .guess")
    expect(guesses).to_have_count(2)
    visitor.expect_answers(576, 64, 64)
    expect(whole).to_be_visible()
    for part in (a, b, bars, visitor.find("#answers .card.a .grade")):
        expect(part).not_to_be_visible()
    # Neither is read to those who do not see the page.
    spoken = visitor.find("#answers").aria_snapshot()
    assert spoken.count("Yes") == 2 and "same as all tokens" not in spoken
    assert grave(visitor.page) == []
    same = [t.inner_text().split() for t in (whole,)] * 2
    guesses.nth(0).get_by_role("button", name="Yes").focus()
    visitor.page.keyboard.press("Enter")
    expect(a).to_be_visible()
    for part in (b, bars):
        expect(part).not_to_be_visible()
    expect(visitor.find("#answers .card.b .guess button").first).to_be_focused()
    visitor.page.keyboard.press("Tab")
    visitor.page.keyboard.press("Enter")  # No
    for part in (b, bars):
        expect(part).to_be_visible()
    survived = [text.split() == kept for text, kept in zip(
        (a.inner_text(), b.inner_text()), same, strict=True)]  # fmt: skip
    verdicts = ["right" if guess == kept else "wrong"
                for guess, kept in zip((True, False), survived, strict=True)]  # fmt: skip
    expect(visitor.find(".guess-result")).to_have_text([f"You were {v}." for v in verdicts])
    score = visitor.find("#guess-score")
    expect(score).to_have_text(f"{verdicts.count('right')} of 2 right")
    assert grave(visitor.page) == []
    # The same comparison again is no new guess, and counts no more.
    visitor.find("#ask").click()
    visitor.expect_answers(576, 64, 64)
    expect(a).to_be_visible()
    expect(score).to_have_text(f"{verdicts.count('right')} of 2 right")
    toggle.uncheck()
    expect(visitor.find(".guess-result")).to_have_count(0)
    visitor.find("#examples button").nth(2).click()
    expect(visitor.find("#answers .asked")).to_have_attribute(
        "data-question", visitor.find("#examples button").nth(2).get_attribute("title")
    )
    visitor.expect_answers(576, 64, 64)
    expect(b).to_be_visible()
    expect(guesses).to_have_count(0)


def test_a_surprising_case_opens_with_its_question_methods_and_budget(visitor) -> None:
    gallery = read_gallery(GALLERY_FILE)
    case = gallery.cases[-1]
    visitor.curve()  # an empty plot is what axe does not like
    visitor.find("#gallery > button").click()
    expect(visitor.find("#gallery")).to_contain_text(gallery.sentence)
    first, last = gallery.seeds
    expect(visitor.find("#gallery code")).to_contain_text(f"--gallery DIR --seeds {first} {last}")
    thumbnails = visitor.find("#gallery-cases button:has(img)")
    expect(thumbnails).to_have_count(len(gallery.cases))
    assert grave(visitor.page) == []
    thumbnails.last.click()
    expect(visitor.find("#question textarea")).to_have_value(case.question)
    expect(visitor.find("#answers .asked")).to_have_attribute("data-question", case.question)
    visitor.expect_answers(576, case.budget, case.budget)
    expect(visitor.find("#answers .card.a h3")).to_contain_text(PRUNERS[case.methods[0]].title)
    expect(visitor.find("#answers .card.a .grade")).to_have_text(re.compile("right"))
    expect(visitor.find("#truth")).to_contain_text(f"True answer: {case.truth}")
    # Where more tokens mislead a method, that is what is shown.
    place, misled = next((i, c) for i, c in enumerate(gallery.cases) if c.wrong_budget)
    thumbnails.nth(place).click()
    expect(visitor.find("#answers .asked")).to_have_attribute("data-question", misled.question)
    visitor.expect_answers(576, misled.wrong_budget, misled.wrong_budget)
    expect(visitor.find("#answers .card.a .grade")).not_to_have_text(re.compile("✓"))
