"""What indices and matrices must be like, said in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Indices = Tensor | np.ndarray[Any, Any] | Sequence[int]


def as_tensor(values: Any) -> Tensor:
    """A detached tensor on the CPU; also of NumPy's reversed views, which torch refuses."""
    if isinstance(values, np.ndarray):
        values = values.copy()
    return torch.as_tensor(values, device="cpu").detach()


def as_indices(indices: Indices) -> Tensor:
    """Integers as a new 1-D LongTensor on the CPU; ValueError for anything else."""
    try:
        values = as_tensor(indices)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(
            "Patch indices could not be read. Pass a list of whole numbers such as [3, 17, 240]."
        ) from error
    if values.ndim != 1:
        raise ValueError(
            f"Patch indices must be a flat list, but they have shape {tuple(values.shape)}. "
            "Flatten them first."
        )
    if len(values) == 0:
        return values.new_zeros(0, dtype=torch.long)
    if values.dtype == torch.bool:
        raise ValueError(
            "Patch indices must be whole numbers, but a mask of true and false was given. "
            "Pass mask.nonzero().flatten() instead."
        )
    if values.is_floating_point() or values.is_complex():
        raise ValueError(
            f"Patch indices must be whole numbers, but they are {values.dtype}. "
            "Convert them to integers first."
        )
    return values.to(torch.long, copy=True)


def check_tensor(name: str, value: object, shape: str) -> None:
    """ValueError, naming the value, for anything but a tensor. shape: as of `check_matrix`."""
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{name} must be a torch tensor {shape}, but it is {type(value).__name__}. "
            "torch.as_tensor makes one of an array."
        )


def check_matrix(name: str, value: Tensor, shape: str) -> None:
    """ValueError, naming the value, for anything but a finite matrix of floating point numbers.

    shape: what its rows and columns are, for the sentence.
    """
    check_tensor(name, value, shape)
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(
            f"{name} must be a non-empty matrix {shape}, but its shape is {tuple(value.shape)}. "
            "Pass one picture at a time, one row per token."
        )
    if not value.is_floating_point():
        raise ValueError(
            f"{name} must be floating point, but it is {value.dtype}. Call .float() first."
        )
    if not bool(torch.isfinite(value).all()):
        raise ValueError(
            f"{name} holds NaN or infinity. Encode the picture again in a wider number format "
            "(bfloat16 or float32 instead of float16)."
        )
