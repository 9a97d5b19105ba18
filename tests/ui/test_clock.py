"""A machine whose clock is set anew goes on: nothing here is measured by the time of day."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gradio.utils import get_upload_folder
from visits import controls

from spare_demo.ui.errors import Counter
from spare_demo.ui.gradio_compat.files import remove_broken_uploads
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.open_visits import OpenVisits

DAY = 86_400.0


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_jump_in_mid_answer_ends_nothing(
    handlers: Handlers, photo_file: str, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    of_day, visits, counter = time.time, OpenVisits(8, idle_seconds=600), Counter(60.0)
    answering = handlers.ask(**controls(photo_file, "Which number is it?"))
    visit = next(values["visit"] for values in answering if "visit" in values)
    key = visits.put(visit)
    assert counter.times("a line of log") == 1
    monkeypatch.setattr(time, "time", lambda: of_day() + jump)
    last = [values["visit"] for values in answering if "visit" in values][-1]
    assert last.result.finished
    assert all(0 <= a.prefill_seconds < DAY / 2 for a in last.result.answers.values())
    visits.close_idle()
    assert visits.get(key) is visit
    assert counter.times("a line of log") == 0


def test_an_upload_from_the_future_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a clock was set back while it came in."""
    folder = Path(get_upload_folder())
    folder.mkdir(parents=True, exist_ok=True)
    path, of_day = folder / "tmpfuture01", time.time
    path.write_bytes(b"half")
    try:
        monkeypatch.setattr(time, "time", lambda: of_day() - DAY)
        remove_broken_uploads(600)
        assert path.exists()
        monkeypatch.setattr(time, "time", lambda: of_day() + DAY)
        remove_broken_uploads(600)
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
