"""The operations as MCP tools, called by the official client over HTTP."""

from __future__ import annotations

import base64
import json
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.utils import get_upload_folder
from gradio_client.client import Endpoint
from pages import Page, run_apart
from PIL import Image

from spare_demo.ui.errors import quieten_server
from spare_demo.ui.gate.doors import MOST_PARTS
from spare_demo.ui.gradio_compat import operations
from spare_demo.ui.gradio_compat.files import files_in_cache
from spare_demo.ui.gradio_compat.queue import events_in_queue


@pytest.fixture(scope="module")
def page(serve_public: Callable[..., Page]) -> Page:
    """The app with the tiny model, offering its tools."""
    page = serve_public(mcp=True, max_upload_bytes=5_000_000)
    operations.adapt_mcp_server(page.demo)
    return page


def call(page: Page, *calls: tuple[str, dict[str, Any]]) -> tuple[list, list]:
    """The tools on offer, and what each call gave."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> tuple[list, list]:
        async with (
            streamable_http_client(page.api("mcp/")) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = (await session.list_tools()).tools
            return tools, [await session.call_tool(name, given) for name, given in calls]

    return run_apart(run())


def as_data(path: str) -> str:
    return "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode()


def test_four_tools_say_what_they_take_and_give(page: Page) -> None:
    tools = {tool.name: tool for tool in call(page)[0]}
    assert set(tools) == {"compare", "select", "relevance", "answer"}
    for tool in tools.values():
        assert tool.inputSchema["required"] == ["image"]
        assert all(about["description"] for about in tool.inputSchema["properties"].values())
        assert "Returns: " in tool.description and ",," not in tool.description
        assert set(tool.inputSchema["properties"]["image"]) == {"type", "description"}
        assert "python -m" not in json.dumps(tool.inputSchema)  # a client has no terminal here


def test_a_picture_comes_as_data_or_as_an_upload(page: Page, photo_file: str) -> None:
    uploaded = page.api(f"file={page.picture(photo_file)['path']}")
    asked = {"question": "What is it?", "budget": 5}
    _, told = call(
        page, *(("select", asked | {"image": image}) for image in (as_data(photo_file), uploaded))
    )
    one, two = (json.loads(result.content[0].text) for result in told)
    assert one == two and len(one["order"]) == 5


def test_a_picture_as_data_is_no_upload_of_this_machine(
    page: Page, photo_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one address only so many are taken at a time, and its clients have many."""
    monkeypatch.setattr(Endpoint, "_upload_file", lambda *given, **named: 1 / 0)
    (result,) = call(page, ("select", {"image": as_data(photo_file), "budget": 5}))[1]
    assert not result.isError


