"""How a signal ends a command that serves: with status 0, whatever a thread is at.

Standard library only, so that a signal is obeyed while the heavy libraries are imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """Runs the block. SIGTERM and SIGINT are a KeyboardInterrupt in it, and where that leaves the
    block, the process ends with status 0.

    Process 1 of a container ignores a SIGTERM that it does not handle.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a script's background
    try:
        yield
    except KeyboardInterrupt:
        # Python's own ending waits for every thread, takes apart every module, which is seconds of
        # work, and aborts where a thread is still in a pass.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
