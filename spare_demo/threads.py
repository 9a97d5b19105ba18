"""Work on a thread that ends with it, waiting that a signal ends, and results made once for all.

Each thread that computes gets helpers from OpenMP that live as long as it does. Once there are more
of them than processors, they sleep where they would have spun, and on a CPU everything takes up to
half as long again. So the main thread of a server, which lives to the end, computes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

_LOOK = 0.5
"""Seconds after which a waiting thread looks whether a signal came."""


def on_own_thread(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises. An interrupt of the caller does not wait for its end."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # whatever it is, it is the caller's
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    while not wait([outcome], _LOOK).done:
        pass
    return outcome.result()


def wait_interruptibly(event: threading.Event) -> None:
    """Wait until an event is set, on the main thread.

    The system may hand a signal to any thread, and Python acts on it only once the main thread
    runs, which one that sleeps in `event.wait()` does not.
    """
    while not event.wait(_LOOK):
        pass


def memoize(compute: Callable[..., T]) -> Callable[..., T]:
    """The function with what it gave before, per arguments; two threads do not compute twice."""
    results: dict[Any, T] = {}
    lock = threading.Lock()

    @wraps(compute)
    def recall(*arguments: Any, **named: Any) -> T:
        key = (arguments, tuple(sorted(named.items())))
        with lock:
            if key not in results:
                results[key] = compute(*arguments, **named)
            return results[key]

    return recall
