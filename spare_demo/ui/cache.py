"""A cache shared by all visitors: of public pictures only, never of a visitor's own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedCache(Generic[K, V]):
    """The latest few values that may be shared."""

    def __init__(self, is_public: Callable[[K], bool], size: int) -> None:
        """is_public: whether a key's value may be kept for everyone. size: how many are kept."""
        self._is_public, self._size = is_public, size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value under a key, None where there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value if its key is public; the least lately used one goes."""
        if not self._is_public(key):
            return
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)
