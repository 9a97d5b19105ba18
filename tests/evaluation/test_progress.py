"""The line that says how far a run is."""

from __future__ import annotations

import pytest

from spare_demo.evaluation.progress import Bar, duration


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7_800, "2 h 10 min")]
)
def test_durations_are_read_at_a_glance(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_bar_knows_what_was_done_before(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(total=40, before=20)
    bar.started -= 10  # ten seconds for the ten questions that follow
    bar.show(10)
    assert "30 of 40 questions, 10 s left" in capsys.readouterr().err