def test_a_photo_may_be_as_large_as_an_upload(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    Image.frombytes("RGB", (1200, 1200), random.Random(0).randbytes(3 * 1200**2)).save(path)
    assert 4_000_000 < path.stat().st_size < page.settings.max_upload_bytes
    (told,) = call(page, ("select", {"image": as_data(str(path)), "budget": 5}))[1]
    assert len(json.loads(told.content[0].text)["order"]) == 5


def test_every_tool_answers_in_json(page: Page, photo_file: str) -> None:
    image = as_data(photo_file)
    given = {"image": image, "question": "What is it?"}
    _, told = call(
        page,
        ("compare", given | {"budget": "25%"}),
        ("relevance", given | {"words": True}),
        ("answer", given | {"tokens": "[3, 1]"}),
        ("answer", given | {"tokens": [3, 1]}),
        ("select", given | {"method": None, "budget": 5, "seed": None, "guidance_text": None}),
    )
    compared, relevant, answered, listed, chosen = (
        json.loads(result.content[0].text) for result in told
    )
    assert len(chosen["order"]) == 5  # as if these had been left out
    assert set(compared["answers"]) == {"unpruned", "spare", "cdpruner"}
    assert compared["settings"]["budget"] == 4
    assert len(relevant["cosine"]) == 16 and relevant["words"]
    assert answered["visual_tokens"] == listed["visual_tokens"] == 2


def test_a_refusal_is_a_sentence(page: Page, photo_file: str) -> None:
    image = as_data(photo_file)
    _, told = call(
        page,
        ("select", {"image": image, "method": "none such", "budget": 5}),
        ("select", {"image": "http://127.0.0.1:1/picture.png"}),
        ("select", {"image": "http://127.0.0.1:1/gradio_api/file=/etc/passwd"}),
        ("relevance", {"image": image}),
    )
    assert all(result.isError for result in told)
    said = [result.content[0].text for result in told]
    assert "There is no method 'none such'" in said[0]
    assert "fetches nothing from addresses" in said[1] and "fetches nothing" in said[2]
    assert "no question to compare" in said[3]


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown tool": ("nonsense", {}),
    "no inputs": ("select", {}),
    "a number for the picture": ("select", {"image": 5}),
    "a list for the picture": ("select", {"image": ["a", None]}),
    "a file of the disk": ("select", {"image": "/etc/passwd"}),
    "a file of the disk as an address": ("select", {"image": "file:///etc/passwd"}),
    "an address": ("answer", {"image": "https://127.0.0.1:1/a.png", "question": "Red?"}),
    "an upload elsewhere": ("answer", {"image": {"path": "/etc/passwd"}, "question": "Red?"}),
    "an address with half a bracket": ("select", {"image": "http://[::1"}),
    "an object of a megabyte": ("select", {"image": {"url": "A" * 1_000_000}}),
    "an input that there is none": ("select", {"image": "data:,", "picture": "data:,"}),
    "data of half a byte": ("select", {"image": "data:image/png;base64,AAAAA"}),
    "data without its head": ("select", {"image": "iVBORw0KGgoAAAANSUhEUg" * 1000}),
    "data that is no picture": ("select", {"image": "data:image/png;base64,AAAA"}),
    "data that is no base64": ("select", {"image": "data:image/png;base64,%%%"}),
    "a page as data": ("select", {"image": "data:text/html,<script>alert(1)</script>"}),
}
HOSTILE_WITH_PICTURE: dict[str, tuple[str, dict[str, Any]]] = {
    "a question of a megabyte": ("answer", {"question": "x" * 1_000_000}),
    "deep picks": ("answer", {"question": "Red?", "tokens": "[" * 50_000}),
    "a method that is an object": ("select", {"method": {"a": 1}, "budget": 5}),
    "a budget that is a list": ("select", {"budget": [5]}),
    "no budget": ("select", {"budget": ""}),
    "no question": ("relevance", {"question": None}),
    "a question that is a list": ("answer", {"question": ["Red?"]}),
    "a deep question": ("answer", {"question": json.loads("[" * 90 + "]" * 90)}),
    "a budget that is infinite": ("select", {"budget": "1e999"}),
    "a seed below 0": ("select", {"budget": 5, "seed": -1}),
}


def refusal(result: Any) -> str:
    """The sentence of a refused call, in which nothing of the program's inside stands."""
    (content,) = result.content
    assert result.isError
    for word in ("Traceback", "spare_demo", "root:", "pydantic", "0x", "alidation", "Gradio"):
        assert word not in content.text
    assert len(content.text) < 1000
    return content.text


def test_hostile_calls_are_refused_and_the_next_is_answered(page: Page, photo_file: str) -> None:
    image = as_data(photo_file)
    calls = [*HOSTILE.values()]
    calls += [(tool, given | {"image": image}) for tool, given in HOSTILE_WITH_PICTURE.values()]
    _, results = call(page, *calls, ("select", {"image": image, "budget": 5}))
    sentences = {
        name: refusal(result)
        for name, result in zip([*HOSTILE, *HOSTILE_WITH_PICTURE], results, strict=False)
    }
    assert "more than this page ever sends" in sentences["a question of a megabyte"]
    assert "fetches nothing" in sentences["an address"]
    assert "Choose one of: answer, compare, relevance, select." in sentences["an unknown tool"]
    assert "The inputs of select are image, question," in sentences["no inputs"]
    assert sentences["no inputs"] == sentences["an input that there is none"]
    for name in ("data without its head", "a number for the picture", "data of half a byte"):
        assert sentences["a file of the disk"] == sentences[name]
    assert "Type a whole number from 1 to 16" in sentences["no budget"]
    assert "no question to compare" in sentences["no question"]
    assert "question must be text" in sentences["a deep question"]
    assert "Send it as data:image/png;base64,…" in sentences["a file of the disk"]
    assert "indices as a list of whole numbers" in sentences["deep picks"]
    assert "A budget of inf" in sentences["a budget that is infinite"]
    assert "from 0 to 4294967295" in sentences["a seed below 0"]
    assert not results[-1].isError


