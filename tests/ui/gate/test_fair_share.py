"""One address cannot fill the queue, whatever it sends, and whoever is turned away learns why."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
from visits import QUESTION

from spare_demo.ui.gate.fair_share import FULL, address_of


@pytest.fixture(scope="module")
def crowded(serve_public):
    """A page behind a proxy: eight may wait, three of one address."""
    return serve_public(max_waiting=3, queue_size=8, address_header="X-Forwarded-For")


def ask(crowded, image, address: str) -> httpx.Response:
    data = {"data": [image, QUESTION, "spare", 5, 0]}
    headers = {"X-Forwarded-For": address}
    return httpx.post(crowded.api("call/select"), json=data, headers=headers, timeout=60)


def test_an_address_gets_its_share_and_the_others_theirs(crowded, hold, photo_file) -> None:
    hold(crowded)
    image = crowded.picture(photo_file)
    greedy = [ask(crowded, image, f"1.1.1.{i}, 10.0.0.1") for i in range(20)]
    assert [answer.status_code for answer in greedy] == [200] * 3 + [429] * 17
    assert "as one address may have (3)" in greedy[-1].json()["detail"]
    others = [ask(crowded, image, f"10.0.0.{2 + i // 3}") for i in range(9)]
    statuses = [answer.status_code for answer in others]
    assert statuses[:6] == [200] * 6  # one of all has the turn, eight wait
    assert 429 in statuses and others[-1].json()["detail"] == FULL
    assert httpx.get(crowded.url, timeout=60).status_code == 200


def test_whoever_connects_from_this_machine_cannot_make_addresses_up(
    serve_public, hold, photo_file
) -> None:
    """As the visitors of a proxy or a tunnel beside the page do, and those of its MCP server."""
    page = serve_public(max_waiting=2)
    hold(page)
    image = page.picture(photo_file)
    assert [ask(page, image, f"1.1.1.{i}").status_code for i in range(4)] == [200, 200, 429, 429]


def begin(page, path: str, address: str, connections: ExitStack) -> None:
    """Open a connection that sends a byte of a request, and holds it open as long as it likes."""
    begun = socket.create_connection(("127.0.0.1", page.settings.port), timeout=60)
    connections.enter_context(begun)
    begun.sendall(
        f"POST /gradio_api/{path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {address}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 9\r\n\r\n-".encode()
    )


def test_requests_that_never_end_keep_nobody_else_out(crowded, photo_file) -> None:
    image = crowded.picture(photo_file)
    with ExitStack() as connections:
        for i in range(12):
            begin(crowded, "call/select", f"2.2.2.{i // 3}", connections)
        httpx.get(f"{crowded.url}/health", timeout=60)  # by then they are all being read
        assert ask(crowded, image, "2.2.2.9").status_code == 200


@pytest.mark.parametrize("path", ["upload", "run/predict"])
def test_an_address_holds_few_requests_that_never_end(crowded, path: str) -> None:
    """Each may take a file's room on the disk, or in memory."""
    with ExitStack() as connections:
        for _ in range(3):
            begin(crowded, path, "3.3.3.3", connections)
        httpx.get(f"{crowded.url}/health", timeout=60)
        answers = [
            httpx.post(crowded.api("upload"), headers={"X-Forwarded-For": address}, timeout=60)
            for address in ("3.3.3.3", "3.3.3.4")
        ]
    assert [answer.status_code for answer in answers] == [429, 400]
    assert "on its way already" in answers[0].json()["detail"]


def test_an_address_has_few_events_at_work_beside_the_queue(crowded, monkeypatch) -> None:
    """Those of the page that run no model: hundreds at once would leave nobody else a thread."""
    number, event = next((n, e) for n, e in crowded.demo.fns.items() if e.name == "line_html")
    begun, goes_on = threading.Semaphore(0), threading.Event()

    def wait(value: str) -> str:
        begun.release()
        assert goes_on.wait(60)
        return value

    def choose(address: str) -> httpx.Response:
        body = {"fn_index": number, "data": ["spare"], "session_hash": address}
        headers = {"X-Forwarded-For": address}
        return httpx.post(crowded.api("run/predict"), json=body, headers=headers, timeout=60)

    with ThreadPoolExecutor(4) as visitors, monkeypatch.context() as held:
        held.setattr(event, "fn", wait)
        first = [visitors.submit(choose, "4.4.4.4") for _ in range(3)]
        try:
            assert all(begun.acquire(timeout=60) for _ in first)
            assert choose("4.4.4.4").status_code == 429
            other = visitors.submit(choose, "4.4.4.5")
            assert begun.acquire(timeout=60)
        finally:
            goes_on.set()
        assert {run.result().status_code for run in (*first, other)} == {200}


@pytest.mark.parametrize(
    ("header", "sent", "address"),
    [
        ("", "9.9.9.9", "1.2.3.4"),
        ("X-Forwarded-For", "9.9.9.9, 5.6.7.8", "5.6.7.8"),
        ("X-Forwarded-For", "", ""),
        ("X-Forwarded-For", None, "1.2.3.4"),
        ("X-Forwarded-For", "2001:db8:1:2:a:b:c:d", "2001:db8:1:2::/64"),
        ("X-Forwarded-For", "2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("X-Forwarded-For", "::ffff:5.6.7.8", "5.6.7.8"),
    ],
)
def test_the_header_counts_only_when_told_so(header: str, sent: str | None, address: str) -> None:
    headers = [] if sent is None else [(b"x-forwarded-for", sent.encode())]
    scope = {"type": "http", "client": ("1.2.3.4", 5), "headers": headers}
    assert address_of(scope, header) == address


def test_a_run_of_the_lab_is_short_in_public(public) -> None:
    labels = [getattr(part, "label", "") for part in public.demo.blocks.values()]
    assert "Scenes (up to 20)" in labels
