"""The written parts of the page, read back from their HTML."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace

import pytest
import torch

from spare_demo.cost import operations_text
from spare_demo.models import Answer
from spare_demo.ui import panels
from spare_demo.ui.visit import Choices, Guide, Visit

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    looked = guide.look(photo_file, "What is it?", Choices("spare", "cdpruner"), None)
    return list(guide.answer(looked, 5))[-1]


def test_nothing_that_was_said_becomes_markup() -> None:
    for html in (panels.message_html(EVIL), panels.truth_html(EVIL), panels.words_html(EVIL)):
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_the_cost_table_shows_what_was_measured(visit) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", panels.cost_html(visit, lambda answer: 0.0123))[1:]
    assert [re.sub("<.*?>", " ", row).split()[0] for row in rows] == ["All", "A", "B"]
    for row, label in zip(rows, ("unpruned", "A", "B"), strict=True):
        answer: Answer = visit.answers[label]
        cells = re.findall("<td.*?>(.*?)</td>", row)
        assert cells[:2] == [str(answer.prompt_tokens), str(answer.visual_tokens)]
        assert cells[3] == "12 ms"
        assert cells[4] == operations_text(answer.prefill_operations)
        assert cells[6] == str(len(answer.token_ids))


def test_no_gain_is_said_plainly(visit) -> None:
    same = dict.fromkeys(("unpruned", "A", "B"), visit.answers["unpruned"])
    html = panels.cost_html(dataclasses.replace(visit, answers=same), lambda answer: None)
    assert "not known" in html and "Floor:" not in html
    assert html.count("no gain in prefill time") == 2


def test_what_was_set_aside_is_told_apart_from_the_cache(visit) -> None:
    own = {
        label: dataclasses.replace(answer, allocated_bytes=answer.kv_cache_bytes)
        for label, answer in visit.answers.items()
    }
    visit = dataclasses.replace(visit, answers=own)
    assert "allocated" not in panels.cost_html(visit, lambda answer: None).lower()
    answer = dataclasses.replace(visit.answers["A"], kv_cache_bytes=2048, allocated_bytes=5120)
    roomy = dataclasses.replace(visit, answers={**visit.answers, "A": answer})
    html = panels.cost_html(roomy, lambda answer: None)
    assert "2.0 KiB (5.0 KiB allocated)" in html and "Allocated: with room" in html


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
