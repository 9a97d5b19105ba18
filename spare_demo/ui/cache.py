"""Pictures that came with the program, encoded once for all visitors.

A visitor's own picture never gets in here: it lives in their visit and goes with it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Seen(Generic[K, V]):
    """The latest few of what may be shared, made when first asked for."""

    def __init__(self, shared: Callable[[K], bool], most: int) -> None:
        """shared: whether a key's value may be kept for everyone. most: how many are kept."""
        self._shared, self._most = shared, most
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What is kept under the key, or what `make` gives; an error it raises passes through."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()  # outside the lock: a slow picture keeps nobody waiting
        if self._shared(key):
            with self._lock:
                self._kept[key] = value
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return value

    def keys(self) -> Collection[K]:
        """What is kept, oldest use first."""
        with self._lock:
            return list(self._kept)
