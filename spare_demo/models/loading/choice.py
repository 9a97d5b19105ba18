"""Which model `auto` takes, as one table.

| the first row that holds | model |
|---|---|
| a GPU has room for LLaVA-1.5-7B, at the bits asked for | llava-1.5-7b, on the freest GPU |
| on a Space, or its weights are in the cache, and there is memory for it | tiny-llava |
| else | built-in, with the offer of tiny-llava where there is memory for it |

Needs are those of `memory.needed_bytes`, for the published sizes. Where the GPUs there are have no
room for TinyLLaVA, the last two run on the CPU.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import torch

from spare_demo.models.families.llava import LlavaModel
from spare_demo.models.loading import hub
from spare_demo.models.loading.catalogue import (
    BUILT_IN,
    LLAVA_7B,
    TINY_LLAVA,
    Entry,
    published_config,
)
from spare_demo.models.loading.memory import (
    Fit,
    count_weights,
    free_bytes,
    needed_bytes,
    size_words,
)
from spare_demo.models.loading.number_format import suited_format


@dataclass(frozen=True)
class Machine:
    """What decides which model fits.

    Attributes:
        gpus: free bytes of each CUDA GPU; none where none is to be used.
        memory: free bytes of the machine's own memory.
        space: whether this is a Hugging Face Space.
        cached: names of the models whose weights are in the hub's cache.
    """

    gpus: tuple[int, ...]
    memory: int
    space: bool = False
    cached: frozenset[str] = frozenset()


def this_machine(device: str) -> Machine:
    """What there is now; device: as asked for, of which "cpu" leaves GPUs alone."""
    use = torch.cuda.is_available() and device.startswith(("auto", "cuda"))
    numbers = [
        number
        for number in range(torch.cuda.device_count() if use else 0)
        if ":" not in device or device == f"cuda:{number}"
    ]
    return Machine(
        tuple(free_bytes(torch.device("cuda", number)) for number in numbers),
        free_bytes(torch.device("cpu")),
        "SPACE_ID" in os.environ,
        frozenset({TINY_LLAVA.name} if hub.is_complete(str(TINY_LLAVA.source)) else ()),
    )


def choose(machine: Machine, bits: int = 16) -> tuple[Entry, str]:
    """What `auto` stands for on a machine, by the table above, and a sentence that says why."""
    if machine.gpus:
        room, need = max(machine.gpus), needed(LLAVA_7B.name, "cuda", bits)
        at = "" if bits == 16 else f" at {bits} bits"
        why = (
            f"the freest GPU has {size_words(room)} free, and {LLAVA_7B.title}{at} needs "
            f"{size_words(need)}"
        )
        if need <= room:
            return LLAVA_7B, f"{LLAVA_7B.title}: {why}."
    else:
        why = f"{LLAVA_7B.title} is slow without a CUDA GPU, and none is in use"
    place = "cuda" if machine.gpus and not too_small(machine) else "cpu"
    room, need = machine.memory, needed(TINY_LLAVA.name, place)
    fits = place == "cuda" or need <= room
    if fits and (machine.space or TINY_LLAVA.name in machine.cached):
        there = "this is a Space" if machine.space else "its weights are on this machine"
        return TINY_LLAVA, f"{TINY_LLAVA.title}: {why}; {there}."
    offer = (
        f"{TINY_LLAVA.title} needs {size_words(need)} of memory, and {size_words(room)} are free"
    )
    if fits:
        on_cpu = " --device cpu" if too_small(machine) else ""
        offer = f"--model {TINY_LLAVA.name}{on_cpu} answers about photos here"
    return BUILT_IN, f"{BUILT_IN.title}: {why}. {offer}."


def too_small(machine: Machine) -> bool:
    """Whether there are GPUs, none of which has room for TinyLLaVA: `auto` takes the CPU then."""
    return bool(machine.gpus) and max(machine.gpus) < needed(TINY_LLAVA.name, "cuda")


def to_follow(machine: Machine, bits: int = 16) -> Entry | None:
    """What a Space without a GPU loads while the built-in model answers; None anywhere else.

    TinyLLaVA takes minutes there, in which a Space without a page counts as broken.
    """
    entry, _ = choose(machine, bits)
    waits = machine.space and not machine.gpus and entry is TINY_LLAVA
    return entry if waits else None


@cache
def needed(name: str, device: str, bits: int = 16) -> int:
    """Bytes that a LLaVA of the table needs on a kind of device; see `memory.needed_bytes`."""
    config = published_config(name)
    fit, weights = Fit(torch.device(device), bits=bits), count_weights(config, LlavaModel)
    number_format = suited_format(config.dtype, weights.count, fit.device, bits)
    return needed_bytes(config, LlavaModel, weights, fit, number_format)
