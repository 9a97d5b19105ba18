"""Linear layers whose weights are packed once, in the order in which a CPU's kernels read them.

Of bfloat16: torch's own linear layer reorders the weights in every call, which takes up to two
fifths of a call with few rows, such as the prefill of a pruned answer.

Of 16 bits in a model that computes in float32, by FBGEMM, which comes with torch: for processors
without instructions for 16-bit arithmetic. Half the memory of float32, the very values of a
checkpoint that is stored in float16, and results that differ from float32's in the order of sums
alone. An answer's words come faster than in float32, as half as many bytes are read.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spare_demo.models.loading.heap import return_free_memory

_PACKED_AT_ONCE = 4  # layers, each of which takes its memory twice or more for it
_FREED_AT_ONCE = 16  # layers; else what they took would come on top of the packed ones
_ROWS = 64  # that the order is chosen for; one order serves any number of rows


class PackedLinear(nn.Module):
    """A linear layer that can answer, not be trained.

    Attributes:
        in_features, out_features: as of ``nn.Linear``.
        packed: weights and bias in the kernels' own order; None once the model is closed.
        packed_bytes: what they take.
        damaged: "weight" and "bias", whichever holds NaN or infinity.
    """

    packed: Any

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight: (out_features, in_features); both in the number format they are packed in."""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        parts = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
        self.packed_bytes = sum(part.nbytes for part in parts.values())
        self.damaged = [
            name
            for name, part in parts.items()
            if not all(bound.isfinite() for bound in part.aminmax())
        ]


class Bfloat16Linear(PackedLinear):
    """A linear layer of bfloat16 weights and inputs, by oneDNN, which comes with torch."""

    def __init__(self, layer: nn.Linear) -> None:
        weight = layer.weight.detach()
        bias = None if layer.bias is None else layer.bias.detach()
        super().__init__(weight, bias)
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS), bias

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in_features) bfloat16 -> (…, out_features) bfloat16; not to be differentiated."""
        return torch.ops.mkldnn._linear_pointwise(inputs, *self.packed, "none", [], "")


class NarrowLinear(PackedLinear):
    """A linear layer with float16 weights for float32 inputs."""

    def __init__(self, layer: nn.Linear) -> None:
        weight = layer.weight.detach()
        bias = None if layer.bias is None else layer.bias.detach().float()
        super().__init__(weight.half(), bias)
        most = torch.finfo(torch.float16).max  # FBGEMM warns of a larger one, and changes it itself
        within = weight.float().clamp(-most, most)
        self.packed = torch.ops.quantized.linear_prepack_fp16(within, bias)

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


def can_pack() -> bool:
    """Whether torch has FBGEMM for this processor: x86 with AVX2."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def can_pack_bfloat16() -> bool:
    """Whether torch has oneDNN for this processor, and bfloat16 in it: x86 with AVX-512."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    available = x86 and torch.backends.mkldnn.is_available()
    return available and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def pack_bfloat16(hf: Any) -> None:
    """Pack the linear layers of a bfloat16 model in place, where that can be done.

    LLaVA's projector stays as it is, for its weights are read in float32 too
    (families/clip_model.py), and so does a head that is also the embedding of the words.
    """
    if can_pack_bfloat16():
        words = hf.get_input_embeddings().weight
        pack_layers(
            hf, Bfloat16Linear, lambda name, layer: "projector" in name or layer.weight is words
        )


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


def pack_layers(
    hf: nn.Module,
    kind: Callable[[nn.Linear], PackedLinear],
    leave: Callable[[str, nn.Linear], bool] = lambda name, layer: False,
) -> None:
    """Put packed layers of one kind into the place of a model's linear ones.

    leave: whether a layer stays as it is, by its name and itself.
    """
    places = [
        (hf.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2])
        for name, module in hf.named_modules()
        if type(module) is nn.Linear and not leave(name, module)
    ]
    at_once = min(_PACKED_AT_ONCE, torch.get_num_threads())
    with ThreadPoolExecutor(at_once) as pool:
        packed = pool.map(lambda place: kind(getattr(*place)), places)
        for number, (module, name) in enumerate(places):
            setattr(module, name, next(packed))  # which frees the other one
            if number % _FREED_AT_ONCE == 0:
                return_free_memory()
