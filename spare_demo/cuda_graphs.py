"""CUDA graphs: one is captured at a time, and nothing is done beside it that would end its capture.

While a stream is captured, no thread may wait for the whole device or give its free memory back:
both then fail, the capture too, whatever its error mode (PyTorch's notes on CUDA graphs). Visitors'
threads choose tokens while a model runs in another, so whoever does one of these takes `ALONE`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

ALONE = threading.RLock()
"""Held during a capture, and during each pass of a model on CUDA (models/passes.py)."""


def captured(
    run: Callable[[], None], device: torch.device, pool: Any = None, stream: Any = None
) -> torch.cuda.CUDAGraph:
    """What `run` gives the device to do, to be replayed. It must have run before: what libraries
    and compilers set up at first use must not be captured.

    pool: memory that several graphs share; they must then be captured on the same stream.
    stream: of that device; without one torch takes one of whichever device it captured on first.
    """
    graph = torch.cuda.CUDAGraph()
    stream = stream or torch.cuda.Stream(device)
    with (
        ALONE,
        torch.cuda.device(device),
        torch.cuda.stream(stream),  # a capture that fails leaves its stream the current one
        torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
    ):
        run()
    return graph
