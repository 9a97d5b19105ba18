"""`evaluate` killed at random and resumed gives the rows of a run that nothing interrupted."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from evaluate_program import FILES, Run

pytestmark = pytest.mark.long

KILLS = 5


def test_five_kills_leave_the_rows_of_one_run(tiny_folder: Path, tmp_path: Path) -> None:
    whole = Run(tiny_folder, tmp_path / "whole", tmp_path / "whole.log")
    assert whole.end() == 0, whole.log.read_text()
    moments, sizes = random.Random(0), []
    for kill in range(KILLS):
        cut = Run(tiny_folder, tmp_path / "cut", tmp_path / "cut.log")
        cut.wait_for_rows(whole.size() * kill // (KILLS + 2))
        time.sleep(moments.uniform(0, 0.1))  # a question takes about as long
        cut.kill()
        sizes.append(cut.size())
    assert 0 < sizes[-1] < whole.size()  # the last kill, too, came before its end
    resumed = Run(tiny_folder, tmp_path / "cut", tmp_path / "cut.log")
    assert resumed.end() == 0, resumed.log.read_text()
    print(f"killed at {sizes} of {whole.size()} bytes")
    for name in FILES:
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
