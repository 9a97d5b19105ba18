"""Passes over the device: one at a time, timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


class Passes:
    """Lets one pass run at a time on a device, however many visitors there are.

    The lock is held for one pass, never while a generator waits to be asked for its next piece: a
    cancelled or slow visitor blocks nobody (PLATFORM.md 3.4).
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._lock = threading.Lock()

    def run(self, step: Callable[[], T]) -> tuple[T, float]:
        """Run one pass without gradients.

        Returns:
            its result and its seconds, the device synchronised, waiting for the turn not counted.
        """
        with self._lock, torch.inference_mode():
            self._synchronise()
            started = time.perf_counter()
            result = step()
            self._synchronise()
            return result, time.perf_counter() - started

    def _synchronise(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()
