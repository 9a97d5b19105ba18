"""`evaluate` as a program of its own, to be watched and killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE = 500  # for the start, on a machine that is busy
FILES = ("settings.json", "results.csv", "relevance.csv", "summary.md", "summary.json")
"""What two runs of the same settings have in common, byte by byte."""


class Run:
    """`evaluate` of 100 questions on the CPU into a folder; more: further options."""

    def __init__(self, model: Path, folder: Path, log: Path, *more: str) -> None:
        self.answers, self.log = folder / "results.csv", log
        words = ["evaluate", "--out", str(folder), "--model", str(model), "--device", "cpu"]
        words += ["--questions", "100", "--budgets", "8", "3", "--max-new-tokens", "8"]
        words += ["--resamples", "50", "--methods", "spare", "random", *more]
        with log.open("a") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spare_demo", *words], cwd=ROOT, stdout=stream, stderr=stream
            )

    def size(self) -> int:
        return self.answers.stat().st_size if self.answers.exists() else 0

    def wait_for_rows(self, size: int = 0) -> None:
        """Until it has added some to those that it found, and there are so many bytes."""
        before, deadline = self.size(), time.monotonic() + PATIENCE
        while self.size() <= before or self.size() < size:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
