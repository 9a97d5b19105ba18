"""Several tabs of the page in one browser, which has six connections for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import MARKS, Visitor, expect
from pages import Page

from spare_demo.ui.gradio_compat.queue import events_in_queue

pytestmark = MARKS
TABS = 3
JOIN = "**/queue/join*"


@pytest.fixture
def tabs(browser: Any, served: Page) -> Iterator[list[Visitor]]:
    """Tabs in which each run was over before the page knew its name."""

    def answer_late(route: Any) -> None:
        response = route.fetch()
        while any(events_in_queue(served.demo)):
            time.sleep(0.05)
        time.sleep(0.1)  # its results are sent
        route.fulfill(response=response)

    with browser.new_context() as context:
        context.route(JOIN, answer_late)
        tabs = [Visitor(context.new_page()).open(served.url) for _ in range(TABS)]
        context.unroute(JOIN)
        yield tabs
        for tab in tabs:
            tab.check()


def test_a_question_is_answered_in_one_of_three_tabs(tabs: list[Visitor]) -> None:
    for tab in tabs:  # the last stream of each was opened for results that had come before
        assert sum("queue/data" in url for url in tab.requests) > 1
    *_, last = tabs
    last.ask("How many shapes are there?")
    expect(last.find("#answers .asked")).to_contain_text("How many shapes are there?")
    last.expect_answers(576, 64, 64)
