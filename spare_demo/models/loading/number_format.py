"""The number formats of a model: of its weights in memory, and of what is computed with them.

A large model's weights take two bytes each. An x86 processor that is slow in bfloat16 computes in
float32 with them (`packed_weights`); any other that is takes float32 for both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import torch

from spare_demo.models.loading.packed_weights import can_pack

LARGE = 100_000_000
"""Parameters; below that, single precision is no burden."""


@dataclass(frozen=True)
class NumberFormat:
    """weights: of the matrices in memory. arithmetic: of all that is computed."""

    weights: torch.dtype
    arithmetic: torch.dtype

    @property
    def is_narrow(self) -> bool:
        """Whether the weights take fewer bytes than what is computed with them."""
        return self.weights.itemsize < self.arithmetic.itemsize


def uniform(dtype: torch.dtype) -> NumberFormat:
    """One format for both."""
    return NumberFormat(dtype, dtype)


def suited_format(
    own: torch.dtype | None, count: int, device: torch.device, bits: int = 16
) -> NumberFormat:
    """The format for a checkpoint of `count` parameters stored as `own`.

    Half precision for what is large; on a CPU that is slow in it for the weights alone.

    bits: below 16 the language model's matrices are quantised, and this is the format of the rest.
    """
    if count < LARGE:
        return uniform(torch.float32)
    if device.type == "cpu":
        if bfloat16_slowness() <= 1:
            return uniform(torch.bfloat16)
        narrow = bits == 16 and can_pack()
        return NumberFormat(torch.float16 if narrow else torch.float32, torch.float32)
    return uniform(torch.float16 if own in (None, torch.float32) else own)


def unpacks_in_every_pass(device: torch.device, bits: int) -> bool:
    """Whether quantised weights are unpacked again in every pass, which takes longer than the pass.

    On a CPU, bitsandbytes multiplies with the packed ones by AVX-512 in bfloat16 only.
    """
    if device.type != "cpu" or bits == 16:
        return False
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return not wide or bfloat16_slowness() > 1


@cache
def bfloat16_slowness() -> float:
    """How many times as long as in float32 a product takes in bfloat16 on this processor.

    Measured once, on a small product: about 0.3 where the processor has instructions for it, and
    several hundred where it has none.
    """

    def seconds(dtype: torch.dtype) -> float:
        matrix = torch.ones(512, 512, dtype=dtype)
        times: list[float] = []
        # The first does not count: it reads the kernels from the disk, in up to a second.
        while len(times) < 5 and sum(times[1:]) < 0.2:
            start = time.perf_counter()
            matrix @ matrix
            times.append(time.perf_counter() - start)
        return min(times[1:])

    return seconds(torch.bfloat16) / seconds(torch.float32)
