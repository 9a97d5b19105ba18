"""What runs for visitors ends when none of their connections is open."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest

from spare_demo.ui.gate.sweeper import LOOK_SECONDS

PATIENCE = 60


@dataclass(frozen=True)
class Endless:
    """A run of the page that ends by itself only once it is `over`."""

    url: str
    number: int
    begun: threading.Event
    over: threading.Event
    ended: threading.Event

    def join(self, session: str) -> None:
        """Begin it, as the page does."""
        data = [[], [], 3, "held-out", 0, None, None, None]
        body = {"fn_index": self.number, "data": data, "session_hash": session}
        httpx.post(f"{self.url}queue/join", json=body, timeout=PATIENCE).raise_for_status()
        assert self.begun.wait(PATIENCE)


@pytest.fixture
def endless(public, monkeypatch) -> Iterator[Endless]:
    number, event = next(
        (n, event) for n, event in public.demo.fns.items() if event.concurrency_id == "lab"
    )
    run = Endless(public.api(""), number, *(threading.Event() for _ in range(3)))

    def go_on(*_):
        try:
            while not run.over.wait(0.01):
                run.begun.set()
                yield {event.outputs[2]: ""}
        finally:
            run.ended.set()

    monkeypatch.setattr(event, "fn", go_on)
    yield run
    run.over.set()
    assert run.ended.wait(PATIENCE)


def expect_no_state(public, session: str) -> None:
    end = time.monotonic() + PATIENCE
    while session in public.demo.state_holder.session_data:
        assert time.monotonic() < end, "the state of a visitor who left was kept"
        time.sleep(0.05)


def test_a_run_of_a_visitor_who_never_listened_ends_and_leaves_no_state(public, endless) -> None:
    endless.join("gone")
    assert endless.ended.wait(PATIENCE)
    expect_no_state(public, "gone")
    assert "gone" not in public.demo._queue.pending_messages_per_session


def test_a_run_that_ends_by_itself_soon_after_its_page_leaves_no_state(public, endless) -> None:
    """Gradio drops the state as the page goes, and the run's last step makes it anew."""
    with httpx.stream("GET", f"{endless.url}heartbeat/brief", timeout=PATIENCE):
        endless.join("brief")
    time.sleep(LOOK_SECONDS / 2)
    endless.over.set()
    assert endless.ended.wait(PATIENCE)
    time.sleep(LOOK_SECONDS)
    expect_no_state(public, "brief")


def test_a_run_goes_on_while_its_page_is_open_and_ends_with_it(endless) -> None:
    with httpx.stream("GET", f"{endless.url}heartbeat/here", timeout=PATIENCE) as page:
        assert page.status_code == 200
        endless.join("here")
        assert not endless.ended.wait(4 * LOOK_SECONDS)
    assert endless.ended.wait(PATIENCE)


def test_a_run_whose_page_was_cut_off_goes_on_while_it_is_read(endless) -> None:
    with ExitStack() as page, ExitStack() as reading:
        page.enter_context(httpx.stream("GET", f"{endless.url}heartbeat/read", timeout=PATIENCE))
        endless.join("read")
        address, session = f"{endless.url}queue/data", {"session_hash": "read"}
        stream = httpx.stream("GET", address, params=session, timeout=PATIENCE)
        assert reading.enter_context(stream).status_code == 200
        page.close()
        assert not endless.ended.wait(4 * LOOK_SECONDS)
    assert endless.ended.wait(PATIENCE)
