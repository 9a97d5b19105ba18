"""The served program goes on where the machine takes something from it for a while."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import httpx
import pytest
from programs import Program, Start

pytestmark = pytest.mark.long

QUESTION = "Which number is written on the small triangle?"


def select(program: Program, photo_file: str) -> httpx.Response:
    """The answer to an upload that is refused, or else the words of one operation."""
    api = f"{program.url}/gradio_api"
    files = {"files": ("photo.png", Path(photo_file).read_bytes())}
    sent = httpx.post(f"{api}/upload", files=files, timeout=60)
    if sent.status_code != 200:
        return sent
    picture = {"path": sent.json()[0], "meta": {"_type": "gradio.FileData"}}
    body = {"data": [picture, QUESTION, "spare", 5, 0]}
    event = httpx.post(f"{api}/call/select", json=body, timeout=60).json()["event_id"]
    return httpx.get(f"{api}/call/select/{event}", timeout=60)


def test_a_removed_temporary_folder(start: Start, temporary: Path, photo_file: str) -> None:
    program = start()
    program.wait_until_served()
    assert "event: complete" in select(program, photo_file).text
    (folder,) = temporary.iterdir()
    shutil.rmtree(folder)
    assert "event: complete" in select(program, photo_file).text
    assert "Traceback" not in program.output.read_text()


def test_no_descriptor_left(start: Start, photo_file: str) -> None:
    resource = pytest.importorskip("resource", reason="no such limit on this system")
    if not hasattr(resource, "prlimit"):
        pytest.skip("the limit of another process can be changed on Linux only")
    program = start()
    program.wait_until_served()
    number = program.process.pid
    _, most = resource.prlimit(number, resource.RLIMIT_NOFILE)
    used = len([*Path(f"/proc/{number}/fd").iterdir()])
    resource.prlimit(number, resource.RLIMIT_NOFILE, (used + 4, most))
    open_ = [socket.create_connection(("127.0.0.1", program.port)) for _ in range(40)]
    time.sleep(3)
    for connection in open_:
        connection.close()
    resource.prlimit(number, resource.RLIMIT_NOFILE, (min(1024, most), most))
    assert "event: complete" in select(program, photo_file).text
    assert program.output.stat().st_size < 10_000  # 17 MB in 5 s, uncounted
