"""All methods at this budget, as a visitor asks for them and as one stops them."""

from __future__ import annotations

import re

import pytest
from browsing import MARKS, expect

from spare_demo.pruners import PRUNERS

pytestmark = [*MARKS, pytest.mark.long]


def test_all_methods_come_in_the_order_of_their_kl(visitor) -> None:
    visitor.unfold("all-methods")
    visitor.find("#compare-all").click()
    names = visitor.find("#many .multiples figcaption b")
    expect(names.first).to_be_visible()
    visitor.expect_answers(576, 64, 64)  # Ask is back: every answer is there
    shown = names.all_inner_texts()
    assert len(shown) == len(set(shown)) >= len(PRUNERS) // 2
    captions = visitor.find("#many .multiples figcaption").all_inner_texts()
    kl = [
        float(re.search(r"KL (?:less than |<)?([0-9.e-]+)", text)[1])
        for text in captions
        if "KL " in text
    ]
    assert len(kl) > 10 and kl == sorted(kl)
    right, wrong = (visitor.find(f"#many .grade.{kind}").count() for kind in ("right", "wrong"))
    answers = visitor.find("#many .multiples q")
    declined = answers.filter(has_text="I cannot tell").count()  # neither right nor wrong
    assert right + wrong + declined == answers.count() and right > 0
    expect(visitor.find("#many .figures-row img")).to_be_visible()
    expect(visitor.find("#answers .card h3").nth(1)).to_contain_text("SPARE")  # A and B stay


def test_stopped_in_the_middle_it_keeps_what_is_there(visitor) -> None:
    visitor.unfold("all-methods")
    visitor.find("#compare-all").click()
    expect(visitor.find("#many .multiples img").first).to_be_visible()
    if visitor.find("#stop").is_visible():
        visitor.find("#stop").click()
    expect(visitor.find("#ask")).to_be_visible()
    expect(visitor.find("#many .multiples img").first).to_be_visible()
    visitor.expect_answers(576, 64, 64)
    visitor.ask("How many arrows are there?")  # what follows is served
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#many .multiples")).to_have_count(0)
