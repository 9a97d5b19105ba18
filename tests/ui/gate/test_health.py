"""`/health` says how the page is, and does not wait for the model to say it."""

from __future__ import annotations

import threading

import httpx

QUESTION = "How many crosses are there?"


def test_health_is_told_while_the_model_is_busy(public, photo_file, monkeypatch) -> None:
    names = {event.api_name: event for event in public.demo.fns.values()}
    operation, begun, goes_on = names["select"].fn, threading.Event(), threading.Event()

    def wait(*inputs):
        begun.set()
        assert goes_on.wait(60)
        return operation(*inputs)

    monkeypatch.setattr(names["select"], "fn", wait)
    before = httpx.get(f"{public.url}/health", timeout=60).json()
    assert (before["status"], before["waiting"], before["running"]) == ("ok", 0, 0)
    assert before["model"] == public.model.name
    data = {"data": [public.picture(photo_file), QUESTION, "spare", 5, 0]}
    for _ in range(3):
        httpx.post(public.api("call/select"), json=data, timeout=60).raise_for_status()
    assert begun.wait(60)
    during = httpx.get(f"{public.url}/health", timeout=60).json()
    goes_on.set()
    assert (during["waiting"], during["running"]) == (2, 1)
    assert during["uptime_seconds"] >= before["uptime_seconds"] > 0
