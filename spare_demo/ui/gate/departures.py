"""Ends what runs for visitors who have left."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qs

import gradio as gr
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.ui.gate.doors import path_of
from spare_demo.ui.gate.sweeper import repeated
from spare_demo.ui.gradio_compat.queue import end_runs, sessions_of_runs
from spare_demo.ui.gradio_compat.sessions import forget_state

EVERY_SECONDS = 0.5

_FAILURE = "Runs of visitors who left could not be ended"


class Departures:
    """ASGI middleware: ends the runs of each session that has no connection open.

    Gradio ends them when the stream of their results breaks off. A visitor who leaves between the
    question and the opening of that stream would be answered all the same.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._open: Counter[str] = Counter()
        self._alone: set[str] = set()
        self._ended: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and count the connections that last."""
        if scope["type"] == "lifespan":
            demo = scope["app"].get_blocks()
            async with repeated(lambda: self.look(demo), EVERY_SECONDS, _FAILURE):
                await self.app(scope, receive, send)
            return
        session = _lasting_session(scope)
        if not session:
            await self.app(scope, receive, send)
            return
        self._open[session] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._open[session] -= 1
            self._open += Counter()  # drops those without any

    async def look(self, demo: gr.Blocks) -> None:
        """End the runs of the sessions that had no connection at the last look, either: between a
        question and the stream of its results there is a moment without one."""
        running = sessions_of_runs(demo)
        alone = {session for session in running if session not in self._open}
        for session in alone & self._alone:
            await end_runs(demo, session)
            self._ended.add(session)
        # A run that was under way leaves its state behind when it ends.
        for session in self._ended - running:
            if session not in self._open:
                forget_state(demo, session)
        self._ended &= running
        self._alone = alone


def _lasting_session(scope: Scope) -> str:
    """The session that a request keeps a connection open for, "" for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return ""
    path = path_of(scope).removeprefix("/gradio_api")
    if path == "/queue/data":
        return parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", [""])[0]
    return path.removeprefix("/heartbeat/") if path.startswith("/heartbeat/") else ""
