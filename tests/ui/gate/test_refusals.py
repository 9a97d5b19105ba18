"""Requests that Gradio's own routes fail on get a sentence; none is a fault of the server."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from visits import QUESTION

from spare_demo.ui.errors import quieten_server


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("call/nonsense", {"data": []}, "Choose one of: answer, compare, relevance, select."),
        ("call/v2/nonsense", {}, "Choose one of: answer, compare, relevance, select."),
        (
            "call/v2/select",
            {},
            "are image, question, method, budget, seed, guidance_text. Send at least the picture",
        ),
        (
            "call/v2/answer",
            {"image": None, "<b>": 1},
            "are image, question, tokens, positions. Send",
        ),
        ("queue/join", {"fn_index": 99_999, "data": [], "session_hash": "a"}, "Load the page"),
    ],
)
def test_a_call_of_wrong_names_is_a_sentence(
    public, path: str, body: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = public.post(path, body)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]
    assert "<b>" not in answer.text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("path", ["run/predict", "cancel", "reset", "queue/join", "call/select"])
@pytest.mark.parametrize("sent", ["NaN", "1e999", '"\\ud800"', '{"secret": 1}'])
def test_a_body_of_another_shape_is_a_sentence_without_what_was_sent(
    public, path: str, sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = public.post(path, f'{{"data": {sent}}}')
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("Load the page again, or call an operation.")
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("body", [{"data": []}, {"data": [], "fn_index": 99_999}])
def test_a_direct_call_of_what_is_not_there_is_a_sentence(public, body: Any) -> None:
    answer = public.post("run/nonsense", body)
    assert answer.status_code == 400 and "Load the page" in answer.json()["detail"]


def test_two_ranges_of_a_file_are_a_sentence(public, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = public.upload(b"whole").json()
    answer = httpx.get(public.api(f"file={path}"), headers={"Range": "bytes=0-1,3-4"}, timeout=60)
    assert answer.status_code == 400 and "one range" in answer.json()["detail"]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("query", ["", "?upload_id=a"])
def test_a_field_in_place_of_a_file_is_a_sentence(public, query: str) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    body = '--b\r\nContent-Disposition: form-data; name="files"\r\n\r\n{}\r\n--b--\r\n'
    answer = httpx.post(public.api("upload") + query, content=body, headers=kind, timeout=60)
    assert answer.status_code == 400
    assert "is not a file" in answer.json()["detail"]


@pytest.mark.parametrize("door", ["call", "call/v2"])
def test_a_run_that_is_not_there_is_a_sentence(public, photo_file: str, door: str) -> None:
    answer = httpx.get(public.api(f"{door}/select/nobody"), timeout=60)
    assert answer.status_code == 404 and "Call the operation again" in answer.json()["detail"]
    body = {"image": public.picture(photo_file), "question": QUESTION, "budget": 5}
    event = public.post("call/v2/select", body).json()["event_id"]
    assert "event: complete" in httpx.get(public.api(f"{door}/select/{event}"), timeout=60).text
    assert httpx.get(public.api(f"{door}/select/{event}"), timeout=60).status_code == 404


def test_a_stranger_sessions_stream_ends_in_order(public, caplog: pytest.LogCaptureFixture) -> None:
    """The page takes `session_not_found` as its sign to begin anew."""
    answer = httpx.get(public.api("queue/data?session_hash=nobody"), timeout=60)
    assert '"session_not_found":true' in answer.text  # and no broken connection
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("picture", [[None, None], 5, True, ["a"], "photo.png", {}])
def test_what_is_no_picture_is_a_sentence_and_is_not_logged(
    public, picture: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "spare_demo"):
        text = public.call("select", [picture, QUESTION, "spare", 5, 0]).text
    assert "Send" in text or "Upload" in text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("body", ["[" * 100_000, '{"data": [1', '{"data": 5}', "\x00", "NaN"])
def test_json_that_is_none_or_too_deep_is_refused(public, body: str) -> None:
    assert public.post("call/select", body).status_code in (400, 422)


def test_uploads_of_another_shape_fill_no_log(public, caplog: pytest.LogCaptureFixture) -> None:
    quieten_server()
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    for _ in range(3):
        httpx.post(public.api("upload"), content=b"no boundary", headers=kind, timeout=60)
    assert caplog.text.count("Expected boundary character") == 1
