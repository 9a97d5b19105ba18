"""The written parts of the page, read back from their HTML."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from spare_demo.ui import panels

EVIL = "<script>alert('x')</script>"


def test_nothing_that_was_said_becomes_markup() -> None:
    for html in (panels.message_html(EVIL), panels.truth_html(EVIL), panels.words_html(EVIL)):
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_notes_say_when_the_text_was_cut_into_stretches(visit) -> None:
    view = dataclasses.replace(visit.exploration.view, text_stretches=3)
    explored = dataclasses.replace(visit.exploration, view=view)
    html = panels.notes_html(dataclasses.replace(visit, exploration=explored))
    assert "split into 3 parts" in html
    assert panels.notes_html(visit) == ""


def test_empty_parts_are_empty_so_that_they_take_no_room() -> None:
    assert panels.message_html() == ""
    assert panels.truth_html(None) == ""


@pytest.mark.parametrize(("device", "name"), [("cpu", "on CPU"), ("cuda:1", "on GPU")])
def test_the_head_names_model_and_device(device: str, name: str) -> None:
    model = SimpleNamespace(
        device=torch.device(device),
        title=EVIL,
        description="Start it with `app.py <x>`.",
        has_language_model=True,
        system="none",
    )
    html = panels.header_html(model)  # type: ignore[arg-type]
    assert name in html
    assert "<script" not in html
    assert "<code>app.py &lt;x&gt;</code>" in html
