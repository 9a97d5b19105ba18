"""The measuring programs: what they compare is comparable, and what they write is what they saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import frames
import load
import measuring
import prefill
import pytest
import report
import selection
import serving
import soak
import torch

from spare_demo.pruners.greedy import greedy


def figure(**changes: object) -> measuring.Figure:
    usual = {
        "what": "a thing",
        "device": "a machine",
        "dtype": "float32",
        "shape": "n=2",
        "seconds": [0.2, 0.6, 0.3],
        "floor": "a floor",
        "floor_seconds": [0.1, 0.2, 0.1],
    }
    return measuring.Figure(**{**usual, **changes})  # type: ignore[arg-type]


def test_a_ratio_is_taken_run_by_run() -> None:
    assert figure().ratio == pytest.approx(3)
    assert figure(floor_seconds=[0.1]).ratio == pytest.approx(3)
    assert figure(floor_seconds=()).ratio is None


def test_a_time_is_three_digits_long() -> None:
    told = [measuring.milliseconds(seconds) for seconds in (0.0123, 0.9994, 0.9997, 2.5)]
    assert told == ["12.3 ms", "999 ms", "1.00 s", "2.50 s"]


def test_steps_take_turns_and_the_first_round_is_not_counted() -> None:
    made: list[str] = []
    seconds = measuring.in_turns(
        2, torch.device("cpu"), a=lambda: made.append("a"), b=lambda: made.append("b")
    )
    assert made == ["a", "b"] * 3
    assert [len(each) for each in seconds.values()] == [2, 2]


@pytest.mark.parametrize("views", [1, 3])
def test_both_loops_choose_the_same(views: int) -> None:
    x = selection.features(views, 60, 40)
    w = torch.rand(views, 60, generator=torch.Generator().manual_seed(0)) + 0.1
    theirs = selection.published(x.double(), w.double(), 25)
    assert torch.equal(theirs, greedy(x, w.double().square(), 25).order)


def test_true_shapes_are_refused_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "free_bytes", lambda device: 10 * 1024**3)
    with pytest.raises(ValueError, match=r"not measured: its weights take 25\.1 GiB, of 10\.0 GiB"):
        prefill.random_model("7b", None, torch.device("cpu"), torch.float32)


def test_the_page_is_made_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", report.RESULTS.parent / "none")
    empty = report.page()
    assert empty.count("Not measured.") == len(report.WANTED)
    assert "The lengths here are inferred" in empty
    monkeypatch.setattr(sys, "argv", ["selection.py", "--device", "cpu"])
    file = tmp_path / "x.json"
    measuring.finish("Choosing", [figure(note="60 of 60 picks")], file, more="this too")
    text = "\n".join(report.section(json.loads(file.read_text())))
    assert "`python benchmarks/selection.py --device cpu`" in text
    line = "| a thing | a machine | float32 | n=2 | 300 ms | 200 ms to 600 ms | a floor 100 ms |"
    assert f"{line} 3.00 |" in text
    assert "- a thing, float32, n=2: 60 of 60 picks." in text and "more: this too" in text


def test_the_page_is_up_to_date() -> None:
    assert report.PAGE.read_text() == report.page()


def test_help_writes_no_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["report.py", "--help"])
    monkeypatch.setattr(report, "PAGE", tmp_path / "page")
    with pytest.raises(SystemExit):
        report.main()
    assert not report.PAGE.exists()


def test_a_wait_for_the_page_ends_with_a_sentence() -> None:
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:  # a program that never serves
        with pytest.raises(frames.Overdue, match=r"Waited 0\.2 s for the app to serve its page"):
            serving.served("http://127.0.0.1:1", idle, 0.2)
    finally:
        idle.kill()
        idle.wait()
    with pytest.raises(SystemExit, match="The app did not start"):
        serving.served("http://127.0.0.1:1", idle, 60)


def test_a_wait_in_the_browser_says_what_for() -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    late = sync_api.TimeoutError

    def never() -> None:
        raise late("Timeout 5000ms exceeded.")

    with pytest.raises(frames.Overdue, match="Waited 5 s for the three answers after Ask, in vain"):
        frames.Driver(None, "", 5).waited("the three answers after Ask", never)


def test_a_browser_that_draws_nothing_is_given_up() -> None:
    class Page:
        def evaluate(self, script: str, given: list) -> dict:
            return {"trouble": "no frame", "between": [], "drawn": [], "steps": given[1]}

    driver = frames.Driver(None, "", 5)
    driver.page = Page()
    with pytest.raises(frames.Overdue, match="drew no frame for 10 s while order was scrubbed"):
        driver.scrub("order", 7)


def test_percentiles_are_by_the_nearest_rank() -> None:
    seconds = [number / 10 for number in range(1, 101)]
    assert load.percentiles(seconds[::-1]) == "p50 5.00 s, p90 9.00 s, p95 9.50 s, p99 9.90 s"
    assert load.percentiles([3.0]) == "p50 3.00 s, p90 3.00 s, p95 3.00 s, p99 3.00 s"
    assert load.percentiles([]) == "none"


def test_stages_are_read_from_what_the_app_logs(tmp_path: Path) -> None:
    times = {
        "wait": 2.0,
        "encode": 0.1,
        "relevance": 0.2,
        "select": {"A": 0.3, "B": 0.3},  # as one
        "prefill": {"unpruned": 0.1, "A": 0.05, "B": 0.05},
        "decode": {"unpruned": 0.4, "A": 0.3, "B": 0.2},
        "total": 1.5,
    }
    log = tmp_path / "log.txt"
    finished = {"event": "ask", "end": "finished", "seconds": times}
    refused = {"event": "ask", "end": "refused", "seconds": {"wait": 1.0, "total": 0.1}}
    log.write_text(f"A warning\n{json.dumps(finished)}\n\n{json.dumps(refused)}\n")
    seconds = load.stage_seconds(load.read_log(log))
    assert (seconds["select"], seconds["decode"]) == ([0.3], [0.4])
    assert seconds["prefill"] == pytest.approx([0.2]) and seconds["other"] == pytest.approx([0.3])


def test_a_slope_leaves_out_the_first_quarter() -> None:
    held = [500, 900, 1000, 1010, 1020, 1030, 1040, 1050]
    samples = [(10 * number, {"memory_bytes": value}) for number, value in enumerate(held)]
    assert soak.slope(samples, "memory_bytes") == pytest.approx(1.0)


def test_what_a_process_holds_is_counted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(bytes(7))
    thing = serving.held(os.getpid(), tmp_path)
    assert (thing["temporary_files"], thing["temporary_bytes"]) == (1, 7)
    assert thing["threads"] >= 1 and thing["descriptors"] >= 3
    assert 0 < thing["memory_bytes"] <= serving.peak_bytes(os.getpid())
