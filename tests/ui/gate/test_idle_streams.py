"""A stream in which nothing is to come ends, and one in which something is brings it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from pages import Page

from spare_demo.ui.gate import idle_streams
from spare_demo.ui.gradio_compat.queue import has_results_to_come

PATIENCE = 120.0


class Session:
    """A session of the page, which begins runs and reads what comes of them."""

    def __init__(self, page: Page, name: str) -> None:
        self._page, self._name = page, name
        self._run = next(
            number for number, event in page.demo.fns.items() if event.api_name == "follow_menu"
        )

    def join(self) -> str:
        inputs = ["spare", None, None]
        body = {"fn_index": self._run, "data": inputs, "session_hash": self._name}
        return self._page.post("queue/join", body).raise_for_status().json()["event_id"]

    def messages(self) -> Iterator[dict[str, Any]]:
        address = self._page.api(f"queue/data?session_hash={self._name}")
        with httpx.stream("GET", address, timeout=PATIENCE) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture
def session(public: Page, request: pytest.FixtureRequest) -> Session:
    return Session(public, request.node.name)


def test_one_opened_for_a_run_that_is_over_and_read_ends_by_itself(session: Session) -> None:
    session.join()
    first = [message["msg"] for message in session.messages()]
    assert first[-2:] == ["process_completed", "close_stream"]
    # Gradio alone would send a heartbeat here, and one more each time that so long has passed.
    assert next(session.messages())["msg"] == "close_stream"


def test_one_opened_too_early_brings_the_run_that_follows(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.join()
    list(session.messages())
    opened = threading.Event()

    def note(*given: Any) -> bool:
        opened.set()
        return has_results_to_come(*given)

    monkeypatch.setattr(idle_streams, "has_results_to_come", note)
    monkeypatch.setattr(idle_streams, "QUIET_SECONDS", PATIENCE)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: list(session.messages()))
        assert opened.wait(PATIENCE)
        run = session.join()
        messages = reading.result()
    assert {message.get("event_id") for message in messages} == {run, None}
    assert [message["msg"] for message in messages][-2:] == ["process_completed", "close_stream"]


def test_of_a_session_that_it_does_not_know_the_queue_itself_speaks(session: Session) -> None:
    (message,) = session.messages()
    assert message["msg"] == "unexpected_error" and message["session_not_found"]
