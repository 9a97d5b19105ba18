"""A stand-in for another device: values on the CPU, and CUDA's refusals to mix the two.

Tensors say that they lie on `ELSEWHERE`. Inside `there()` what is made for that device, or moved to
it, is such a tensor; computing with one of them and a plain tensor raises as CUDA does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("meta")  # a device that any torch knows, and that computes nothing itself

_aten = torch.ops.aten
_COPIES = {_aten._to_copy.default, _aten.copy_.default}
_INDEXING = {_aten.index.Tensor, _aten.index_put_.default, _aten._index_put_impl_.default}


class Far(Tensor):
    """A tensor elsewhere."""

    lies_on = ELSEWHERE

    @staticmethod
    def __new__(cls, values: Tensor) -> Far:
        made = Tensor._make_wrapper_subclass(
            cls, values.shape, values.stride(), dtype=values.dtype, device=cls.lies_on
        )
        made.values = values
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def tolist(self) -> Any:
        return self.values.tolist()


class there(TorchDispatchMode):
    """Tensors made for ELSEWHERE have values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
    far = [value for value in tensors if isinstance(value, Far)]
    wanted = kwargs.get("device")
    if not far and wanted != ELSEWHERE:
        return func(*args, **kwargs)
    if func in _INDEXING:  # a tensor elsewhere takes indices of the CPU, not the reverse
        tensors = [] if isinstance(args[0], Far) else [args[0]]
    if func not in _COPIES and any(t.dim() and not isinstance(t, Far) for t in tensors):
        raise RuntimeError(f"Expected all tensors to be on the same device: {func}")

    def plain(value: Any) -> Any:
        return value.values if isinstance(value, Far) else value

    if wanted == ELSEWHERE:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    found = func(*tree_map(plain, args), **tree_map(plain, kwargs))
    if wanted not in (None, ELSEWHERE):
        return found
    same = {id(value.values): value for value in far}  # of operations in place
    return tree_map(
        lambda value: same.get(id(value), Far(value)) if isinstance(value, Tensor) else value, found
    )
