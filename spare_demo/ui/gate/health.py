"""Whether the page is well, for what watches over it."""

from __future__ import annotations

import time

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.ui.gate.doors import path_of
from spare_demo.ui.gradio_compat.queue import events_in_queue


def answer_health(app: ASGIApp) -> ASGIApp:
    """ASGI middleware: `/health`, answered without a turn, a thread or the model."""
    start = time.monotonic()

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or path_of(scope) != "/health":
            return await app(scope, receive, send)
        demo = scope["app"].get_blocks()
        waiting, running = events_in_queue(demo)
        code, status = (503, "stopped") if demo._queue.stopped else (200, "ok")
        facts = {
            "status": status,
            "model": demo.model_name,
            "waiting": len(waiting),
            "running": len(running),
            "uptime_seconds": round(time.monotonic() - start, 1),
        }
        await JSONResponse(facts, code)(scope, receive, send)

    return layer
