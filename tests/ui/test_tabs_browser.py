"""Several tabs of the page in one browser, which has six connections for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import MARKS, Visitor, expect
from pages import Page

pytestmark = MARKS
TABS = 3


def answer_late(route: Any) -> None:
    """Hands a reply of the queue on when the run is over that it names."""
    response = route.fetch()
    time.sleep(0.3)
    route.fulfill(response=response)


@pytest.fixture
def tabs(browser: Any, served: Page) -> Iterator[list[Visitor]]:
    """Tabs in which each run was over before the page knew its name."""
    context = browser.new_context()
    context.route("**/queue/join*", answer_late)
    yield [Visitor(context.new_page()).open(served.url) for _ in range(TABS)]
    context.close()


def test_a_question_is_answered_in_one_of_three_tabs(tabs: list[Visitor]) -> None:
    *_, last = tabs
    last.expect_answers(576, 64, 64)  # of the opening
    last.page.context.unroute("**/queue/join*")
    streams = sum("queue/data" in url for tab in tabs for url in tab.requests)
    assert streams > TABS  # one that stays in a tab, and one for what its runs gave
    last.ask("How many shapes are there?")
    expect(last.find("#answers .asked")).to_contain_text("How many shapes are there?")
    last.expect_answers(576, 64, 64)
