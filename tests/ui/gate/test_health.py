"""`/health` says how the page is, and does not wait for the model to say it."""

from __future__ import annotations

from typing import Any

import gradio as gr
import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient
from visits import QUESTION

from spare_demo.ui.gate.health import answer_health


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


def test_runs_whose_results_nobody_can_read_stop_no_one(public, photo_file, hold) -> None:
    held = hold(public)
    data = [public.picture(photo_file), QUESTION, "spare", 5, 0]
    (select,) = (event for event in public.demo.fns.values() if event.api_name == "select")
    nameless = {"fn_index": select._id, "data": data, "session_hash": ""}
    lost = {**nameless, "session_hash": "forgotten"}
    public.post("queue/join", nameless).raise_for_status()
    assert held.begun.wait(60)
    for body in (nameless, lost, nameless):
        public.post("queue/join", body).raise_for_status()
    # As 2,000 newer sessions would do.
    public.demo._queue.pending_messages_per_session.pop("forgotten")
    held.goes_on.set()
    assert public.call("select", data).text.startswith("event: complete")
    health = httpx.get(f"{public.url}/health", timeout=60)
    assert (health.status_code, health.json()["status"]) == (200, "ok")


def test_a_page_whose_queue_has_ended_is_not_well() -> None:
    with gr.Blocks() as demo:
        gr.Textbox()
    demo.model_name = "tiny"
    app: Any = Starlette(middleware=[Middleware(answer_health)])
    app.get_blocks = lambda: demo
    client = TestClient(app)
    assert client.get("/health").status_code == 200
    demo._queue.stopped = True
    health = client.get("/health")
    assert (health.status_code, health.json()["status"]) == (503, "stopped")
