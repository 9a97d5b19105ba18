"""The least time a prefill could take on this device: what it must read, and what it must compute.

Of the two the larger: the weights read once at the bandwidth of a copy, and the operations of a
causal pass at the rate of a square matrix product. Both rates are measured on this device at start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from spare_demo.models.generate.passes import synchronise
from spare_demo.models.loading.packed_weights import PackedLinear


@dataclass(frozen=True)
class Rates:
    """bandwidth: bytes per second, read and written, of a copy.
    product: operations per second of a square matrix product in the model's dtype.
    """

    bandwidth: float
    product: float


def measure_rates(device: torch.device, dtype: torch.dtype) -> Rates:
    """The best of six runs each, or of as many as start within a fifth of a second.

    A CPU that is slow in the model's format would otherwise take seconds here at every start.
    """
    fast = device.type == "cuda"
    source = torch.zeros(2**28 if fast else 2**26, dtype=torch.uint8, device=device)
    copy = torch.empty_like(source)
    size = 8192 if fast else 1024
    own = torch.Generator(device).manual_seed(0)  # a caller's random numbers stay as they were
    # A GPU is faster on constants.
    factor = torch.rand(size, size, generator=own, device=device, dtype=dtype)
    into = torch.empty_like(factor)

    def best(step: Callable[[], object]) -> float:
        seconds: list[float] = []
        while len(seconds) < 6 and sum(seconds) < 0.2:
            start = time.perf_counter()
            step()
            synchronise(device)
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    return Rates(
        2 * len(source) / best(lambda: copy.copy_(source)),
        2 * size**3 / best(lambda: torch.matmul(factor, factor, out=into)),
    )


def prefill_operations(hf: Any, lengths: Sequence[int]) -> int:
    """Of a causal pass over so many tokens in each layer: the matrices, the attention, the head.

    Two for each multiplication with its addition; the attention of a causal pass is half a square.
    """
    text = hf.config.get_text_config()
    heads = text.num_attention_heads
    width = heads * (getattr(text, "head_dim", None) or text.hidden_size // heads)
    attention = sum(2 * length**2 * width for length in lengths)
    matrices = sum(
        2 * length * _weights(layer)
        for length, layer in zip(lengths, _decoder(hf).layers, strict=True)
    )
    return matrices + attention + 2 * text.hidden_size * text.vocab_size


def prefill_bytes(hf: Any) -> int:
    """Of what a prefill must read: the layers' weights and the head's, as they lie in memory."""
    return weight_bytes([_decoder(hf).layers, hf.lm_head])


def weight_bytes(parts: Sequence[nn.Module], device: torch.device | None = None) -> int:
    """Memory that the weights of some modules take on a device, None for all.

    Quantised ones are packed, and their scales, which are no parameters, count with them.
    """

    def counts(where: torch.device) -> bool:
        places = {(at.type, at.index or 0) for at in (where, device or where)}
        return len(places) == 1

    tensors = [t for part in parts for t in chain(part.parameters(), part.buffers())]
    modules = [module for part in parts for module in part.modules()]
    tensors += [t for module in modules for *_, t in tensors_beside_parameters(module)]
    # bitsandbytes reaches one matrix by several names.
    sizes = {(t.device, t.data_ptr()): t.nbytes for t in tensors if counts(t.device)}
    packed = [m.packed_bytes for m in modules if isinstance(m, PackedLinear)]  # on the CPU
    return sum(sizes.values()) + (sum(packed) if counts(torch.device("cpu")) else 0)


def tensors_beside_parameters(module: nn.Module) -> Iterator[tuple[object, str, Tensor]]:
    """What bitsandbytes keeps of a module's weights outside its parameters and buffers: quantised
    matrices, scales and tables, each with the object and the attribute that hold it."""
    pending: list[object] = [module, *module.parameters(recurse=False)]
    while pending:
        holder = pending.pop()
        for name, value in list(vars(holder).items()):
            if isinstance(value, Tensor):
                yield holder, name, value
            elif type(value).__module__.startswith("bitsandbytes.") and not isinstance(
                value, nn.Module
            ):
                pending.append(value)


def prefill_floor(hf: Any, rates: Rates, lengths: Sequence[int]) -> float:
    """Seconds. lengths: the tokens in each layer.

    8-bit weights are multiplied as whole numbers, at a rate that was not measured: reading alone
    decides then.
    """
    reading = prefill_bytes(hf) / rates.bandwidth
    if any(p.dtype == torch.int8 for p in _decoder(hf).layers.parameters()):
        return reading
    return max(reading, prefill_operations(hf, lengths) / rates.product)


def _weights(layer: Any) -> int:
    """Of all matrices of a layer; quantised ones are packed, so sizes of parameters do not tell."""
    linear = [part for part in layer.modules() if hasattr(part, "in_features")]
    return sum(part.in_features * part.out_features for part in linear)


def _decoder(hf: Any) -> Any:
    return getattr(hf.model, "language_model", hf.model)
