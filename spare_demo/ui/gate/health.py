"""Whether the page is well, for what watches over it."""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

import gradio as gr
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.ui.gate.doors import path_of
from spare_demo.ui.gradio_compat.queue import requests_in_queue

_models: WeakKeyDictionary[gr.Blocks, str] = WeakKeyDictionary()


def name_model(demo: gr.Blocks, name: str) -> None:
    """Let the health of a page say which model answers there."""
    _models[demo] = name


class Health:
    """ASGI middleware: `/health`, answered without a turn, a thread or the model."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self._start = app, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on any other path."""
        if scope["type"] != "http" or path_of(scope) != "/health":
            await self.app(scope, receive, send)
            return
        demo = scope["app"].get_blocks()
        waiting, running = requests_in_queue(demo)
        health = {
            "status": "ok",
            "model": _models.get(demo),
            "waiting": len(waiting),
            "running": len(running),
            "uptime_seconds": round(time.monotonic() - self._start, 1),
        }
        await JSONResponse(health)(scope, receive, send)
