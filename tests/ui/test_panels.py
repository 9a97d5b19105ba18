"""The written parts of the page, read back from their HTML."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace

import pytest
import torch

from spare_demo.models import Answer
from spare_demo.ui import panels
from spare_demo.ui.visit import Choices, Guide, Visit

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    looked = guide.look(photo_file, "What is it?", Choices("spare", "cdpruner"), None)
    return list(guide.answer(looked, 5))[-1]


def said(visit: Visit, **texts: str) -> Visit:
    """The visit with other words in its answers."""
    answers = {
        label: dataclasses.replace(answer, text=texts.get(label, answer.text))
        for label, answer in visit.answers.items()
    }
    return dataclasses.replace(visit, answers=answers)


def cards(html: str) -> list[str]:
    return re.findall(r"<section.*?</section>", html)


def test_three_answers_stand_side_by_side_with_their_sizes(visit) -> None:
    first, a, b = cards(panels.answers_html(visit, 5))
    assert "All 16 tokens" in first
    assert "A SPARE · 5" in a and "B CDPruner · 5" in b


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("two red stars", "same as all tokens"),
        ("one red star", "differs from word 1"),
        ("two red circles", "differs from word 3"),
        ("two red", "differs from word 3"),
        ("two red stars here", "differs from word 4"),
        ("", "differs from word 1"),
    ],
)
def test_each_pruned_answer_is_compared_with_the_whole(visit, text: str, verdict: str) -> None:
    html = panels.answers_html(said(visit, unpruned="two red stars", A=text), 5)
    assert verdict in cards(html)[1]
    assert "verdict" not in cards(html)[0]


def test_answers_say_which_budget_they_are_for(visit) -> None:
    html = panels.answers_html(visit, 7)
    assert 'class="answers stale"' in html
    assert "Answers are for budget 5." in html
    assert "A SPARE · 5" in html
    fresh = panels.answers_html(visit, 5)
    assert 'class="answers stale"' not in fresh and 'stale-note" hidden' in fresh


def test_what_is_being_written_is_told_from_what_waits(visit) -> None:
    writing = dataclasses.replace(
        visit, answers={"unpruned": visit.answers["unpruned"]}, writing=("A", "two re")
    )
    first, a, b = cards(panels.answers_html(writing, 5))
    assert "prefill" in first
    assert "two re" in a and "answering" in a
    assert "waits for its turn" in b


@pytest.mark.parametrize(
    ("ended", "words"), [("end", None), ("length", "cut at"), ("stop", "stopped")]
)
def test_how_an_answer_ended_is_said(visit, ended: str, words: str | None) -> None:
    answers = {**visit.answers, "A": dataclasses.replace(visit.answers["A"], ended=ended)}
    card = cards(panels.answers_html(dataclasses.replace(visit, answers=answers), 5))[1]
    assert (words in card) if words else ("cut at" not in card and "stopped" not in card)


def test_nothing_that_was_said_becomes_markup(visit) -> None:
    writing = dataclasses.replace(said(visit, unpruned=EVIL), writing=("B", EVIL))
    answers = {label: writing.answers[label] for label in ("unpruned", "A")}
    pieces = [
        panels.answers_html(dataclasses.replace(writing, answers=answers), 5),
        panels.answers_html(visit, 5, about=EVIL),
        panels.message_html(EVIL),
        panels.truth_html(EVIL),
        panels.words_html(EVIL),
    ]
    for html in pieces:
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_the_cost_table_shows_what_was_measured(visit) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", panels.cost_html(visit, lambda answer: 0.0123))[1:]
    assert [re.sub("<.*?>", " ", row).split()[0] for row in rows] == ["All", "A", "B"]
    for row, label in zip(rows, ("unpruned", "A", "B"), strict=True):
        answer: Answer = visit.answers[label]
        cells = re.findall("<td>(.*?)</td>", row)
        assert cells[:2] == [str(answer.prompt_tokens), str(answer.visual_tokens)]
        assert cells[3] == "12 ms"
        assert cells[5] == str(len(answer.token_ids))


def test_no_gain_is_said_plainly(visit) -> None:
    same = dict.fromkeys(("unpruned", "A", "B"), visit.answers["unpruned"])
    html = panels.cost_html(dataclasses.replace(visit, answers=same), lambda answer: None)
    assert "not known" in html and "Floor:" not in html
    assert html.count("no gain in prefill time") == 2


def test_costs_wait_for_all_three_answers(visit) -> None:
    part = dataclasses.replace(visit, answers={"unpruned": visit.answers["unpruned"]})
    assert "<table" not in panels.cost_html(part, lambda answer: None)


def test_notes_say_when_the_text_was_cut_into_stretches(visit) -> None:
    view = dataclasses.replace(visit.exploration.view, text_stretches=3)
    explored = dataclasses.replace(visit.exploration, view=view)
    html = panels.notes_html(dataclasses.replace(visit, exploration=explored))
    assert "3 stretches of 77 CLIP tokens" in html
    assert panels.notes_html(visit) == ""


def test_empty_parts_are_empty_so_that_they_take_no_room() -> None:
    assert panels.message_html() == ""
    assert panels.truth_html(None) == ""


@pytest.mark.parametrize(("device", "name"), [("cpu", "on CPU"), ("cuda:1", "on GPU")])
def test_the_head_names_model_and_device(device: str, name: str) -> None:
    model = SimpleNamespace(
        device=torch.device(device), title=EVIL, description="Start it with `app.py <x>`."
    )
    html = panels.header_html(model)  # type: ignore[arg-type]
    assert name in html
    assert "<script" not in html
    assert "<code>app.py &lt;x&gt;</code>" in html
