"""The app as strangers reach it: a tiny model on a page that was started with --public."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import httpx
import pytest
from ports import free_port

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.ui import build, launch_options


@dataclass(frozen=True)
class PublicPage:
    """A served page, and what a stranger's program does to it."""

    url: str
    demo: gr.Blocks
    model: LlavaModel
    settings: Settings

    def api(self, path: str) -> str:
        return f"{self.url}/gradio_api/{path}"

    def upload(self, *files: str | bytes, **options: Any) -> httpx.Response:
        """Sends files, named by their path or made of these bytes, in one request."""
        parts = []
        for number, file in enumerate(files):
            data = file if isinstance(file, bytes) else Path(file).read_bytes()
            parts.append(("files", (f"photo-{number}.png", data, "image/png")))
        return httpx.post(self.api("upload"), files=parts, timeout=60, **options)

    def picture(self, path: str) -> dict[str, Any]:
        """The picture as an operation's input, after its upload."""
        (uploaded,) = self.upload(path).raise_for_status().json()
        return {"path": uploaded, "meta": {"_type": "gradio.FileData"}}


@pytest.fixture(scope="session")
def serve_public(tiny_model: LlavaModel) -> Iterator[Callable[..., PublicPage]]:
    """Serves pages with settings of their own; all are closed after the last test."""
    with ExitStack() as stack:

        def serve(**changes: Any) -> PublicPage:
            settings = Settings(
                device="cpu",
                port=free_port(),
                public=True,
                budget=5,
                max_new_tokens=2,
                max_upload_bytes=300_000,
            )
            settings = dataclasses.replace(settings, **changes)
            demo = build(tiny_model, settings)
            demo.launch(**launch_options(settings), prevent_thread_lock=True)
            stack.callback(demo.close, verbose=False)
            return PublicPage(f"http://127.0.0.1:{settings.port}", demo, tiny_model, settings)

        yield serve


@pytest.fixture(scope="session")
def public(serve_public: Callable[..., PublicPage]) -> PublicPage:
    return serve_public()
