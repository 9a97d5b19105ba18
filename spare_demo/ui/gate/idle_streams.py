"""Ends streams of results in which nothing is to come."""

from __future__ import annotations

import asyncio
import time

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.ui.gate.doors import stream_session
from spare_demo.ui.gradio_compat.queue import LOOK_EVERY, STREAM_END, has_results_to_come

QUIET_SECONDS = 2.0
"""How long nothing has to be on its way; a run that follows another one begins sooner."""


def end_idle_streams(app: ASGIApp) -> ASGIApp:
    """ASGI middleware: ends a new stream of results if nothing is on its way for two seconds.

    Gradio's page may get all results of a short run in the stream of another run, before it knows
    that they are its own. It opens one more stream for them all the same, which would stay. A
    browser has six connections to a server for all its tabs: with such a stream and the heartbeat
    of each of three tabs, no click in any of them would be answered.
    """

    async def layer(scope: Scope, receive: Receive, send: Send) -> None:
        if session := stream_session(scope):
            demo = scope["app"].get_blocks()
            end = time.monotonic() + QUIET_SECONDS
            while not has_results_to_come(demo, session):
                if time.monotonic() > end:
                    response = Response(STREAM_END, media_type="text/event-stream")
                    return await response(scope, receive, send)
                await asyncio.sleep(LOOK_EVERY)
        await app(scope, receive, send)

    return layer
