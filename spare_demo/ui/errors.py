"""Errors in words that a visitor or a caller may read."""

from __future__ import annotations

import errno
import logging
import threading
import time
import traceback
from collections.abc import Hashable
from pathlib import Path

from starlette.requests import ClientDisconnect

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.models import ModelError
from spare_demo.models.generate.passes import NO_MEMORY

SORRY = (
    "Something went wrong on the server. Your picture and question are still here: ask again, or "
    "try a smaller picture."
)

NO_FILES = (
    "The server has no room for files now, so nothing could be shown. Your picture and question "
    "are still here: ask again in a few minutes."
)
NO_ROOM = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT),
    *(errno.EMFILE, errno.ENFILE),
}
"""What a temporary folder that is full, read-only or gone says, and too many open files."""

QUIET_SECONDS = 60.0
"""For so long nothing more is logged of an error that is logged already; it is counted."""

MOST_COUNTED = 1_000
"""Different lines of the log that are counted; some libraries write what was sent into theirs."""

MOST_LOGGED = 300
"""Characters of an error's message."""
MOST_CAUSES = 5

_log = logging.getLogger(__name__)


def sentence(error: Exception) -> str:
    """The message of a ValueError (a PictureError is one) or a ModelError, written for them.

    Of anything else see `fault_sentence`. The log gets one line of a refusal: where it was, and
    nothing of what was sent.
    """
    if isinstance(error, ValueError | ModelError):
        log_refusal(error)
        return str(error)
    return fault_sentence(error)


def fault_sentence(error: Exception) -> str:
    """What may be told of an error whose own words are not written for them; the log has those."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        log_refusal(error)
        return NO_FILES
    if times := _counter.times(_place(error)):
        _log.error("An event failed, %d since the last such line\n%s", times, _trace(error))
    return NO_MEMORY if is_out_of_memory(error) else SORRY


def _trace(error: BaseException | None) -> str:
    """The traceback of an error and its causes, with the head of each message on one line: what a
    visitor sent may stand there, at any length."""
    parts: list[str] = []
    for _ in range(MOST_CAUSES):
        if error is None:
            break
        message = f"{type(error).__name__}: {str(error)[:MOST_LOGGED]!r}\n"
        parts = [*traceback.format_tb(error.__traceback__), message, *parts]
        error = error.__cause__ or error.__context__
    return "".join(parts)


def log_refusal(error: Exception) -> None:
    """One line about an error that was told to whoever caused it."""
    place = _place(error)
    if times := _counter.times(place):
        _log.warning("Refused at %s: %s, %d since the last such line", *place, times)


class Counter:
    """Counts what would be logged again and again."""

    def __init__(self, seconds: float) -> None:
        """seconds: for how long after a line the same is only counted."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._seen: dict[Hashable, tuple[float, int]] = {}

    def times(self, what: Hashable) -> int:
        """How often it came since it was logged last, this time included; 0 to log nothing now."""
        now = time.monotonic()
        with self._lock:
            last, count = self._seen.get(what, (now - self._seconds, 0))
            due = now - last >= self._seconds
            self._seen[what] = (now, 0) if due else (last, count + 1)
            if len(self._seen) > MOST_COUNTED:
                del self._seen[next(iter(self._seen))]
            return count + 1 if due else 0


_counter = Counter(QUIET_SECONDS)


class RepeatFilter(logging.Filter):
    """Lets an equal message pass once in a while, with how often it came since.

    Where descriptors run out, the server's loop logs a traceback thousands of times a second.
    """

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it now; a client that left while it was sending is no fault, nor is one
        that left at all: Windows reports each as a connection that was reset."""
        left = (ClientDisconnect, ConnectionResetError, ConnectionAbortedError)
        if record.exc_info and isinstance(record.exc_info[1], left):
            return False
        words = record.getMessage()
        if "/mcp/" in Path(record.pathname).as_posix():  # goes on with all that was sent
            words = words.partition(":")[0]
            record.msg, record.args = words, ()
        times = self._counter.times((record.name, words))
        if times > 1:
            record.msg, record.args = f"{words} ({times} since the last such line)", ()
        return times > 0


def quieten_server() -> None:
    """Count the errors that the server's own libraries log again and again."""
    mcp = ("root", "mcp.server.lowlevel.server", "mcp.server.streamable_http")
    for name in ("asyncio", "uvicorn.error", "python_multipart.multipart", *mcp):
        logger = logging.getLogger(name)
        if not any(isinstance(each, RepeatFilter) for each in logger.filters):
            logger.addFilter(RepeatFilter(_counter))


def _place(error: Exception) -> tuple[str, str]:
    """Where in the source it was raised, and its kind: as many as the program has lines."""
    place = ":0"  # of one that was never raised
    for frame, line in traceback.walk_tb(error.__traceback__):
        place = f"{Path(frame.f_code.co_filename).name}:{line}"
    return place, type(error).__name__
