"""Passes over the device: one at a time, timed."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

from spare_demo.cuda_graphs import CAPTURE_LOCK, is_out_of_memory
from spare_demo.tokens import cpu_by_default, where_float64_is

T = TypeVar("T")

ConcurrentPass = Callable[[], Iterable[Any]]
"""A second pass for `Passes.run`; it returns all tensors that it left on the device, and others."""

NO_MEMORY = (
    "There was not enough memory for this picture and question. Ask with a smaller picture, a "
    "shorter question or methods that take less memory; everything else still works."
)

_MOST_WARM = 10_000  # kinds of steps remembered, so that the memory of them has an end


class OutOfMemory(ValueError):
    """A pass that did not fit beside the model; the message says what to do and may be shown."""


class ModelUnloadedError(ValueError):
    """A pass of a model that was unloaded; the message says why and may be shown."""


class DeviceElsewhere(BaseException):
    """A pass in a process that has no device: whatever wanted it is to run where the device is.

    Like a cancellation it is no fault, so that `except Exception` lets it through.
    """


def plain_tensor(tensor: Tensor) -> Tensor:
    """A pass's result as a plain tensor that anything can be computed with.

    Cloned, since inference-mode tensors refuse much.
    """
    return where_float64_is(tensor).clone()


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextmanager
def _alone_on_cuda() -> Iterator[None]:
    """No other thread captures or runs a pass meanwhile, and attention is not cuDNN's.

    PyTorch takes cuDNN's on Hopper and later GPUs, and it builds a plan for every new length: with
    a 7B model on an H200 a word took 0.2 s where its length was new, and 0.03 s where it was not.
    The switch is the whole process's, so it is set back.
    """
    with CAPTURE_LOCK:
        before = torch.backends.cuda.cudnn_sdp_enabled()
        torch.backends.cuda.enable_cudnn_sdp(False)
        try:
            yield
        finally:
            torch.backends.cuda.enable_cudnn_sdp(before)


class Passes:
    """Lets one pass run at a time on a device, however many visitors there are.

    The lock is held for one pass, never while a generator waits to be asked for its next piece: a
    cancelled or slow visitor blocks nobody.

    Attributes:
        closed: why no pass begins any more; "" while passes run.
        elsewhere: whether the device belongs to another process, forked from this one.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._lock = threading.Lock()
        self._second: torch.cuda.Stream | None = None
        self._warm: set[Hashable] = set()
        self.closed = ""
        self.elsewhere = False

    def run(
        self, step: Callable[[], T], concurrent: ConcurrentPass | None = None
    ) -> tuple[T, float]:
        """Run one pass without gradients; its result and its seconds.

        The device is synchronised, and waiting for the turn is not counted.

        concurrent: a pass that needs nothing of it, run at the same time on a CUDA device and not
            at all elsewhere, where nothing is gained.

        Raises:
            OutOfMemory: what was free did not suffice; everything the pass took is given back.
            ModelUnloadedError: there will be no pass any more.
            DeviceElsewhere: while `elsewhere`.
        """
        if self.elsewhere:
            raise DeviceElsewhere
        alone = _alone_on_cuda() if self._device.type == "cuda" else nullcontext()
        with self._lock, alone, torch.inference_mode(), cpu_by_default():
            if self.closed:
                raise ModelUnloadedError(self.closed)
            try:
                synchronise(self._device)
                start = time.perf_counter()
                result = step() if concurrent is None else self._both(step, concurrent)
                synchronise(self._device)
                return result, time.perf_counter() - start
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
        # Raised outside the handler: the error's traceback would hold on to the pass's tensors.
        self.release()
        raise OutOfMemory(NO_MEMORY)

    def warm(self, kind: Hashable, step: Callable[[], object]) -> None:
        """On CUDA, run a pass untimed unless one of its kind was run so before.

        The first pass over a length loads the kernels for it and chooses among them, which would
        count as that pass's own time. On other devices nothing runs. Raises as `run`.

        kind: what decides which kernels run, such as the length of the prompt.
        """
        if self._device.type != "cuda" or kind in self._warm:
            return
        self.run(step)
        if len(self._warm) >= _MOST_WARM:
            self._warm.clear()
        self._warm.add(kind)

    def _both(self, step: Callable[[], T], concurrent: ConcurrentPass) -> T:
        if self._device.type != "cuda":
            return step()
        main = torch.cuda.current_stream(self._device)
        # One for all passes: cuBLAS keeps a workspace for each stream it ever ran on.
        second = self._second = self._second or torch.cuda.Stream(self._device)
        second.wait_stream(main)
        result = step()  # the longer one first: the GPU has work while the other is launched
        with torch.cuda.stream(second):
            results = concurrent()
        main.wait_stream(second)
        for result_of_second in results:
            if isinstance(result_of_second, Tensor):  # made on one stream, read on the other
                result_of_second.record_stream(main)
        return result

    def close(self, why: str) -> None:
        """Let the pass that runs end, and none begin after it."""
        with self._lock:
            self.closed = why

    def release(self) -> None:
        """Give back what the device's allocator keeps for later."""
        gc.collect()
        if self._device.type == "cuda":
            with CAPTURE_LOCK:
                torch.cuda.empty_cache()
        elif self._device.type == "mps":
            torch.mps.empty_cache()
