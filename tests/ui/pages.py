"""Pages that tests serve, and what a program that is no browser does to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
import httpx
from visits import page_request

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.ui import build, launch_options
from spare_demo.ui.examples import Example, load_examples
from spare_demo.ui.gradio_compat.server import stop_server
from spare_demo.ui.guide import Guide
from spare_demo.ui.visit import Visit

T = TypeVar("T")

NO_TLS = False
"""For httpx's `verify`: no certificates are read, which takes 20 ms for every call."""


class Caller:
    """A page at a url, called as a program does that keeps no connection."""

    url: str

    def api(self, path: str) -> str:
        return f"{self.url}/gradio_api/{path}"

    def post(self, path: str, body: Any) -> httpx.Response:
        """Sends JSON, or text in its place."""
        content = body if isinstance(body, str) else json.dumps(body)
        kind = {"Content-Type": "application/json"}
        return httpx.post(self.api(path), content=content, headers=kind, timeout=60, verify=NO_TLS)

    def call(self, name: str, data: list[Any]) -> httpx.Response:
        """How an operation ends, or the refusal to begin it."""
        started = self.post(f"call/{name}", {"data": data})
        if started.status_code != 200:
            return started
        event = started.json()["event_id"]
        return httpx.get(self.api(f"call/{name}/{event}"), timeout=120, verify=NO_TLS)

    def upload(self, *files: str | bytes) -> httpx.Response:
        """Sends files, named by their path or made of these bytes, in one request."""
        parts = []
        for number, file in enumerate(files):
            data = file if isinstance(file, bytes) else Path(file).read_bytes()
            parts.append(("files", (f"photo-{number}.png", data, "image/png")))
        return httpx.post(self.api("upload"), files=parts, timeout=60, verify=NO_TLS)

    def picture(self, path: str) -> dict[str, Any]:
        """The picture as an operation's input, after its upload."""
        (uploaded,) = self.upload(path).raise_for_status().json()
        return {"path": uploaded, "meta": {"_type": "gradio.FileData"}}


@dataclass(frozen=True)
class Page(Caller):
    """A page that is served in this process."""

    url: str
    demo: gr.Blocks
    model: LlavaModel
    settings: Settings

    @property
    def first(self) -> Example:
        """What the page opens on, with its first question."""
        return load_examples(self.model.name)[0]

    def look(self, method_a: str = "spare", method_b: str = "cdpruner") -> Visit:
        """The comparison of these methods on it, worked out beside the page."""
        request = page_request(self.first.path, self.first.question, method_a, method_b)
        return Guide(self.model, self.settings).look(request)


@contextmanager
def serving(model: Any, settings: Settings, **options: Any) -> Iterator[Page]:
    """Serves the page of a model. options: of `build`."""
    demo = build(model, settings, **options)
    demo.launch(**launch_options(settings), prevent_thread_lock=True)
    try:
        yield Page(f"http://127.0.0.1:{settings.port}", demo, model, settings)
    finally:
        stop_server(demo, 1.0)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it in a thread of its own: in this one a browser's loop may be running."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
