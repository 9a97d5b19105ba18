"""The budget's box: what is typed is drawn once it is meant; what cannot be is a sentence."""

from __future__ import annotations

import pytest
from browsing import MARKS, expect

pytestmark = [*MARKS, pytest.mark.long]
SENTENCE = "Type a whole number from 1 to 576."

# Every budget that is painted from now on.
WATCH = "() => { window.painted = []; SPARE.on('painted', () => painted.push(SPARE.state.k)); }"


def test_a_number_typed_digit_by_digit_is_not_drawn_on_the_way(visitor) -> None:
    number = visitor.find("#budget input[type=number]")
    visitor.page.evaluate(WATCH)
    number.select_text()
    number.press_sequentially("577")
    expect(visitor.find("#budget-message")).to_have_text(SENTENCE)
    expect(visitor.caption).to_contain_text("of their 64 tokens")
    number.press("Enter")
    expect(number).to_have_value("576")
    visitor.expect_answers(576, 576, 576)
    expect(visitor.find("#budget-message")).to_have_text(SENTENCE)
    assert set(visitor.page.evaluate("window.painted")) <= {64, 576}


def test_what_rests_for_a_while_is_drawn_and_taken_back_when_it_becomes_wrong(visitor) -> None:
    number = visitor.find("#budget input[type=number]")
    number.select_text()
    number.press_sequentially("57")
    expect(visitor.caption).to_contain_text("of their 57 tokens")
    number.press("7")
    expect(visitor.caption).to_contain_text("of their 64 tokens")


# What stands in the box before is 64 at first, then the mark.
CORRECTED = {"": "64", "0": "1", "-3": "1", "9999": "576", "2.5": "32"}


def test_the_box_never_keeps_what_cannot_be(visitor) -> None:
    number = visitor.find("#budget input[type=number]")
    for typed, left in CORRECTED.items():
        number.fill(typed)
        expect(visitor.find("#budget-message")).to_have_text(SENTENCE)
        number.press("Tab")
        expect(number).to_have_value(left)
        expect(visitor.caption).to_contain_text(f"of their {left} token")
        visitor.expect_answers(576, int(left), int(left))
        expect(visitor.find("#budget-message")).to_have_text(SENTENCE)
        visitor.find("#marks").get_by_role("button", name="32", exact=True).click()
        expect(visitor.find("#budget-message p")).to_have_count(0)  # in the last case nothing moves
        visitor.expect_answers(576, 32, 32)


def test_enter_asks_at_the_number_in_the_box(visitor) -> None:
    number = visitor.find("#budget input[type=number]")
    number.fill("40")
    number.press("Enter")
    visitor.expect_answers(576, 40, 40)
    number.press("ArrowUp")
    expect(visitor.caption).to_contain_text("of their 41 tokens")


def test_an_arrow_of_the_box_is_drawn_at_once_in_firefox_too(visitor) -> None:
    kept = visitor.find("#budget input[type=number]").evaluate("""box => {
        box.value = 65;
        const inputType = 'insertReplacementText';  // as Firefox has it
        box.dispatchEvent(new InputEvent('input', {bubbles: true, inputType}));
        return SPARE.state.k;
    }""")
    assert kept == 65


def test_one_press_of_ask_is_enough_after_a_number_was_typed(visitor) -> None:
    question = "How many objects are there?"
    visitor.find("#question textarea").fill(question)
    visitor.find("#budget input[type=number]").fill("40")
    visitor.find("#ask").hover()
    visitor.page.mouse.down()
    visitor.page.wait_for_timeout(500)  # in which the page answers at a budget that it took
    visitor.page.mouse.up()
    expect(visitor.find("#answers .asked-question")).to_have_attribute("title", question)
    visitor.expect_answers(576, 40, 40)
