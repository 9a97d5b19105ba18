"""Memory that was freed and that the C library keeps all the same."""

from __future__ import annotations

import contextlib
import ctypes


def return_free_memory() -> None:
    """Give it back to the system; glibc keeps hundreds of megabytes of it."""
    # Another C library has no such function, and Windows no such library.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
