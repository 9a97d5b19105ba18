"""Ends and clears away, time and again, what visitors left behind."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import gradio as gr
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.models.loading.heap import return_free_memory
from spare_demo.ui.gate.doors import api_path, stream_session
from spare_demo.ui.gradio_compat.files import remove_broken_uploads, remove_old_files
from spare_demo.ui.gradio_compat.processing import Page
from spare_demo.ui.gradio_compat.queue import UnreadRuns, end_runs, sessions_of_runs
from spare_demo.ui.gradio_compat.sessions import forget_state, spare_open_pages

EVERY_SECONDS = 60.0
LOOK_SECONDS = 0.5
"""Between two looks for visitors who have left."""
BROKEN_UPLOAD_SECONDS = 600.0
FILE_SECONDS = 7200.0
MOST_FILE_BYTES = 2_000_000_000
"""Of uploads and comparisons together; a hundred of the largest uploads."""

_FAILURE = "Runs of visitors who left could not be ended"

_log = logging.getLogger(__name__)


@asynccontextmanager
async def repeated(
    job: Callable[[], Awaitable[None]], seconds: float, failure: str
) -> AsyncIterator[None]:
    """Do a job again and again, with so many seconds between, until the body has ended.

    failure: what the log says where it raises; the next time it may go well.
    """

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await job()
            except Exception as error:
                _log.error(failure, exc_info=error)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()


async def sweep(demo: Page, unread: UnreadRuns) -> None:
    """One sweep: runs that nobody reads, files that broke off, are old or too many, the page's own
    jobs, and memory that is held for nothing."""
    await unread.end()
    remove_broken_uploads(BROKEN_UPLOAD_SECONDS)
    await asyncio.to_thread(remove_old_files, demo, demo.kept_files, FILE_SECONDS, MOST_FILE_BYTES)
    for job in demo.jobs:
        job()
    await asyncio.to_thread(return_free_memory)


class Sweeper:
    """ASGI middleware: sweeps from the start of the page to its end, ends the runs of each session
    that has no connection open, and spares the states of those that have.

    Gradio ends them when the stream of their results breaks off. A visitor who leaves between the
    question and the opening of that stream would be answered all the same.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._open: Counter[str] = Counter()
        self._alone: set[str] = set()
        self._left: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and count the connections that last."""
        if scope["type"] == "lifespan":
            demo = scope["app"].get_blocks()
            unread = UnreadRuns(demo, self._open)
            spare_open_pages(demo, lambda session: session in self._open)
            async with (
                repeated(lambda: sweep(demo, unread), EVERY_SECONDS, "A sweep failed"),
                repeated(lambda: self.look(demo), LOOK_SECONDS, _FAILURE),
            ):
                return await self.app(scope, receive, send)
        session = _lasting_session(scope)
        if not session:
            return await self.app(scope, receive, send)
        self._open[session] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._open[session] -= 1
            self._open += Counter()  # drops those without any
            if api_path(scope).startswith("/heartbeat/"):  # the page was closed
                self._left.add(session)  # now: its run may end before a look finds it alone

    async def look(self, demo: gr.Blocks) -> None:
        """End the runs of the sessions that had no connection at the last look, either: between a
        question and the stream of its results there is a moment without one."""
        running = sessions_of_runs(demo)
        alone = {session for session in running if session not in self._open}
        for session in alone & self._alone:
            await end_runs(demo, session)
            self._left.add(session)
        # A run that was under way leaves its state behind when it ends.
        for session in self._left - running:
            if session not in self._open:
                forget_state(demo, session)
        self._left &= running
        self._alone = alone


def _lasting_session(scope: Scope) -> str:
    """The session that a request keeps a connection open for, "" for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return ""
    path = api_path(scope)
    if path.startswith("/heartbeat/"):
        return path.removeprefix("/heartbeat/")
    return stream_session(scope)
