"""Where new tensors are made, and where those that need float64 go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor


@contextmanager
def cpu_by_default() -> Iterator[None]:
    """New tensors are on the CPU, whatever `torch.set_default_device` of a program says."""
    elsewhere = torch.get_default_device().type != "cpu"
    with torch.device("cpu") if elsewhere else nullcontext():  # which every call would pay for
        yield


def where_float64_is(tensor: Tensor) -> Tensor:
    """The tensor itself, or its copy on the CPU where its device is an Apple GPU.

    Those have no float64, which every choice is made in.
    """
    return tensor.cpu() if tensor.device.type == "mps" else tensor
