"""The answers on the page, read back from their HTML."""

from __future__ import annotations

import dataclasses
import re

import pytest
from visits import with_result

from spare_demo.analysis.answer_shift import Change
from spare_demo.analysis.first_words import Candidate
from spare_demo.ui.answers import answers_html, asked_html, own_html
from spare_demo.ui.visit import Visit

EVIL = "<script>alert('x')</script>"


def said(visit: Visit, **texts: str) -> Visit:
    """The visit with other words in its answers."""
    answers = {
        label: dataclasses.replace(answer, text=texts.get(label, answer.text))
        for label, answer in visit.result.answers.items()
    }
    return with_result(visit, answers=answers)


def cards(html: str) -> list[str]:
    return re.findall(r"<section.*?</section>", html)


def test_three_answers_stand_side_by_side_with_their_sizes(visit) -> None:
    first, a, b = cards(answers_html(visit, 5))
    assert "All 16 tokens" in first
    assert "A SPARE · 5" in a and "B CDPruner · 5" in b


def test_one_long_answer_makes_the_type_of_all_smaller(visit) -> None:
    assert 'class="answers"' in answers_html(said(visit, A="seven " * 20), 5)
    assert 'class="answers long"' in answers_html(said(visit, A="seven " * 21), 5)
    answering = with_result(said(visit), partial_text={"B": "seven " * 21})
    assert 'class="answers long"' in answers_html(answering, 5)
    assert 'class="card own"' in own_html("seven " * 20, 5, None, None, None)
    assert 'class="card own long"' in own_html("seven " * 21, 5, None, None, None)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("two red stars", "same as all tokens"),
        ("one red star", "differs from word 1 on"),
        ("two red circles", "differs from word 3 on"),
        ("two red", "differs from word 3 on"),
        ("two red stars here", "differs from word 4 on"),
        ("", "differs from word 1 on"),
    ],
)
def test_each_pruned_answer_is_compared_with_the_whole(visit, text: str, verdict: str) -> None:
    html = answers_html(said(visit, unpruned="two red stars", A=text), 5)
    assert verdict in cards(html)[1]
    assert ("ends here" in html) == (text in ("", "two red"))
    assert "verdict" not in cards(html)[0]
    assert "grade" not in html, "nobody knows the true answer"


@pytest.mark.parametrize(
    ("text", "words"),
    [("Red.", "✓ right"), ("blue", "✗ wrong: it is red"), ("it may be red", "true answer: red")],
)
def test_what_is_true_comes_before_what_agrees(visit, text: str, words: str) -> None:
    known = dataclasses.replace(said(visit, unpruned=text, A=text, B="green"), truth="red")
    whole, a, b = cards(answers_html(known, 5))
    assert words in whole and words in a
    assert a.index(words) < a.index("same as all tokens")
    assert b.index("✗ wrong") < b.index("differs from word 1 on")
    own = own_html(text, 3, known.result.answers["A"], None, None, "red")
    assert words in own and "verdict" not in own


def test_an_answer_that_is_not_finished_is_not_graded(visit) -> None:
    writing = with_result(visit, answers={}, partial_text={"unpruned": "re", "A": "blue"})
    assert "grade" not in answers_html(dataclasses.replace(writing, truth="red"), 5)


def test_answers_stand_under_what_they_are_of(visit) -> None:
    request = dataclasses.replace(visit.request, question=f' What is "{EVIL}"? ')
    html = asked_html(
        dataclasses.replace(visit, request=request, path="/tmp/f00d/photo.png"), 7, "<p>here</p>"
    )
    assert "budget 5" in html, "it is the one that was asked, wherever the slider stands"
    assert 'data-picture="f00d"' in html and html.count("data:image/png") == 1
    assert "<script" not in html and html.count("&lt;script&gt;") == 3
    assert html.endswith("<p>here</p></div>")
    unasked = with_result(visit, answers={}, partial_text={})
    assert "budget 7" in asked_html(unasked, 7, "")
    request = dataclasses.replace(visit.request, question="")
    assert "no question" in asked_html(dataclasses.replace(visit, request=request), 7, "")


def test_an_answer_without_words_is_no_blank(visit) -> None:
    silent = said(visit, unpruned="", A="", B="two")
    whole, a, b = cards(answers_html(silent, 5))
    assert "no words" in whole and "no words" in a and "no words" not in b
    assert all(card.count('class="figures"') == 1 for card in (whole, a, b))
    begun = with_result(visit, answers={}, partial_text={"unpruned": ""})
    assert "no words" not in answers_html(begun, 5)


