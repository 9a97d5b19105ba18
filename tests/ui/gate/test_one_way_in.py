"""Whatever runs the model waits for its turn: there is no door beside the queue."""

from __future__ import annotations

import pytest
from gradio_client import Client, handle_file
from visits import QUESTION


@pytest.mark.parametrize("door", ["run", "api"])
@pytest.mark.parametrize("name", ["compare", "select", "relevance", "answer"])
def test_a_direct_call_is_turned_away(public, photo_file, door: str, name: str) -> None:
    data = [public.picture(photo_file), QUESTION]
    answer = public.post(f"{door}/{name}", {"data": data})
    assert answer.status_code == 404
    assert "join the queue" in answer.text


@pytest.mark.parametrize("name", ["run/predict", "api/predict"])
def test_no_event_that_waits_for_a_turn_can_be_called_by_its_number(public, name: str) -> None:
    waiting = [number for number, event in public.demo.fns.items() if event.queue]
    assert len(waiting) > 10
    for number in waiting:
        body = {"fn_index": number, "data": [], "session_hash": "stranger"}
        answer = public.post(name, body)
        assert answer.status_code == 404, public.demo.fns[number]


def test_the_events_beside_the_queue_run_no_model(public) -> None:
    beside = [event for event in public.demo.fns.values() if not event.queue and event.fn]
    # The marks of the slider, the line under a menu, and what Stop does.
    assert {event.name for event in beside} <= {"partial", "line_html", "run", "stopped", "end"}
    assert not {event.concurrency_id for event in beside} & {"model", "find", "lab"}


def test_programs_wait_in_the_queue_and_get_their_answer(public, photo_file) -> None:
    client = Client(public.url, verbose=False)
    image = handle_file(photo_file)
    assert client.predict(image, QUESTION, "spare", 5, api_name="/select")["method"] == "spare"
    job = client.submit(image, QUESTION, api_name="/answer")
    assert job.result(timeout=60)["visual_tokens"] == 16
