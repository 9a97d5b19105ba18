"""The panel of merged tokens: which figures it holds, and in which words it refuses."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from visits import page_request, with_result

from spare_demo.pruners.plan import LayerSet
from spare_demo.render.base import data_address
from spare_demo.render.colours import BLUE
from spare_demo.render.overlay import selection_overlay
from spare_demo.ui.guide import Guide
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.sources import merged_html
from spare_demo.ui.visit import Visit


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(page_request(photo_file, "What is it?", "visionzip", "spare"))


def test_what_merges_is_drawn_at_the_budget(visit: Visit) -> None:
    html = merged_html(visit, 8, 0)
    assert html.count("<figure>") == html.count("data:image/png;base64,") == 1
    assert "A VisionZip merged 16 tokens into 8: 6 unchanged, 1 with others mixed in" in html
    selection = visit.exploration.selections(8)["A"]
    drawn = selection_overlay(visit.canvas, selection, BLUE, visit.titles["A"])  # as A is elsewhere
    assert data_address(drawn.image, compress_level=3) in html
    assert "into 4" in merged_html(visit, 4, None)


def test_one_token_shows_what_went_into_it(visit: Visit) -> None:
    assert "token 1 of 8" in (first := merged_html(visit, 8, 1)) and "class token" in first
    assert "token 8 of 8" in (last := merged_html(visit, 8, 8)) and "parts of" in last


@pytest.mark.parametrize(
    ("budget", "token", "sentence"),
    [
        (99, 0, "from 1 to 16"),
        (8, 9, "Choose one from 1 to 8"),
        (8, -1, "Choose one from 1 to 8"),
        (8, math.nan, "Type the token's number"),
        (8, "one", "Type the token's number"),
        (8, [1], "Type the token's number"),
        pytest.param(8, 10**400, "Type the token's number", id="huge"),
    ],
)
def test_what_cannot_be_shown_is_said(
    handlers: Handlers, visit: Visit, budget: int, token: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        list(handlers.merged(token, None, budget, visit))
    with pytest.raises(ValueError, match="Type the token's number"):
        list(handlers.merged(1, "last", 8, visit))


def test_where_nothing_merges_it_says_so(guide: Guide, photo_file: str) -> None:
    visit = guide.look(page_request(photo_file, "", "random", "uniform"))
    assert "Neither A nor B merges tokens" in merged_html(visit, 8, 0)


def test_what_was_merged_inside_the_language_model_is_that_of_the_layer_looked_at(
    guide: Guide, photo_file: str
) -> None:
    visit = guide.look(page_request(photo_file, "What is it?", "spare", "fastv"))
    *_, done = guide.answer(visit, 8)
    assert "Neither A nor B merges tokens" in merged_html(done, 8, 0)
    sources = torch.zeros(2, 16)
    sources[0, [3, 4]], sources[1, 15] = 0.5, 1.0
    sets = (LayerSet(0, torch.arange(16)), LayerSet(1, torch.tensor([0, 8]), sources))
    merging = dataclasses.replace(done.result.answers["B"], layer_sets=sets)
    done = with_result(done, answers={**done.result.answers, "B": merging})
    shown = merged_html(done, 8, 0)
    assert "In layer 3 of 3 B FastV still has 2 of 16 tokens, and 2 rows merged from 3" in shown
    first = merged_html(done, 8, 1)
    assert "In layer 3 of 3 B FastV&#x27;s token 1 of 2" in first and "parts of 2 tokens" in first
    with pytest.raises(ValueError, match="Choose one from 1 to 2"):
        merged_html(done, 8, 3)
    assert "In layer 2 of 3 B FastV&#x27;s token 2 of 2" in merged_html(done, 8, 2, 1)
    assert "In layer 1 of 3 B FastV still has 16 of 16 tokens." in merged_html(done, 8, 0, 0.0)
    with pytest.raises(ValueError, match=r"In layer 1 of 3 B FastV has merged nothing\."):
        merged_html(done, 8, 1, 0)
    assert "In layer 3 of 3" in merged_html(done, 8, 1, 99)  # of a deeper model, looked at before


def test_what_merges_inside_the_language_model_waits_for_the_answer_at_the_budget(
    guide: Guide, photo_file: str
) -> None:
    visit = guide.look(page_request(photo_file, "What is it?", "vscan-whole", "visionzip"))
    *_, done = guide.answer(visit, 8)
    for one, budget in ((visit, 8), (done, 12)):  # stopped before, and at rest on another budget
        shown = merged_html(one, budget, 0)
        assert f"What A VScan merges at a budget of {budget} is known once" in shown
        assert "B VisionZip merged" in shown
    assert "In layer 3 of 3 A VScan still has" in merged_html(done, 8, 0)
