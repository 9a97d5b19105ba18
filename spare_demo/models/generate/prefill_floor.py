"""The least time a prefill could take on this device: what it must read, and what it must compute.

Of the two the larger: the weights read once at the bandwidth of a copy, and the operations of a
causal pass at the rate of a square matrix product. Both rates are measured on this device at start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from spare_demo.models.generate.passes import synchronise
from spare_demo.models.loading.narrow_weights import narrow_layers


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
    factor = torch.rand(size, size, device=device, dtype=dtype)  # a GPU is faster on constants
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
    attention = sum(2 * length**2 * text.hidden_size for length in lengths)
    matrices = sum(
        2 * length * _weights(layer)
        for length, layer in zip(lengths, _decoder(hf).layers, strict=True)
    )
    return matrices + attention + 2 * text.hidden_size * text.vocab_size


def prefill_bytes(hf: Any) -> int:
    """Of what a prefill must read: the layers' weights and the head's, as they lie in memory.

    Quantised ones are packed, and their scales, which are no parameters, are read with them.
    """
    parts = (_decoder(hf).layers, hf.lm_head)
    read = [p for part in parts for p in part.parameters()]
    read += [scale for part in parts for module in part.modules() for scale in _scales(module)]
    packed = sum(layer.packed_bytes for part in parts for layer in narrow_layers(part))
    return packed + sum(tensor.nbytes for tensor in read)


def prefill_floor(hf: Any, rates: Rates, lengths: Sequence[int]) -> float:
    """Seconds. lengths: the tokens in each layer.

    8-bit weights are multiplied as whole numbers, at a rate that was not measured: reading alone
    decides then.
    """
    reading = prefill_bytes(hf) / rates.bandwidth
    if any(p.dtype == torch.int8 for p in _decoder(hf).layers.parameters()):
        return reading
    return max(reading, prefill_operations(hf, lengths) / rates.product)


def _scales(module: Any) -> list[torch.Tensor]:
    """What bitsandbytes keeps beside a quantised weight: `absmax` of each block of 4-bit ones, its
    own where it is quantised in turn, or `SCB` of each row of 8-bit ones, which moves from the
    weight to the module's state with the first pass."""
    weight, scales = getattr(module, "weight", None), []
    block = getattr(weight, "quant_state", None)
    if block is not None:
        scales = [block.absmax, getattr(getattr(block, "state2", None), "absmax", None)]
    else:
        holders = (weight, getattr(module, "state", None))
        scales = [getattr(holder, "SCB", None) for holder in holders]
    return [scale for scale in scales if isinstance(scale, torch.Tensor)]


def _weights(layer: Any) -> int:
    """Of all matrices of a layer; quantised ones are packed, so sizes of parameters do not tell."""
    linear = [part for part in layer.modules() if hasattr(part, "in_features")]
    return sum(part.in_features * part.out_features for part in linear)


def _decoder(hf: Any) -> Any:
    return getattr(hf.model, "language_model", hf.model)
