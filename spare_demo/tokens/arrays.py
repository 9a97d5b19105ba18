"""Tensors as fields of a file: how the schema of result.json writes and reads them.

The types are plain tensors to everything else; pydantic looks at what they carry only when it
makes a schema of a dataclass that has them (`results/io.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import Tensor

_MOST_PATCHES = 65_536  # before a file makes anything of that size


class Stored:
    """How a field is written as JSON values and read back; pydantic calls it by this method."""

    def __init__(self, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        self._write, self._read = write, read

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {  # as pydantic_core.core_schema would make it, without importing it here
            "type": "function-plain",
            "function": {"type": "no-info", "function": self._read},
            "serialization": {"type": "function-plain", "function": self._write},
        }


def _write_floats(values: Tensor) -> list[float | None]:
    return [None if value == math.inf else float(value) for value in values.tolist()]


def _read_floats(values: Any) -> Tensor:
    if not isinstance(values, list) or any(isinstance(value, str) for value in values):
        raise ValueError("not a list of numbers")
    numbers = [math.inf if value is None else float(value) for value in values]
    return torch.tensor(numbers, dtype=torch.float64)


def _read_indices(values: Any) -> Tensor:
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise ValueError("not a list of whole numbers")
    return torch.tensor(values, dtype=torch.long)


def _write_shares(shares: Tensor) -> dict[str, Any]:
    rows = [
        [[int(patch), float(row[patch])] for patch in row.nonzero().flatten()]
        for row in shares.cpu()
    ]
    return {"patches": shares.shape[1], "rows": rows}


def _read_shares(value: Any) -> Tensor:
    try:
        size = (len(value["rows"]), int(value["patches"]))
        if max(size) > _MOST_PATCHES:
            raise ValueError("more patches than a picture has")
        shares = torch.zeros(size, dtype=torch.float32)
        for row, parts in zip(shares, value["rows"], strict=True):
            for patch, share in parts:
                row[int(patch)] = float(share)
    except (TypeError, LookupError, RuntimeError, OverflowError) as error:
        raise ValueError("not the shares of merged rows") from error
    return shares


FloatArray = Annotated[Tensor, Stored(_write_floats, _read_floats)]
"""Any number of float values; an infinite one is written as null."""
IndexArray = Annotated[Tensor, Stored(Tensor.tolist, _read_indices)]
"""LongTensor of patch indices."""
ShareRows = Annotated[Tensor, Stored(_write_shares, _read_shares)]
"""(r, n): how much of each of n patches is in each of r merged rows; written without its zeros."""
NOT_STORED = Stored(lambda value: None, lambda value: torch.empty(0))
"""For tensors that are in no file: write them with `exclude`; without a default they are empty."""
