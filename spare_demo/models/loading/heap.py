"""Memory that was freed and that the C library keeps all the same.

Another C library than glibc has no such functions, and Windows no such library.
"""

from __future__ import annotations

import contextlib
import ctypes

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h


def return_free_memory() -> None:
    """Give freed memory back to the system; glibc keeps hundreds of megabytes of it."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def share_heaps() -> None:
    """Let all threads take memory from two heaps. To be called before there are more.

    glibc makes one for every thread, up to eight for each core. The end of each but the first, up
    to 64 MB, `return_free_memory` cannot give back.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
