"""`/health` says how the page is, and does not wait for the model to say it."""

from __future__ import annotations

import httpx
from visits import QUESTION


def test_health_is_told_while_the_model_is_busy(public, photo_file, hold) -> None:
    held = hold(public)
    before = httpx.get(f"{public.url}/health", timeout=60).json()
    assert (before["status"], before["waiting"], before["running"]) == ("ok", 0, 0)
    assert before["model"] == public.model.name
    data = {"data": [public.picture(photo_file), QUESTION, "spare", 5, 0]}
    for _ in range(3):
        public.post("call/select", data).raise_for_status()
    assert held.begun.wait(60)
    during = httpx.get(f"{public.url}/health", timeout=60).json()
    held.goes_on.set()
    assert (during["waiting"], during["running"]) == (2, 1)
    assert during["uptime_seconds"] >= before["uptime_seconds"] > 0
