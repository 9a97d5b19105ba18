"""What the models of the table take on this machine, and which of them `auto` is.

| the first row that holds | `auto` |
|---|---|
| a GPU has room for LLaVA-1.5-7B, at the bits asked for | llava-1.5-7b, on the freest GPU |
| on a Space, or its weights are in the cache, and there is memory for it | tiny-llava |
| else | built-in, with the offer of tiny-llava where there is memory for it |

Needs are those of `memory.needed_bytes`, for the published sizes. Where the GPUs there are have no
room for TinyLLaVA, the last two run on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from spare_demo.models.families import FAMILIES
from spare_demo.models.generate.passes import ModelUnloadedError, OutOfMemory
from spare_demo.models.generate.prefill_floor import Rates
from spare_demo.models.loading import hub, hub_tensors, memory
from spare_demo.models.loading.catalogue import (
    BUILT_IN,
    CATALOGUE,
    LLAVA_7B,
    OPENAI_CLIP,
    PUBLISHED,
    TINY_LLAVA,
    Entry,
    published_config,
)
from spare_demo.models.loading.memory import LoadOptions, Room, free_bytes, needed_bytes, size_words
from spare_demo.models.loading.number_format import suited_format, unpacks_in_every_pass
from spare_demo.models.loading.text_tower import text_side_is_here

_WORDS = 60  # of a prompt, in tokens
_ANSWER = 16  # tokens
_KEPT = 64  # visual tokens of each pruned answer


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
    """This machine as it is now; device: as asked for, of which "cpu" leaves GPUs alone."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [n for n in range(count) if device in ("auto", "cuda", f"cuda:{n}")]
    return Machine(
        tuple(free_bytes(torch.device("cuda", number)) for number in gpus),
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
        reason = "this is a Space" if machine.space else "its weights are on this machine"
        return TINY_LLAVA, f"{TINY_LLAVA.title}: {why}; {reason}."
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


def later_model(machine: Machine, bits: int = 16) -> Entry | None:
    """What a Space without a GPU loads while the built-in model answers; None anywhere else.

    TinyLLaVA takes minutes there, in which a Space without a page counts as broken.
    """
    entry, _ = choose(machine, bits)
    waits = machine.space and not machine.gpus and entry is TINY_LLAVA
    return entry if waits else None


def needed(name: str, device: str, bits: int = 16) -> int:
    """Bytes that a model of the table needs on a kind of device; see `memory.needed_bytes`."""
    config = published_config(name)
    family, options = FAMILIES[config.model_type], LoadOptions(torch.device(device), bits=bits)
    weights = memory.count_weights(config, family)
    number_format = suited_format(config.dtype, weights.count, options.device, bits)
    return needed_bytes(config, family, weights, options, number_format)


@dataclass(frozen=True)
class Offer:
    """A model of the table on this machine, whole and without its language model.

    Attributes:
        entry: its row.
        room, vision_room: whether it fits.
        download, vision_download: bytes still to be moved.
        seconds: of one question with three answers of 16 tokens and the most visual tokens, by
            arithmetic from measured rates; None where it does not fit, `unpacks`, or nothing can
            be measured just now. Real ones take longer.
        unpacks: whether quantised weights are unpacked in every pass, which takes long.
    """

    entry: Entry
    room: Room
    vision_room: Room
    download: int
    vision_download: int
    seconds: float | None
    unpacks: bool


def offers(
    options: LoadOptions,
    rates: Callable[[torch.dtype], Rates],
    names: Sequence[str] = PUBLISHED,
) -> list[Offer]:
    """An `Offer` for each of these names of `PUBLISHED`.

    options: where to, and what is given back there.
    rates: of that device in a number format; measured once for each.
    """
    measured = cache(rates)
    return [_offer(CATALOGUE[name], options, measured) for name in names]


def _offer(entry: Entry, options: LoadOptions, rates: Callable[[torch.dtype], Rates]) -> Offer:
    config = published_config(entry.name)
    family = FAMILIES[config.model_type]
    room = memory.plan_room(config, family, options)
    vision_room = memory.plan_room(config, family, replace(options, language_model=False, bits=16))
    weights = memory.count_weights(config, family)
    vision = memory.count_weights(memory.without_language_model(config), family)
    stored, repository = config.dtype.itemsize, str(entry.source)
    needs_text = family.clip_tower and not text_side_is_here(*OPENAI_CLIP)
    text = memory.TEXT_SIDE if needs_text else 0
    is_whole = hub.is_complete(repository)
    has_vision = is_whole or hub_tensors.is_kept(repository, hub_tensors.VISION)

    def seconds() -> float | None:
        """Three prefills and the tower's pass at the rate of a matrix product; each token of the
        answers, which are written in step, at the rate at which the weights are read."""
        try:
            measured = rates(room.number_format.arithmetic)
        except (OutOfMemory, ModelUnloadedError):
            return None
        tokens = family.most_tokens_of(config)
        prefills = 2 * weights.linear * (tokens + 2 * _KEPT + 3 * _WORDS)
        tower = 2 * vision.count * tokens
        read = _ANSWER * weights.bytes(room.number_format.weights, options.bits)
        return (prefills + tower) / measured.product + read / measured.bandwidth

    unpacks = unpacks_in_every_pass(options.device, options.bits)
    return Offer(
        entry,
        room,
        vision_room,
        text + (0 if is_whole else weights.count * stored),
        text + (0 if has_vision else vision.count * stored),
        seconds() if room.fits and not unpacks else None,
        unpacks,
    )
