"""Terms on the page: explained at the word, and all of them in one list."""

from __future__ import annotations

import browsing
import pytest

from spare_demo.ui.terms import TERMS

expect = browsing.expect

pytestmark = [*browsing.MARKS, pytest.mark.long]


PLACES = {
    ".masthead .term": "visual token",
    "#answers .term >> nth=0": "prefill",
    "#answers .term >> nth=1": "cache",
    "#stage .caption .term": "Jaccard",
    "#budget .term": "budget",
}


def test_a_word_is_explained_under_the_pointer(reader) -> None:
    tip = reader.find("#term-tip")
    for place, word in PLACES.items():
        reader.find(place).hover()
        expect(tip).to_have_text(TERMS[word])
        expect(tip).to_be_in_viewport()
        reader.page.keyboard.press("Escape")
        expect(tip).to_be_hidden()


def test_the_captions_term_stays_while_the_sentence_changes(reader) -> None:
    before = reader.sentence()
    reader.page.evaluate("SPARE.setBudget(20)")
    expect(reader.caption).to_contain_text("of their 20 tokens")
    assert "Jaccard" in before
    expect(reader.find("#stage .caption .term")).to_have_text("Jaccard")


def test_the_budget_is_marked_once_however_often_the_pictures_are_painted(reader) -> None:
    reader.page.evaluate("for (let i = 0; i < 3; i++) SPARE.emit('painted')")
    names = (reader.find("#budget .term").get_attribute("class") or "").split()
    assert names.count("term") == 1


def test_a_tap_explains_and_the_next_one_elsewhere_ends_it(open_window, served) -> None:
    visitor = open_window(served.url, viewport={"width": 390, "height": 844}, has_touch=True)
    tip = visitor.find("#term-tip")
    visitor.find("#answers .term").first.tap()
    expect(tip).to_have_text(TERMS["prefill"])
    visitor.find("#answers h3").first.tap()
    expect(tip).to_be_hidden()


def test_the_names_of_layers_are_explained_on_the_keyboard(reader) -> None:
    reader.find(".layers .more summary").click()
    reader.find("#stage input[value=difference]").focus()
    reader.page.keyboard.press("ArrowDown")
    reader.find(".layers .more summary").click()
    reader.page.keyboard.press("Tab")
    expect(reader.find("#term-tip")).to_have_text(TERMS["weight"])


def test_the_head_leads_to_all_terms(reader) -> None:
    reader.find(".stories summary").click()
    reader.find(".open-terms").click()
    expect(reader.find("#terms dt")).to_have_text([w[0].upper() + w[1:] for w in TERMS])
    expect(reader.find("#terms dl")).to_be_in_viewport()
    expect(reader.find("#terms > .label-wrap")).to_be_focused()
