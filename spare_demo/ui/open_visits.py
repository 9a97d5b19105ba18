"""The comparisons that are open on this server, and which of them are closed."""

from __future__ import annotations

import math
import threading
import time
from typing import Any
from weakref import WeakKeyDictionary

from spare_demo.ui.gradio_compat.sessions import current_session
from spare_demo.ui.visit import Visit

CLOSED = (
    "This comparison was closed because the connection was lost, because many others are open, "
    "or because it was not used for some minutes. Press Ask to see it again."
)
IDLE_SECONDS = 600.0
"""After which a comparison that nobody uses is closed on a public page."""

OPEN_PIXELS = 200_000_000
"""Of the photos of all open comparisons, three bytes each. The one used last stays anyway."""

MOST_ASKING = 10_000
"""Sessions that have asked something, of each of which a time is kept."""


class VisitKey:
    """What a page's state holds in a visit's place, which Gradio would copy for each visitor."""

    def __init__(self, shown: Visit | None = None) -> None:
        """shown: of the key that a page opens on, its visit, which is never closed."""
        self.shown = shown

    def __deepcopy__(self, memo: dict) -> VisitKey:
        return self  # a copy would open nothing


class OpenVisits:
    """The visits that were used last; any other is closed. Safe to share between threads.

    One whose page is gone is dropped with its key.
    """

    def __init__(self, size: int, idle_seconds: float = math.inf) -> None:
        """size: how many stay open. idle_seconds: after which one that is not used is closed."""
        self._size, self._idle = size, idle_seconds
        self._visits: WeakKeyDictionary[VisitKey, tuple[Visit, float]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._asked: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._visits)

    def put(self, visit: Visit, asked: float | None = None) -> VisitKey:
        """Keep a visit open, under a new key. asked: on the monotonic clock; None for now."""
        key = VisitKey()
        self.close_idle()
        with self._lock:
            name, now = hash(current_session()), time.monotonic()
            self._asked[name] = max(self._asked.pop(name, 0.0), now if asked is None else asked)
            if len(self._asked) > MOST_ASKING:
                del self._asked[next(iter(self._asked))]
            self._visits[key] = visit, now
            for before in [*self._visits][:-1]:  # held, so that none goes in the middle of this
                if len(self._visits) <= self._size and self._open_pixels() <= OPEN_PIXELS:
                    break
                del self._visits[before]
        return key

    def last_asked(self) -> float:
        """When the session whose event runs asked what was put here, the latest of it; else 0."""
        return self._asked.get(hash(current_session()), 0.0)

    def close_idle(self) -> None:
        """Close what was not used for too long."""
        with self._lock:
            end = time.monotonic() - self._idle
            for key in [key for key, (_, used) in self._visits.items() if used < end]:
                del self._visits[key]

    def _open_pixels(self) -> int:
        """Of all photos; one that several visits share counts once."""
        photos = {id(photo): photo for photo in (v.photo for v, _ in self._visits.values())}
        return sum(photo.width * photo.height for photo in photos.values())

    def find(self, value: Any) -> Any:
        """The visit under a key, None if it was closed; any other value as it is.

        Where Gradio has dropped a session's state, as when the connection was lost, it starts over
        with the key that the page opens on, while the page goes on showing what was asked last.
        """
        if not isinstance(value, VisitKey):
            return value
        if value.shown is not None:
            session = current_session()
            return None if session and hash(session) in self._asked else value.shown
        with self._lock:
            entry = self._visits.pop(value, None)
            if entry is None:
                return None
            self._visits[value] = entry[0], time.monotonic()  # used last
            return entry[0]

    def get(self, value: Any) -> Any:
        """As `find`; ValueError, with a sentence to show, for a visit that was closed."""
        visit = self.find(value)
        if visit is None and value is not None:
            raise ValueError(CLOSED)
        return visit
