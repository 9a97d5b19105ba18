"""SIGTERM and SIGINT end the program as it is started: in time, with status 0, leaving nothing."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from programs import PATIENCE, Program, Start
from visits import QUESTION


def _run_the_lab(url: str) -> Iterator[str]:
    """Presses Run on the Lab's tab, and yields the stream's lines."""
    config = httpx.get(f"{url}/config").json()
    parts, events = config["components"], config["dependencies"]
    button = next(part["id"] for part in parts if part["props"].get("elem_id") == "lab-run")
    number = next(event["id"] for event in events if [button, "click"] in event["targets"])
    data = [["spare", "uniform"], [16, 64], 200, "held-out", 0, None, None, None]
    body = {"fn_index": number, "data": data, "session_hash": "lab"}
    httpx.post(f"{url}/gradio_api/queue/join", json=body).raise_for_status()
    address = f"{url}/gradio_api/queue/data?session_hash=lab"
    with httpx.stream("GET", address, timeout=PATIENCE) as stream:
        yield from stream.iter_lines()


def _stop_in_mid_answer(program: Program, photo_file: str) -> None:
    """Stops the program, to go on at the next signal, while it works at a comparison."""
    data = [program.picture(photo_file), QUESTION, "spare", "cdpruner", 64, 0]
    events = httpx.get(f"{program.url}/config").json()["dependencies"]
    number = next(event["id"] for event in events if event["api_name"] == "compare")
    while True:
        program.process.send_signal(signal.SIGCONT)
        program.post("queue/join", {"fn_index": number, "data": data, "session_hash": "busy"})
        connection = HTTPConnection("127.0.0.1", program.port, timeout=PATIENCE)
        with closing(connection):
            connection.request("GET", "/gradio_api/queue/data?session_hash=busy")
            lines = connection.getresponse()
            assert any(b"process_starts" in line for line in lines)
            program.process.send_signal(signal.SIGSTOP)
            connection.sock.settimeout(1)  # only what was sent before can still come
            with suppress(TimeoutError):
                assert any(b"process_completed" in line for line in lines)
                continue  # it was too quick
            return


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, marks=pytest.mark.long),
    ],
)
def test_it_serves_says_that_its_port_is_taken_and_ends_in_mid_answer(
    start: Start, temporary: Path, photo_file: str, number: int
) -> None:
    heard = ["env", "--default-signal=HUP"] if number == signal.SIGHUP else []  # also under nohup
    program = start(*heard)
    program.wait_until_served()
    assert "SPARE demo" in httpx.get(program.url).text
    second = start()
    assert second.process.wait(PATIENCE) == 1
    assert f"Port {program.port} is not free" in second.output.read_text()
    assert "Traceback" not in second.output.read_text()
    _stop_in_mid_answer(program, photo_file)
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "Traceback" not in program.end(number)
    assert list(temporary.iterdir()) == []


@pytest.mark.long
def test_it_ends_during_a_run_of_the_lab(start: Start, temporary: Path) -> None:
    program = start()
    program.wait_until_served()
    lines = _run_the_lab(program.url)
    assert any("process_generating" in line for line in lines)
    assert "Traceback" not in program.end(signal.SIGINT)
    assert list(temporary.iterdir()) == []


@pytest.mark.long
def test_process_1_obeys_too(start: Start, temporary: Path) -> None:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("needs to make a process namespace")
    program = start("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    program.wait_until_served()
    children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
    os.kill(int(children.read_text()), signal.SIGTERM)
    assert program.process.wait(5) == 0
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start(start: Start, temporary: Path) -> None:
    killed = start()
    _wait_for_folder(killed, temporary)
    killed.process.kill()
    killed.process.wait()
    (left,) = temporary.glob("*/.lock")
    following = start()
    _wait_for_folder(following, temporary, other_than=left)
    assert not left.exists()
    # It is told to end while it starts.
    assert "Traceback" not in following.end(signal.SIGTERM)
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("stubborn_import")
def test_an_import_that_takes_an_interrupt_for_a_failed_one_does_not_keep_it(
    start: Start, temporary: Path
) -> None:
    program = start()
    while "importing" not in program.output.read_text():
        assert program.process.poll() is None, program.output.read_text()
        time.sleep(0.05)
    assert "Traceback" not in program.end(signal.SIGTERM)
    assert list(temporary.iterdir()) == []


def _wait_for_folder(program: Program, temporary: Path, other_than: Path | None = None) -> None:
    while not set(temporary.glob("*/.lock")) - {other_than}:
        assert program.process.poll() is None, program.output.read_text()
        time.sleep(0.05)
