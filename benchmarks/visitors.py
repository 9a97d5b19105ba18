"""Visitors of a served page without a browser: they speak to its queue as the page's own script
does, and hold the same connections open.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from gradio_client.utils import apply_diff

READ = ("answers", "message", "stage", "enough", "carrier", "kl", "model-status")
"""The parts of the page of which a visitor reads what comes."""


def connections() -> httpx.AsyncClient:
    """For any number of visitors; nothing is given up for taking long."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(trust_env=False, timeout=600, limits=limits)


@dataclass(frozen=True)
class Event:
    """An event that the server handles: its number, and the parts that go in and come out."""

    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class Run:
    """What came of an event.

    Attributes:
        seconds: from the request until the last message.
        places: in the queue, as the page would have shown them; 0 is next.
        shown: the last value of each part of `READ` that it brought, by name.
        first_seconds: from the request until the first value of each of these parts.
        refused: why it was turned away or failed; "" where it did not.
    """

    seconds: float = 0.0
    places: list[int] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    first_seconds: dict[str, float] = field(default_factory=dict)
    refused: str = ""


class Page:
    """What a served page consists of, as its own script reads it."""

    def __init__(self, url: str, config: Mapping[str, Any]) -> None:
        self.url, self._events = url, config["dependencies"]
        parts = {part["id"]: part["props"] for part in config["components"]}
        self.ids = {props["elem_id"]: i for i, props in parts.items() if props.get("elem_id")}
        self.names = {i: name for name, i in self.ids.items()}
        self.values = {i: props.get("value") for i, props in parts.items()}

    @classmethod
    async def open(cls, url: str, client: httpx.AsyncClient) -> Page:
        """The page at an address."""
        return cls(url, (await client.get(f"{url}/config")).raise_for_status().json())

    def events(self, part: str, kind: str) -> list[Event]:
        """What the server does, one after the other, once something happens to a part."""
        target = [self.ids[part], kind]
        chain = [one for one in self._events if target in one["targets"]]
        for one in chain:
            following = (e for e in self._events if e.get("trigger_after") == one["id"])
            chain += [e for e in following if not e["trigger_only_on_failure"]]
        return [_event(one) for one in chain if one["backend_fn"]]

    def event_that_reads(self, *parts: str) -> Event:
        """The first thing the server does with all these parts; KeyError where it does none."""
        wanted = {self.ids[part] for part in parts}
        for one in self._events:
            if one["backend_fn"] and wanted <= set(one["inputs"]):
                return _event(one)
        raise KeyError(f"Nothing on the page reads {' and '.join(parts)}.")


def _event(dependency: Mapping[str, Any]) -> Event:
    return Event(dependency["id"], tuple(dependency["inputs"]), tuple(dependency["outputs"]))


