"""A visitor asks which token carries the answer, looks at the map and asks without the token."""

from __future__ import annotations

import json
import re

import browsing
import pytest

from spare_demo.ui import wiring
from spare_demo.ui.visit import Visit

expect = browsing.expect

pytestmark = [*browsing.MARKS, pytest.mark.long]

BUDGET, OTHER = 32, 64  # marks below the slider


def test_the_token_carrying_the_answer_is_shown_and_removed(visitor, opened: Visit, served) -> None:
    page, model, view = visitor.page, served.model, opened.exploration.view
    label = visitor.find(".layers label:has([value=carrier])")
    expect(label).to_be_hidden()
    page.get_by_role("button", name=str(BUDGET), exact=True).click()
    visitor.expect_answers(576, BUDGET, BUDGET)
    visitor.find("#find-carrier").click()
    expect(visitor.find("#stage .more summary")).to_have_text("Carrier")
    expect(visitor.find(".layers input[value=carrier]")).to_be_checked()
    expect(visitor.find("#carrier section")).to_have_count(2)
    expect(visitor.find("#carrier")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    below = """() => document.querySelector('#carrier').getBoundingClientRect().top
        - document.querySelector('#further').getBoundingClientRect().bottom"""
    assert 0 <= page.evaluate(below) <= 24
    page.set_viewport_size(browsing.WINDOW)

    # The map: every kept patch, and what one answer after the other says of it.
    kept = opened.exploration.selections(BUDGET)["A"]
    answer = model.answer(view, kept, 12)
    losses = {}
    for token in kept.kept.tolist():
        without = type(kept)(kept.order[kept.order != token])
        forced = model.score(view, without, answer.token_ids)
        words = len(answer.token_ids) - 1
        assert answer.ended == "end"
        losses[token] = sum(answer.log_probabilities[:words]) - sum(
            forced.log_probabilities[:words]
        )
    expect(visitor.find("#stage .caption")).to_contain_text("the answer loses without each of")
    visitor.layer("carrier")
    caption = visitor.caption
    top = max(losses, key=lambda token: losses[token])
    expect(caption).to_contain_text(f"A SPARE's answer “{answer.text}” loses without each of")
    expect(caption).to_contain_text(f"without the patch in {opened.canvas.where(top)}, framed")
    painted = visitor.picture()
    for token in range(view.tokens.n):
        x0, y0, x1, y1 = opened.canvas.rectangle(token)
        red, green, blue = painted.getpixel(((x0 + x1) // 2, (y0 + y1) // 2))
        assert (red == green == blue) == (token not in losses)  # what was dropped has no colour
    visitor.layer("carrier", of="B")
    expect(caption).to_contain_text("B CDPruner's answer")

    # Without it, the set by hand answers as the model does.
    button = visitor.find("#carrier .carried.a button")
    (token,) = {*kept.order.tolist()} - {*json.loads(button.get_attribute("data-others"))}
    button.click()
    without = type(kept)(kept.order[kept.order != token])
    own = visitor.find("#own-answer")
    expect(own.locator("h3")).to_have_text(f"Your set · {BUDGET - 1}")
    expect(own).to_contain_text("KL of the first word")
    expect(own.locator(".answer-text")).to_have_text(model.answer(view, without, 12).text)
    assert page.evaluate("SPARE.state.own.reduce((sum, flag) => sum + flag)") == BUDGET - 1
    assert page.evaluate("token => SPARE.state.own[token]", token) == 0

    # Another budget was not measured, and other picks clear the words.
    visitor.layer("carrier")
    page.get_by_role("button", name=str(OTHER), exact=True).click()
    expect(caption).to_contain_text(f"Measured at {BUDGET} tokens, not at {OTHER}")
    visitor.expect_answers(576, OTHER, OTHER)
    visitor.choose_method("b", "Uniform grid")
    expect(visitor.find("#carrier")).to_be_hidden()
    expect(caption).to_have_text(re.compile("^Press “Which token carries the answer"))


def test_a_search_that_was_stopped_says_so(visitor) -> None:
    visitor.page.evaluate("SPARE.setBudget(576, true)")
    visitor.expect_answers(576, 576, 576)
    visitor.find("#find-carrier").click()
    expect(visitor.find("#carrier .carried.a")).to_contain_text("of 576 tokens left out …")
    expect(visitor.find("#carrier .while-asked")).to_contain_text("Stop ends it")
    after = "p => getComputedStyle(p, '::after').content"
    said = visitor.find("#carrier .carried.a p")
    assert said.evaluate(after) == "none"
    visitor.find("#stop").click()
    expect(visitor.find("#ask")).to_be_visible()
    expect(visitor.find("#carrier .while-asked")).not_to_be_visible()
    assert said.evaluate(after) == '" stopped"'


def test_the_token_found_before_stop_can_be_removed(visitor) -> None:
    visitor.page.get_by_role("button", name="192", exact=True).click()
    visitor.expect_answers(576, 192, 192)
    visitor.find("#find-carrier").click()
    button = visitor.find("#carrier .carried.a .remove-carrier")
    expect(button).to_have_accessible_name("Remove the token with the largest loss from A")
    visitor.find("#stop").click()
    expect(visitor.find("#ask")).to_be_visible()
    expect(visitor.find("#carrier .remove-carrier")).to_have_count(1)  # B is not through
    button.click()
    expect(visitor.find("#own-answer h3")).to_have_text("Your set · 191")
    others = json.loads(button.get_attribute("data-others"))
    own = visitor.page.evaluate("[...SPARE.state.own.keys()].filter(i => SPARE.state.own[i])")
    assert own == sorted(others)


def test_a_search_gives_way_once_its_time_is_over_and_others_wait(
    visitor, served, photo_file, monkeypatch
) -> None:
    monkeypatch.setattr(wiring, "STUDY_SECONDS", 0.0)
    visitor.page.evaluate("SPARE.setBudget(576, true)")
    visitor.expect_answers(576, 576, 576)
    visitor.find("#find-carrier").click()
    said = visitor.find("#carrier .carried.a p").first
    expect(said).to_contain_text("of 576 tokens left out …")
    kept = served.call("select", [served.picture(photo_file), "What is this?", "spare", 5, 0])
    assert kept.status_code == 200
    expect(visitor.find("#message")).to_contain_text("Others are waiting")
    expect(visitor.find("#ask")).to_be_visible()
    assert said.evaluate("p => getComputedStyle(p, '::after').content") == '" stopped"'
