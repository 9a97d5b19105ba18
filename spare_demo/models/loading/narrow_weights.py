"""Weights of 16 bits in a model that computes in float32.

For processors without instructions for 16-bit arithmetic: half the memory of float32, the very
values of a checkpoint that is stored in 16 bits, and results that differ from float32's in the
order of sums alone. A matrix is widened in blocks small enough to stay in the processor's cache, so
that half as many bytes come from memory. With three rows or more that is as fast as float32 or
faster; with one row it takes half as long again.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BLOCK = 2**20  # numbers
_of_thread = threading.local()


def _block(numbers: int) -> Tensor:
    """Room for so many float32 numbers, the same at every call of a thread: new memory would cost
    more than the product of a small matrix."""
    room: Tensor | None = getattr(_of_thread, "room", None)
    if room is None or len(room) < numbers:
        with torch.inference_mode(False):  # a tensor of that mode could not be written outside it
            room = _of_thread.room = torch.empty(max(numbers, _BLOCK))
    return room[:numbers]


class NarrowLinear(nn.Module):
    """A linear layer (out_features, in_features) with weights of 16 bits, for float32 inputs."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in_features) float32 -> (…, out_features) float32; not to be differentiated."""
        rows = inputs.reshape(-1, self.in_features)
        out = rows.new_empty(len(rows), self.out_features)
        step = max(1, _BLOCK // self.in_features)
        for start in range(0, self.out_features, step):
            weight = self.weight[start : start + step]
            wide = _block(weight.numel()).view(weight.shape).copy_(weight)
            torch.mm(rows, wide.mT, out=out[:, start : start + step])
        if self.bias is not None:
            out += self.bias
        return out.view(*inputs.shape[:-1], self.out_features)


class NarrowEmbedding(nn.Module):
    """An embedding (words, width) with weights of 16 bits and float32 rows."""

    def __init__(self, layer: nn.Embedding) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = layer.num_embeddings, layer.embedding_dim
        self.weight = layer.weight

    def forward(self, ids: Tensor) -> Tensor:
        """(…) words -> (…, width) float32."""
        return F.embedding(ids, self.weight).float()


def widen_arithmetic(hf: Any) -> None:
    """Let a model whose weights are of 16 bits compute in float32, in place.

    Its linear layers and the embedding of its words stay narrow, the rest becomes float32. From
    then on it can only answer, not be trained.
    """
    for module in list(hf.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, NarrowLinear(child))
    hf.set_input_embeddings(NarrowEmbedding(hf.get_input_embeddings()))
    layers = [m for m in hf.modules() if isinstance(m, NarrowLinear | NarrowEmbedding)]
    narrow = {id(layer.weight) for layer in layers}
    for tensor in (*hf.parameters(), *hf.buffers()):
        tensor.requires_grad_(False)
        if id(tensor) not in narrow and tensor.is_floating_point():
            tensor.data = tensor.data.float()
