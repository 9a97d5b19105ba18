"""The app as a program of its own, as it is started for visitors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pages import Caller

ROOT = Path(__file__).parents[2]
PATIENCE = 500  # for the start, on a machine that is busy


class Program(Caller):
    """`python app.py`, started in a folder of the test's, and its temporary files in another."""

    def __init__(self, port: int, temporary: Path, output: Path, before: Sequence[str]) -> None:
        """before: what runs it."""
        self.url, self.port, self.output = f"http://127.0.0.1:{port}", port, output
        environment = os.environ | {"TMPDIR": str(temporary), "SPARE_PORT": str(port)}
        # None of these may keep it: neither address has anybody.
        environment |= {"http_proxy": "http://127.0.0.1:9", "GRADIO_SERVER_NAME": "192.0.2.1"}
        environment["GRADIO_DEBUG"] = "1"
        for name in ("GRADIO_TEMP_DIR", "no_proxy", "NO_PROXY"):
            environment.pop(name, None)
        app = str(ROOT / "app.py")
        command = [*before, sys.executable, app, "--model", "built-in", "--device", "cpu"]
        with output.open("w") as stream:
            self.process = subprocess.Popen(
                command, cwd=output.parent, env=environment, stdout=stream, stderr=subprocess.STDOUT
            )

    def wait_until_served(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while "Open http" not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.1)

    def end(self, number: int) -> str:
        """Signal it, and return what it printed; it has the time that was promised."""
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)  # where a test stopped it
        assert self.process.wait(5) == 0, self.output.read_text()
        return self.output.read_text()


Start = Callable[..., Program]
