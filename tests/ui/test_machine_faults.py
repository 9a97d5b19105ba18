"""The served program goes on where the machine takes something from it for a while."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import pytest
from programs import Program, Start
from visits import QUESTION

pytestmark = pytest.mark.long


def select(program: Program, photo_file: str) -> str:
    """The words of one operation."""
    return program.call("select", [program.picture(photo_file), QUESTION, "spare", 5, 0]).text


def test_a_removed_temporary_folder(start: Start, temporary: Path, photo_file: str) -> None:
    program = start()
    program.wait_until_served()
    assert "event: complete" in select(program, photo_file)
    (folder,) = temporary.iterdir()
    shutil.rmtree(folder)
    assert "event: complete" in select(program, photo_file)
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
    assert "event: complete" in select(program, photo_file)
    assert program.output.stat().st_size < 10_000  # 17 MB in 5 s, uncounted
