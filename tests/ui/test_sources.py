"""The panel of merged tokens: which figures it holds, and in which words it refuses."""

from __future__ import annotations

import pytest

from spare_demo.ui.sources import merged_html
from spare_demo.ui.visit import Choices, Guide, Visit


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(photo_file, "What is it?", Choices("visionzip", "spare"), None)


def test_what_merges_is_drawn_at_the_budget(visit: Visit) -> None:
    html = merged_html(visit, 8, 0)
    assert html.count("<figure>") == html.count("data:image/png;base64,") == 1
    assert "A VisionZip merged 16 tokens into 8: 6 as they are, 1 with others mixed in" in html
    assert "into 4" in merged_html(visit, 4.0, None)


def test_one_token_shows_what_went_into_it(visit: Visit) -> None:
    assert "token 1 of 8" in (first := merged_html(visit, 8, 1)) and "class token" in first
    assert "token 8 of 8" in (last := merged_html(visit, 8, 8)) and "parts of" in last


@pytest.mark.parametrize(
    ("budget", "token", "sentence"),
    [(99, 0, "from 1 to 16"), (8, 9, "Choose one from 1 to 8"), (8, -1, "Choose one from 1 to 8")],
)
def test_what_cannot_be_shown_is_refused(
    visit: Visit, budget: int, token: int, sentence: str
) -> None:
    html = merged_html(visit, budget, token)
    assert sentence in html and 'role="alert"' in html


def test_where_nothing_merges_it_says_so(guide: Guide, photo_file: str) -> None:
    visit = guide.look(photo_file, "", Choices("random", "uniform"), None)
    assert "Neither A nor B merges tokens" in merged_html(visit, 8, 0)
