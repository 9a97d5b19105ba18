"""Runs a module in a process that may take only so much time and memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

CPU_SECONDS = 5
WALL_SECONDS = 20
"""For a machine on which other work leaves the process little of a core."""

MEMORY_BYTES = 1_000_000_000

_ROOT = Path(__file__).parents[2]
_RUN = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)


def run_bounded(module: str, data: bytes, *words: str) -> bytes | None:
    """What a module writes to its output, given data as its input; None where it broke a bound.

    module: dotted name; run as a program, it calls `bound_this_process` before anything else.
    words: its arguments.

    Raises OSError where no process can be started.
    """
    # Else a library for matrices sets memory aside for each core.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    try:
        process = subprocess.run(
            # -P: no file of the folder where this was started is taken for a module of Python's
            [sys.executable, "-P", "-c", _RUN, str(_ROOT), module, *words],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # decoders print what they think of hostile files
            env=environment,
            timeout=WALL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return process.stdout if process.returncode == 0 else None


def bound_this_process() -> None:
    """Let the system end this process at its bounds; where it knows none, only the time is one."""
    with contextlib.suppress(ImportError):  # no such bounds on Windows
        import resource

        bounds = {resource.RLIMIT_CPU: CPU_SECONDS, resource.RLIMIT_DATA: MEMORY_BYTES}
        for kind, most in bounds.items():
            # macOS takes no bound of memory; one that is lower already cannot be raised.
            with contextlib.suppress(ValueError):
                resource.setrlimit(kind, (most, most))
