"""The app as a program of its own, and what Linux says of its process."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from frames import Overdue
from measuring import ROOT


@contextmanager
def serving(
    model: str, patience: float, flags: Sequence[str] = (), **options: Any
) -> Iterator[tuple[str, subprocess.Popen, float]]:
    """Its address, the process, seconds until the page came.

    flags: of the app, beside model and port. options: of `subprocess.Popen`. Raises Overdue where
    the page does not come within `patience` seconds.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(ROOT / "app.py"), "--model", model, "--port", str(port), *flags]
    start = time.perf_counter()
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, **options)
    try:
        served(url, program, patience)
        yield url, program, time.perf_counter() - start
    finally:
        end(program)


def end(program: subprocess.Popen) -> None:
    """End a program, by force where it does not end by itself."""
    program.terminate()  # nothing where it has ended
    try:
        program.wait(30)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


@contextmanager
def serving_strangers(
    model: str, device: str, patience: float, room: int, folder: Path
) -> Iterator[tuple[str, int, Path, Path]]:
    """The app open to strangers: its address, its process, where its temporary files lie, and what
    it logs, a line for each question among it.

    room: how many may wait, all from this one address. folder: for its files and its log.
    """
    log, temporary = folder / "log.txt", folder / "temporary"
    temporary.mkdir()
    flags = ["--public", "--log-times", "--device", device]
    flags += ["--max-waiting", str(room), "--queue-size", str(room)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    environment.pop("GRADIO_TEMP_DIR", None)
    with (
        log.open("w") as stream,
        serving(model, patience, flags, env=environment, stderr=stream) as (url, program, _),
    ):
        yield url, program.pid, temporary, log


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def served(url: str, program: subprocess.Popen, patience: float) -> None:
    """Waits until the page comes."""
    end = time.monotonic() + patience
    with httpx.Client(trust_env=False) as client:  # one: making it costs more than asking
        while time.monotonic() < end:
            try:
                if client.get(url, timeout=max(1.0, end - time.monotonic())).status_code == 200:
                    return
            except httpx.TransportError:
                if program.poll() is not None:
                    sys.exit("The app did not start; its message stands above.")
            time.sleep(0.05)
    raise Overdue(
        f"Waited {patience:g} s for the app to serve its page, in vain. Give the machine to this "
        "program alone, or more time with --patience."
    )


def peak_bytes(process: int) -> int:
    """The most memory the process ever held, by Linux's own account."""
    return 1024 * status(process, "VmHWM")


def held(process: int, folder: Path) -> dict[str, int]:
    """What a process holds now.

    folder: where its temporary files lie.

    Returns `memory_bytes` (resident), `threads`, `descriptors`, `temporary_files` and
    `temporary_bytes`.
    """
    sizes = _file_sizes(folder)
    return {
        "memory_bytes": 1024 * status(process, "VmRSS"),
        "threads": status(process, "Threads"),
        "descriptors": len(list(Path(f"/proc/{process}/fd").iterdir())),
        "temporary_files": len(sizes),
        "temporary_bytes": sum(sizes),
    }


def _file_sizes(folder: Path) -> list[int]:
    """The bytes of each file in a folder; one that the server deletes meanwhile is left out."""
    sizes = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                sizes.append(os.stat(os.path.join(parent, name)).st_size)
    return sizes


def status(process: int, name: str) -> int:
    """A number that Linux says of a process, memory in KiB; 0 where it says none of that name.

    Raises OSError where there is no such process.
    """
    found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) if found else 0
