"""Several tabs of the page in one browser, which has six connections for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browsing import MARKS, PATIENCE, Visitor, expect
from pages import Page

from spare_demo.ui.gradio_compat.queue import events_in_queue

pytestmark = MARKS
TABS = 3
JOIN = "**/queue/join*"


class LateReplies:
    """Names a tab's two first runs to it when both are over, the second after all results are read.

    For the second the tab then opens a stream in which nothing will come.
    """

    def __init__(self, page: Any, demo: Any) -> None:
        self._page, self._demo = page, demo
        self._joins = self._opened = self._over = 0
        page.on("request", self._count_opened)
        page.on("requestfinished", self._count_over)
        page.on("requestfailed", self._count_over)
        page.route(JOIN, self._answer)

    def wait_for_second_stream(self) -> None:
        self._wait_until(lambda: self._opened == 2)
        self._page.unroute(JOIN)

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE / 1000
        while not holds():
            assert time.monotonic() < deadline
            self._page.wait_for_timeout(20)

    def _count_opened(self, request: Any) -> None:
        self._opened += is_stream(request)

    def _count_over(self, request: Any) -> None:
        self._over += is_stream(request)

    def _answer(self, route: Any) -> None:
        response = route.fetch()
        read = self._joins  # streams to be over before this reply: none, then one
        self._joins += 1
        self._wait_until(lambda: self._joins == 2 and not any(events_in_queue(self._demo)))
        self._wait_until(lambda: self._over == read)
        route.fulfill(response=response)


def is_stream(request: Any) -> bool:
    return "queue/data" in request.url


@pytest.fixture
def tabs(browser: Any, served: Page) -> Iterator[list[Visitor]]:
    """Tabs in each of which a stream was opened for results that had come before."""
    with browser.new_context() as context:
        tabs = [Visitor(context.new_page()) for _ in range(TABS)]
        for tab in tabs:
            late = LateReplies(tab.page, served.demo)
            tab.open(served.url)
            late.wait_for_second_stream()
        yield tabs
        for tab in tabs:
            tab.check()


def test_a_question_is_answered_in_one_of_three_tabs(tabs: list[Visitor]) -> None:
    *_, last = tabs
    last.ask("How many shapes are there?")
    expect(last.find("#answers .asked")).to_contain_text("How many shapes are there?")
    last.expect_answers(576, 64, 64)
