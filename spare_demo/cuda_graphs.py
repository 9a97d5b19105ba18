"""CUDA graphs: one is captured at a time, and nothing that would end the capture runs meanwhile.

While a stream is captured, no thread may synchronise the whole device or empty its memory cache:
that call and the capture would both fail, whatever the error mode (PyTorch's notes on CUDA
graphs). Visitors' threads choose tokens while a model runs in another thread, so each of these
calls holds `CAPTURE_LOCK`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

CAPTURE_LOCK = threading.RLock()
"""Held during a capture, and during each pass of a model on CUDA (models/generate/passes.py)."""


def capture_graph(
    run: Callable[[], None], device: torch.device, pool: Any = None, stream: Any = None
) -> torch.cuda.CUDAGraph:
    """The kernels that `run` launches, as a graph to replay. It must have run before: what
    libraries and compilers set up at first use must not be captured.

    pool: memory that several graphs share; they must then be captured on the same stream.
    stream: of that device; without one torch takes one of whichever device it captured on first.
    """
    graph = torch.cuda.CUDAGraph()
    stream = stream or torch.cuda.Stream(device)
    with (
        CAPTURE_LOCK,
        torch.cuda.device(device),
        torch.cuda.stream(stream),  # a capture that fails leaves its stream the current one
        torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
    ):
        run()
    return graph
