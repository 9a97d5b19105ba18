"""`evaluate` killed at random and resumed gives the rows of a run that nothing interrupted."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PATIENCE = 500  # for the start, on a machine that is busy
KILLS = 5


class Run:
    """`evaluate` as a program of its own, into a folder."""

    def __init__(self, model: Path, folder: Path, log: Path) -> None:
        self.answers, self.log = folder / "results.csv", log
        words = ["evaluate", "--out", str(folder), "--model", str(model), "--device", "cpu"]
        words += ["--questions", "100", "--budgets", "8", "3", "--max-new-tokens", "8"]
        words += ["--resamples", "50", "--methods", "spare", "random"]
        with log.open("a") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spare_demo", *words], cwd=ROOT, stdout=stream, stderr=stream
            )

    def size(self) -> int:
        return self.answers.stat().st_size if self.answers.exists() else 0

    def wait_for_rows(self) -> None:
        """Until it has added some to those that it found."""
        before, deadline = self.size(), time.monotonic() + PATIENCE
        while self.size() <= before:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def test_five_kills_leave_the_rows_of_one_run(tiny_folder: Path, tmp_path: Path) -> None:
    whole = Run(tiny_folder, tmp_path / "whole", tmp_path / "whole.log")
    started = time.monotonic()
    whole.wait_for_rows()
    first_rows = time.monotonic()
    assert whole.end() == 0, whole.log.read_text()
    measuring = time.monotonic() - first_rows
    print(f"\nstart {first_rows - started:.1f} s, then {measuring:.1f} s")
    moments, sizes = random.Random(0), []
    for _ in range(KILLS):
        cut = Run(tiny_folder, tmp_path / "cut", tmp_path / "cut.log")
        cut.wait_for_rows()
        time.sleep(moments.uniform(0, measuring / KILLS / 2))
        cut.kill()
        sizes.append(cut.size())
    assert 0 < sizes[-1] < whole.size()  # the last kill, too, came before its end
    resumed = Run(tiny_folder, tmp_path / "cut", tmp_path / "cut.log")
    assert resumed.end() == 0, resumed.log.read_text()
    print(f"killed at {sizes} of {whole.size()} bytes")
    for name in ("results.csv", "relevance.csv", "summary.md", "summary.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_second_run_into_one_folder_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    first = Run(tiny_folder, tmp_path / "out", tmp_path / "first.log")
    try:
        first.wait_for_rows()
        first.process.send_signal(signal.SIGSTOP)  # held, so that it is there when the second comes
        second = Run(tiny_folder, tmp_path / "out", tmp_path / "second.log")
        assert second.end() == 1
        assert "Another run is writing to" in second.log.read_text()
        assert "Traceback" not in second.log.read_text()
    finally:
        first.kill()
    third = Run(tiny_folder, tmp_path / "out", tmp_path / "third.log")
    assert third.end() == 0, third.log.read_text()