def test_pictures_sent_as_data_are_deleted_like_uploads(page: Page) -> None:
    data = b"GIF89a" + os.urandom(20)  # which no other test sends
    image = "data:image/gif;base64," + base64.b64encode(data).decode()
    (result,) = call(page, ("select", {"image": image}))[1]
    assert result.isError
    kept = [path for path in Path(get_upload_folder()).rglob("*.gif") if path.read_bytes() == data]
    assert kept and {str(path) for path in kept} <= files_in_cache() - {*page.demo.kept_files}


def test_a_call_of_very_many_parts_is_refused_unread(page: Page) -> None:
    assert page.post("mcp/", {"params": [[]] * (MOST_PARTS // 2)}).status_code == 413


def test_half_of_a_pair_of_characters_is_refused_in_a_sentence(page: Page) -> None:
    for given in ({"question": "Red\ud83d?"}, {"method": "\ud83d"}):  # the client sends no such
        params = {"name": "select", "arguments": {"image": "data:image/png;base64,AAAA"} | given}
        said = httpx.post(
            page.api("mcp/"),
            content=json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            ),
            headers={
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
            },
            timeout=60,
        ).text
        (name,) = given
        assert f"Type the {name} again." in said and "codec" not in said


def test_a_client_that_leaves_while_it_sends_is_no_fault(
    page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    quieten_server()
    head = (
        "POST /gradio_api/mcp/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", page.settings.port)) as client:
        client.sendall(f'{head}{{"jsonrpc"'.encode())
    for _ in range(200):
        if "Received exception from stream" in caplog.text:
            break
        time.sleep(0.05)
    assert "Received exception from stream" in caplog.text and "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/progress", "params": {"sent": "SECRET " * 10_000}},
        {"id": 1, "method": "tools/call", "params": {"name": ["SECRET"]}},
        {"id": 1, "method": "tools/call", "params": {"name": "SECRET\nERROR:root:"}},
        {"id": 1, "method": "SECRET"},
        ["SECRET"],
    ],
)
def test_the_log_holds_nothing_of_what_was_sent(
    page: Page, caplog: pytest.LogCaptureFixture, message: Any
) -> None:
    quieten_server()
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0"} | message
    accept = {"Accept": "application/json, text/event-stream"}
    assert httpx.post(page.api("mcp/"), json=message, headers=accept).status_code < 500
    assert "SECRET" not in caplog.text


def test_one_call_too_many_is_refused_in_a_sentence(
    page: Page, photo_file: str, hold: Callable[[Page], Any]
) -> None:
    held = hold(page)
    waiting = {"data": [page.picture(photo_file), "Is it red?", "spare", 5, 0]}
    posted = [page.post("call/select", waiting) for _ in range(page.settings.max_waiting)]
    (result,) = call(page, ("select", {"image": as_data(photo_file), "budget": 5}))[1]
    assert "as one address may have (8)" in refusal(result)
    held.goes_on.set()
    for each in posted:  # they end here, and log nothing in the tests after it
        ended = httpx.get(page.api(f"call/select/{each.json()['event_id']}"), timeout=60)
        assert "event: complete" in ended.text


@pytest.mark.parametrize("meta", [{}, {"_meta": {"progressToken": 1}}], ids=["", "progress"])
def test_what_waits_for_a_client_that_left_is_ended(
    page: Page, photo_file: str, hold: Callable[[Page], Any], meta: dict[str, Any]
) -> None:
    held, calls = hold(page), []
    asked = {"name": "select", "arguments": {"image": as_data(photo_file), "budget": 5}} | meta
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    accept = {"Accept": "application/json, text/event-stream"}
    for waiting in range(3):
        stream = httpx.stream("POST", page.api("mcp/"), json=body, headers=accept, timeout=60)
        calls.append(stream)
        stream.__enter__()
        assert wait_for(lambda at=waiting: len(events_in_queue(page.demo)[0]) == at)
    for stream in calls:
        stream.__exit__(None, None, None)
    assert wait_for(lambda: not events_in_queue(page.demo)[0])
    held.goes_on.set()
    assert wait_for(lambda: not events_in_queue(page.demo)[1])
    (result,) = call(page, ("select", {"image": as_data(photo_file), "budget": 5}))[1]
    assert not result.isError


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether it holds within some seconds."""
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'pip install "gradio\[mcp\]"'):
        operations.check_mcp()
    with gr.Blocks() as demo:  # Gradio goes on without a server that it could not start
        pass
    with pytest.raises(ValueError, match=r'pip install "gradio\[mcp\]"'):
        operations.adapt_mcp_server(demo)
