"""Clears away, time and again, what visitors left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import gradio as gr
from starlette.types import ASGIApp, Receive, Scope, Send

from spare_demo.models.loading.heap import return_free_memory
from spare_demo.ui.gradio_compat.pictures import remove_broken_uploads, remove_oldest_files
from spare_demo.ui.gradio_compat.queue import UnreadRuns

EVERY_SECONDS = 60.0
BROKEN_UPLOAD_SECONDS = 600.0
MOST_FILE_BYTES = 2_000_000_000
"""Of uploads and comparisons together; a hundred of the largest uploads."""

_log = logging.getLogger(__name__)
_jobs: WeakKeyDictionary[gr.Blocks, list[Callable[[], object]]] = WeakKeyDictionary()


def sweep_also(demo: gr.Blocks, job: Callable[[], object]) -> None:
    """Call a quick job of a page every minute while it is served."""
    _jobs.setdefault(demo, []).append(job)


class Sweeper:
    """ASGI middleware: sweeps from the start of the page to its end, and sees no request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        demo = scope["app"].get_blocks()
        unread = UnreadRuns(demo)
        async with repeated(lambda: sweep(demo, unread), EVERY_SECONDS, "A sweep failed"):
            await self.app(scope, receive, send)


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


async def sweep(demo: gr.Blocks, unread: UnreadRuns) -> None:
    """One sweep: runs that nobody reads, uploads that broke off or are too many, the page's own
    jobs, and memory that is held for nothing."""
    await unread.end()
    remove_broken_uploads(BROKEN_UPLOAD_SECONDS)
    remove_oldest_files(demo, MOST_FILE_BYTES)
    for job in _jobs.get(demo, []):
        job()
    await asyncio.to_thread(return_free_memory)
