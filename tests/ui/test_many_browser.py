"""All methods at this budget, as a visitor asks for them and as one stops them."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from browsing import MARKS, expect

from spare_demo.pruners import PRUNERS
from spare_demo.ui import studies

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


def test_stopped_in_the_middle_it_keeps_what_is_there(visitor, monkeypatch) -> None:
    answer_steps, goes_on = studies.answer_steps, threading.Event()

    def answer_later(*given: Any) -> Any:
        goes_on.wait(120)
        yield from answer_steps(*given)

    monkeypatch.setattr(studies, "answer_steps", answer_later)
    visitor.unfold("all-methods")
    visitor.find("#compare-all").click()
    note = visitor.find("#many .many > .words").first
    expect(note).to_contain_text("The answers follow …")
    visitor.find("#stop").click()
    goes_on.set()
    expect(visitor.find("#ask")).to_be_visible()
    assert note.evaluate("part => getComputedStyle(part, '::after').content") == '" stopped"'
    expect(visitor.find("#many .multiples img").first).to_be_visible()
    visitor.expect_answers(576, 64, 64)
    visitor.ask("How many arrows are there?")  # what follows is served
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#many .multiples")).to_have_count(0)