def test_answers_say_which_budget_they_are_for(visit) -> None:
    html = answers_html(visit, 7)
    assert 'class="answers stale"' in html
    assert "Answers are for budget 5." in html
    assert "A SPARE · 5" in html
    fresh = answers_html(visit, 5)
    assert 'class="answers stale"' not in fresh and 'stale-note" hidden' in fresh


def test_first_words_have_bars_and_the_one_of_all_tokens_is_named(visit) -> None:
    found = (
        Candidate("no", {"unpruned": 0.25, "A": 0.9, "B": 0.125}),
        Candidate(EVIL, {"unpruned": 0.75, "A": 0.1, "B": 0.5}),
    )
    html = answers_html(visit, 5, candidates=found)
    widths = re.findall(r"width:([^%]+)%", html)
    assert widths == ["25.0", "90.0", "12.5", "75.0", "10.0", "50.0"]
    assert "as the first word: 0.75 from all tokens, 0.10 from A, 0.50 from B." in html
    assert "0.75 ·" in cards(html)[0] and "0.10 ·" in cards(html)[1]
    assert "<script" not in html and html.count("&lt;script&gt;") == 5


def test_an_own_set_has_the_probabilities_before_and_now(visit) -> None:
    change = Change(0.25, (" a", EVIL), whole=(0.5, 0.5), pruned=(0.5, 0.1))
    html = own_html("a", 5, visit.result.answers["A"], None, change)
    assert "KL of the first word: 0.25 nats. Probability of the unpruned answer: 0.05" in html
    assert "(was 0.25); word by word: “a” 0.50 (was 0.50), “&lt;script&gt;" in html
    assert "” 0.10 (was 0.50)." in html and "<script" not in html


def test_what_is_being_written_is_told_from_what_waits(visit) -> None:
    writing = with_result(
        visit, answers={"unpruned": visit.result.answers["unpruned"]}, partial_text={"A": "two re"}
    )
    first, a, b = cards(answers_html(writing, 5))
    assert "prefill" in first
    assert "two re" in a and "answering" in a
    assert "waiting for its turn" in b
    stopped = answers_html(dataclasses.replace(writing, stopped=True), 5)
    assert [word in stopped for word in ("stopped", "not asked", "waiting")] == [True, True, False]


def test_answers_are_read_out_once_all_that_can_be_are_there(visit) -> None:
    def busy(of: Visit) -> bool:
        return 'aria-busy="true"' in answers_html(of, 5)

    one = {"unpruned": visit.result.answers["unpruned"]}
    writing = with_result(visit, answers=one, partial_text={"A": "two re"})
    assert busy(writing)
    assert not busy(visit)
    assert not busy(dataclasses.replace(writing, stopped=True))
    assert not busy(with_result(visit, answers={}, partial_text={}))  # nothing was asked
    refused = {"A": "It keeps more.", "B": "It keeps more."}
    assert not busy(with_result(visit, answers=one, refused=refused))
    own = [own_html("a", 5, answer, None, None) for answer in (None, visit.result.answers["A"])]
    assert ["busy" in html for html in own] == [True, False]
    assert all('aria-live="polite"' in html for html in own)


@pytest.mark.parametrize(("ended", "words"), [("end", None), ("length", "cut off at")])
def test_how_an_answer_ended_is_said(visit, ended: str, words: str | None) -> None:
    answer = dataclasses.replace(visit.result.answers["A"], ended=ended)
    answers = visit.result.answers | {"A": answer}
    card = cards(answers_html(with_result(visit, answers=answers), 5))[1]
    assert (words in card) if words else ("cut off at" not in card and "stopped" not in card)


def test_nothing_that_was_said_becomes_markup(visit) -> None:
    writing = with_result(said(visit, unpruned=EVIL), partial_text={"B": EVIL})
    answers = {label: writing.result.answers[label] for label in ("unpruned", "A")}
    shown = answers_html(with_result(writing, answers=answers), 5)
    shown += answers_html(said(visit, unpruned=f"{EVIL} one", A=f"{EVIL} two {EVIL}"), 5)
    assert "<mark>two</mark> &lt;script&gt;" in shown
    for html in (shown, own_html(EVIL, 5, None, None, None)):
        assert "<script" not in html
        assert "&lt;script&gt;" in html