class Visitor:
    """One visitor, with the values of the controls as the page has them for them."""

    def __init__(self, page: Page, client: httpx.AsyncClient) -> None:
        self.page, self._client = page, client
        self.session = uuid.uuid4().hex[:12]
        self._values = dict(page.values)

    async def upload(self, picture: Path) -> None:
        """Put a picture of one's own on the page."""
        files = {"files": (picture.name, picture.read_bytes(), "image/png")}
        sent = await self._client.post(f"{self.page.url}/gradio_api/upload", files=files)
        (path,) = sent.raise_for_status().json()
        self.set(picture={"path": path, "meta": {"_type": "gradio.FileData"}})

    def set(self, **values: Any) -> None:
        """Change what controls say, by their ids with _ for -."""
        for name, value in values.items():
            self._values[self.page.ids[name.replace("_", "-")]] = value

    async def ask(self, picture: Path, question: str, following: bool = True) -> Run:
        """Upload a picture and ask about it; the run is that of the answers.

        following: as of `do`.
        """
        await self.upload(picture)
        self.set(question=question)
        return await self.do("ask", "click", following)

    async def do(self, part: str, kind: str, following: bool = True) -> Run:
        """What the page does after an event of one of its parts; the first of its runs.

        following: whether also what comes after that, such as the curve after the answers.
        The file of a comparison is fetched: `shown` has its bytes as `stage`.
        """
        first, *others = self.page.events(part, kind)
        run = await self.run(first)
        if isinstance(stage := run.shown.get("stage"), dict | str):
            path = stage if isinstance(stage, str) else stage["path"]
            file = await self._client.get(f"{self.page.url}/gradio_api/file={path}")
            run.shown["stage"] = file.raise_for_status().content
        for event in others if following and not run.refused else ():
            await self.run(event)
        return run

    async def run(self, event: Event) -> Run:
        """One event: its turn is waited for, and all that comes is read."""
        run, start = Run(), time.perf_counter()
        body = {
            "fn_index": event.number,
            "session_hash": self.session,
            "data": [self._values[part] for part in event.inputs],
        }
        join = await self._client.post(f"{self.page.url}/gradio_api/queue/join", json=body)
        if join.status_code != 200:
            run.refused = str(join.json().get("detail", join.text))
            return run
        data: list[Any] = []
        async for message in self._messages():
            kind, elapsed = message["msg"], time.perf_counter() - start
            if kind == "estimation":
                run.places.append(message["rank"])
            elif kind == "process_generating":
                data = _step(data, message["output"]["data"])
                self._read(event, data, run, elapsed)
            elif kind == "process_completed":
                if not message["success"]:
                    run.refused = str(
                        message["output"].get("error") or "It failed, without a word."
                    )
                elif not data:  # it came in one step
                    self._read(event, message["output"]["data"], run, elapsed)
        run.seconds = time.perf_counter() - start
        return run

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        address = f"{self.page.url}/gradio_api/queue/data"
        hash_ = {"session_hash": self.session}
        async with self._client.stream("GET", address, params=hash_, timeout=None) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    message = json.loads(line[5:])
                    if message["msg"] == "close_stream":
                        return
                    yield message

    def _read(self, event: Event, data: Sequence[Any], run: Run, elapsed: float) -> None:
        for part, value in zip(event.outputs, data, strict=False):
            if (name := self.page.names.get(part)) in READ:
                if isinstance(value, dict) and value.get("__type__") == "update":
                    if "value" not in value:
                        continue  # it stays as it is
                    value = value["value"]
                run.shown[name] = value
                if value:
                    run.first_seconds.setdefault(name, elapsed)


def _step(before: Sequence[Any], sent: Sequence[Any]) -> list[Any]:
    """All values of a step; sent whole at first, then as differences from the step before."""
    if not before:
        return list(sent)
    return [apply_diff(old, new) for old, new in zip(before, sent, strict=True)]


@asynccontextmanager
async def visiting(page: Page, client: httpx.AsyncClient) -> AsyncIterator[Visitor]:
    """A visitor whose page is open; at the end it is closed, whatever it was at."""
    visitor = Visitor(page, client)
    address = f"{page.url}/gradio_api/heartbeat/{visitor.session}"

    async def stay() -> None:
        async with client.stream("GET", address, timeout=None) as stream:
            async for _ in stream.aiter_bytes():
                pass

    open_page = asyncio.create_task(stay())
    try:
        yield visitor
    finally:
        open_page.cancel()
        await asyncio.gather(open_page, return_exceptions=True)


@dataclass(frozen=True)
class Comparison:
    """What a page shows of a question, to be compared with what the package says.

    Attributes:
        question: as it stands above the answers.
        answers: of all tokens, of A and of B.
        picks: the tokens that A and B keep, in the order picked.
    """

    question: str
    answers: tuple[str, ...]
    picks: tuple[tuple[int, ...], ...]


def read_comparison(run: Run) -> Comparison | None:
    """The comparison that an ask brought, None where there is none."""
    html, stage = run.shown.get("answers"), run.shown.get("stage")
    if run.refused or not isinstance(html, str) or not isinstance(stage, bytes):
        return None
    question = re.search(r'data-question="([^"]*)"', html)
    html = re.sub(' <mark title="ends here">.*?</mark>', "", html)  # no word of the answer
    words = re.findall(r'<p class="answer-text">(.*?)</p>', html, re.DOTALL)
    length = int.from_bytes(stage[:4], "little")
    head = json.loads(stage[4 : 4 + length])
    arrays = stage[4 + (length + -length % 4) :]
    picks = []
    for method in head["methods"].values():
        order = method["order"]
        kept = np.frombuffer(arrays, "<u2", min(order["count"], head["shown"]), order["from"])
        picks.append(tuple(kept.tolist()))
    return Comparison(
        unescape(question[1]) if question else "",
        tuple(unescape(re.sub("<[^>]*>", "", text)).strip() for text in words),
        tuple(picks),
    )
