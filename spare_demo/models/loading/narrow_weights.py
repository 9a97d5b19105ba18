"""Weights of 16 bits in a model that computes in float32, by FBGEMM, which comes with torch.

For processors without instructions for 16-bit arithmetic: half the memory of float32, the very
values of a checkpoint that is stored in float16, and results that differ from float32's in the
order of sums alone. An answer's words come faster than in float32, as half as many bytes are read.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spare_demo.models.loading.packed_weights import PackedLinear, pack_layers


def can_pack() -> bool:
    """Whether torch has FBGEMM for this processor: x86 with AVX2."""
    return "fbgemm" in torch.backends.quantized.supported_engines


class NarrowLinear(PackedLinear):
    """A linear layer with float16 weights for float32 inputs."""

    def __init__(self, layer: nn.Linear) -> None:
        weight = layer.weight.detach()
        bias = None if layer.bias is None else layer.bias.detach().float()
        super().__init__(weight.half(), bias)
        self.packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in_features) float32 -> (…, out_features) float32; not to be differentiated."""
        rows = inputs.reshape(-1, self.in_features)
        out = torch.ops.quantized.linear_dynamic_fp16(rows, self.packed)
        return out.view(*inputs.shape[:-1], self.out_features)


class NarrowEmbedding(nn.Module):
    """An embedding with float16 weights (words, width) and float32 rows."""

    def __init__(self, layer: nn.Embedding) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        """(…) words -> (…, width) float32."""
        return F.embedding(ids, self.weight).float()


def widen_arithmetic(hf: Any) -> None:
    """Let a model whose weights are float16 compute in float32, in place.

    Its linear layers and the embedding of its words stay narrow, the rest becomes float32. From
    then on it can only answer, not be trained.
    """
    embedding = NarrowEmbedding(hf.get_input_embeddings())
    hf.set_input_embeddings(embedding)
    pack_layers(hf, NarrowLinear)
    for tensor in itertools.chain(hf.parameters(), hf.buffers()):
        tensor.requires_grad_(False)
        if tensor is not embedding.weight and tensor.is_floating_point():
            tensor.data = tensor.data.float()
