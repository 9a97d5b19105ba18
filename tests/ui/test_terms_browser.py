"""Terms on the page: explained at the word, and all of them in one list."""

from __future__ import annotations

import pytest

from spare_demo.ui.terms import TERMS

browsing = pytest.importorskip("browsing", reason="playwright is not installed")
expect = browsing.expect

pytestmark = [*browsing.MARKS, pytest.mark.long]


PLACES = {
    ".masthead .term": "visual token",
    "#answers .term >> nth=0": "prefill",
    "#answers .term >> nth=1": "cache",
    "#stage .caption .term": "Jaccard",
    "#budget .term": "budget",
}


def test_a_word_is_explained_under_the_pointer(visitor) -> None:
    tip = visitor.find("#term-tip")
    for place, word in PLACES.items():
        visitor.find(place).hover()
        expect(tip).to_have_text(TERMS[word])
        expect(tip).to_be_in_viewport()
        visitor.page.keyboard.press("Escape")
        expect(tip).to_be_hidden()


def test_the_captions_term_stays_while_the_sentence_changes(visitor) -> None:
    before = visitor.sentence()
    visitor.page.evaluate("SPARE.setBudget(20)")
    expect(visitor.caption).to_contain_text("kept 20 of 576")
    assert "Jaccard" in before
    expect(visitor.find("#stage .caption .term")).to_have_text("Jaccard")


def test_a_tap_explains_and_the_next_one_elsewhere_ends_it(browser, served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    visitor = browsing.Visitor(context.new_page()).open(served.url)
    tip = visitor.find("#term-tip")
    visitor.find("#answers .term").first.tap()
    expect(tip).to_have_text(TERMS["prefill"])
    visitor.find("#answers h3").first.tap()
    expect(tip).to_be_hidden()
    context.close()


def test_the_names_of_layers_are_explained_on_the_keyboard(visitor) -> None:
    visitor.find(".layers .more summary").click()
    visitor.find("#stage input[value=difference]").focus()
    visitor.page.keyboard.press("ArrowDown")
    visitor.find(".layers .more summary").click()
    visitor.page.keyboard.press("Tab")
    expect(visitor.find("#term-tip")).to_have_text(TERMS["weight"])


def test_the_head_leads_to_all_terms(visitor) -> None:
    visitor.find(".stories summary").click()
    visitor.find(".open-terms").click()
    expect(visitor.find("#terms dt")).to_have_text([w[0].upper() + w[1:] for w in TERMS])
    expect(visitor.find("#terms dl")).to_be_in_viewport()
    expect(visitor.find("#terms > .label-wrap")).to_be_focused()
