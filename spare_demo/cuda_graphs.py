"""CUDA graphs: one is captured at a time, and nothing that would end the capture runs meanwhile.

While a stream is captured, no thread may synchronise the whole device or empty its memory cache:
that call and the capture would both fail, whatever the error mode (PyTorch's notes on CUDA
graphs). Visitors' threads choose tokens while a model runs in another thread, so each of these
calls holds `CAPTURE_LOCK`.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CAPTURE_LOCK = threading.RLock()
"""Held during a capture, and during each pass of a model on CUDA (models/generate/passes.py)."""

_KEPT_BYTES = 2**28  # what the graphs of a `Replay` may hold when they are not used
_REMEMBERED = 64  # shapes that came once

_log = logging.getLogger(__name__)


# Allocators other than PyTorch's for CUDA raise a plain RuntimeError with one of these; the last is
# in the names of the status that CUDA's libraries give, as cuBLAS where a thread first needs it.
_OUT = ("out of memory", "can't allocate memory", "not enough memory", "_status_alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this says that a device, or the machine, has no memory left."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT)


def capture_graph(
    run: Callable[[], None], device: torch.device, stream: torch.cuda.Stream, pool: Any = None
) -> torch.cuda.CUDAGraph:
    """The kernels that `run` launches, as a graph to replay. It must have run before: what
    libraries and compilers set up at first use must not be captured.

    stream: of that device.
    pool: memory that several graphs share; they must then be captured on the same stream.
    """
    graph = torch.cuda.CUDAGraph()
    with (
        CAPTURE_LOCK,
        torch.cuda.device(device),
        torch.cuda.stream(stream),  # a capture that fails leaves its stream the current one
        torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
    ):
        run()
    return graph


class Replay:
    """A function of tensors on one CUDA device, as one launch when the same shapes come again.

    Launching many small kernels takes the host longer than they run. Shapes that come once are not
    worth a capture; of those that came again, the latest used stay.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        """function: of tensors, and of options by name; it never waits for the device."""
        self._function, self._lock = function, threading.Lock()
        self._graphs: OrderedDict[tuple, _Graph | None] = OrderedDict()  # None: came once
        # One for all graphs of a device: cuBLAS keeps a workspace for each stream it ever ran on.
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._captures = True

    def __call__(self, *tensors: Tensor, **options: Any) -> tuple[Tensor, ...]:
        """function(*tensors, **options), of which every tensor is the caller's own."""
        key = (*((t.device, t.dtype, t.shape) for t in tensors), *options.items())
        with self._lock:
            came_before, graph = key in self._graphs, self._graphs.get(key)
            self._keep(key, graph)
            if graph:
                return graph.run(tensors)
        if came_before and self._captures:
            try:
                # In this order: who runs a pass holds the first one and may want the second.
                with CAPTURE_LOCK, self._lock:
                    graph = self._graphs.get(key) or self._capture(tensors, options)
                    self._keep(key, graph)
                    return graph.run(tensors)
            except Exception as error:
                if is_out_of_memory(error):  # now; it says nothing about the next time
                    with self._lock:
                        self._graphs.clear()
                else:
                    _log.warning("What was to be captured here runs as usual.", exc_info=True)
                    self._captures = False
        return self._function(*tensors, **options)

    def _capture(self, tensors: tuple[Tensor, ...], options: dict[str, Any]) -> _Graph:
        device = tensors[0].device
        stream = self._streams.get(device) or torch.cuda.Stream(device)
        self._streams[device] = stream
        return _Graph(self._function, tensors, options, stream)

    def _keep(self, key: tuple, graph: _Graph | None) -> None:
        """The latest used, of which one stays whatever it takes."""
        graphs = self._graphs
        graphs[key] = graph
        graphs.move_to_end(key)
        while len(graphs) > 1 and (len(graphs) > _REMEMBERED or self._bytes() > _KEPT_BYTES):
            graphs.popitem(last=False)

    def _bytes(self) -> int:
        return sum(graph.bytes for graph in self._graphs.values() if graph)


class _Graph:
    """The launches of a function for one shape, and the tensors that they read and write.

    Attributes:
        bytes: of the device's memory that it holds.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Tensor, ...]],
        tensors: tuple[Tensor, ...],
        options: dict[str, Any],
        stream: torch.cuda.Stream,
    ) -> None:
        device = tensors[0].device
        with torch.inference_mode(False):  # they are written to in whichever mode comes next
            self._inputs = [
                torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors
            ]
        self._outputs: tuple[Tensor, ...] = ()

        def run() -> None:
            self._outputs = function(*self._inputs, **options)

        self._fill(tensors)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):  # what libraries set up at first use must not be captured
            run()
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.empty_cache()  # as a capture begins: what that gives back is not the graph's
        before = torch.cuda.memory_reserved(device)
        self._graph = capture_graph(run, device, stream)
        pool = torch.cuda.memory_reserved(device) - before
        self.bytes = pool + sum(t.nbytes for t in self._inputs)

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The function's results for tensors of this shape."""
        self._fill(tensors)
        self._graph.replay()
        return tuple(output.clone() for output in self._outputs)

    def _fill(self, tensors: tuple[Tensor, ...]) -> None:
        for mine, theirs in zip(self._inputs, tensors, strict=True):
            mine.copy_(theirs)
