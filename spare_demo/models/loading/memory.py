"""How much memory a model needs, how much there is, and what to say when it is not enough."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import torch
import transformers
from torch import nn

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.models.base import ModelError
from spare_demo.models.generate.batch import position_bytes
from spare_demo.models.loading.hub import Progress, no_progress
from spare_demo.models.loading.number_format import (
    LARGE,
    NumberFormat,
    bfloat16_slowness,
    suited_format,
    uniform,
    unpacks_in_every_pass,
)
from spare_demo.models.model import Model
from spare_demo.settings import BITS

TAKE_LESS = (
    "Free some memory, start it with --bits 4 (not on an Apple GPU), or choose a smaller model "
    "(see python -m spare_demo models)."
)
# Bytes of one quantised weight; 4 bits carry a float32 scale for every 64 weights.
_QUANTISED = {8: 1.0, 4: 0.5 + 4 / 64}
_CUDA_ITSELF = 800_000_000
TEXT_SIDE = 500_000_000
"""Bytes of the text side of CLIP ViT-L/14-336, float32."""
_VISITS = (2, 32)  # comparisons that the page keeps open in the computer's own memory
_VISITS_BYTES = 1_000_000_000  # which they take together, beyond the two

_PHOTO = 3_000_000  # of a megapixel
_PRUNED = 2  # answers beside the unpruned one, each with a cache, of a quarter of the tokens
_WORDS = 600  # a long question and a long answer, in tokens
_CLIP_LARGE = 250_000_000  # parameters; of CLIP ViT-L alone 303 million
_TOO_SLOW = 4  # times as long as in float32: nobody waits for that


@dataclass(frozen=True)
class LoadOptions:
    """How a checkpoint is to be loaded.

    Attributes:
        device: where to.
        spread: whether a model too large for that GPU may be spread over all of them.
        make_room: called before weights are read that fit only then.
        given_back, given_back_elsewhere: bytes that making room frees, on that device and on
            other GPUs.
        bits, report, language_model, progress, system: as of `load.load_model`.
    """

    device: torch.device
    spread: bool = False
    bits: int = 16
    report: Callable[[str], None] = lambda sentence: None
    make_room: Callable[[], None] = lambda: None
    given_back: int = 0
    given_back_elsewhere: int = 0
    language_model: bool = True
    progress: Progress = no_progress
    system: str = "auto"


@dataclass(frozen=True)
class Weights:
    """Parameters of a model: those of layers that can be quantised, and all others."""

    linear: int
    others: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.linear + self.others

    def bytes(self, dtype: torch.dtype, bits: int) -> int:
        """Memory they take: the linear layers at `bits` where that is below 16, else all alike."""
        if bits == 16:
            return self.count * dtype.itemsize
        return int(self.linear * _QUANTISED[bits]) + self.others * dtype.itemsize


def without_language_model(config: Any) -> Any:
    """A copy of a config whose language model has no layer and one word."""
    small = copy.deepcopy(config)
    text = small.get_text_config()
    text.num_hidden_layers, text.vocab_size, text.pad_token_id = 0, 1, None
    if getattr(text, "layer_types", None):
        text.layer_types = []
    return small


_counted: dict[tuple[type[Model], str], Weights] = {}


def count_weights(config: Any, family: type[Model]) -> Weights:
    """The parameters of a model of this config, counted on one without memory behind its weights.

    That takes a tenth of a second, and equal configs are asked about again and again.
    """
    key = family, config.to_json_string(use_diff=False)
    if key not in _counted:
        with torch.device("meta"):
            model: nn.Module = getattr(transformers, family.hf_class)(config)
        linear = sum(
            module.weight.numel()
            for name, module in model.named_modules()
            if isinstance(module, nn.Linear) and not name.startswith(family.kept_whole)
        )
        _counted[key] = Weights(linear, sum(p.numel() for p in model.parameters()) - linear)
    return _counted[key]


def needed_bytes(
    config: Any,
    family: type[Model],
    weights: Weights,
    options: LoadOptions,
    number_format: NumberFormat,
) -> int:
    """Weights, CLIP's text side, and what one question with the most visual tokens takes.

    The latter is the caches of three answers, of which two keep a quarter of the tokens, one
    layer's activations in the prefill, and choosing in float64; without the language model only
    choosing. The captured prefill takes what is free beside that. On a CPU also the comparisons
    that stay open (`open_visits`); those of a model on a GPU lie in the computer's own memory too.
    """
    text = config.get_text_config()
    visual = family.most_tokens_of(config)
    dtype = number_format.arithmetic
    tokens = visual + _WORDS
    cache = position_bytes(config, dtype) * (tokens + _PRUNED * (visual // 4 + _WORDS))
    activations = tokens * (4 * text.hidden_size + 3 * text.intermediate_size) * dtype.itemsize
    choosing = 8 * visual * (visual + text.hidden_size)
    clip = TEXT_SIDE if family.clip_tower and weights.count >= _CLIP_LARGE else 0
    driver = _CUDA_ITSELF if options.device.type == "cuda" else 0
    visit = visit_bytes(config, visual, dtype) if options.device.type == "cpu" else 0
    visits = visit * open_visits(config, visual, dtype)
    own = weights.bytes(number_format.weights, options.bits) + clip + choosing + driver + visits
    if number_format.is_narrow and getattr(config, "tie_word_embeddings", False):
        # Packed for the head, and once more as it is for the words.
        own += text.vocab_size * text.hidden_size * number_format.weights.itemsize
    return own + cache + activations if options.language_model else own


def open_visits(config: Any, visual: int, dtype: torch.dtype) -> int:
    """How many comparisons stay open: 32, or fewer where they would take more than a gigabyte.

    Arguments as of `visit_bytes`.
    """
    least, most = _VISITS
    return max(least, min(most, _VISITS_BYTES // visit_bytes(config, visual, dtype)))


def visit_bytes(config: Any, visual: int, dtype: torch.dtype) -> int:
    """About what an open comparison of a photo of a megapixel keeps.

    The rows that the language model gets, six states of the tower (two for relevance, four for
    methods), CLIP's embeddings, the tower's input, and the matrix that errors are computed with.

    visual: tokens of the picture. dtype: of what is computed.
    """
    width, vision = config.get_text_config().hidden_size, config.vision_config
    states = dtype.itemsize * (width + 6 * vision.hidden_size) + 4 * vision.hidden_size
    pixels = 4 * 3 * vision.patch_size**2
    return _PHOTO + visual * (states + pixels + 8 * min(visual, width))


def free_bytes(device: torch.device) -> int:
    """Memory that is free on a device now; on the CPU, also within this container's limit."""
    if device.type == "cuda":  # what nobody has, and what torch keeps for later allocations here
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        try:
            return int(torch.cuda.mem_get_info(device)[0]) + kept
        except RuntimeError as error:
            if is_out_of_memory(error):  # there is no room even for what CUDA itself takes
                return 0
            raise
    if device.type == "mps":
        used = torch.mps.current_allocated_memory()
        return int(torch.mps.recommended_max_memory() - used)
    return min(psutil.virtual_memory().available, _container_room())


@dataclass(frozen=True)
class Room:
    """Whether a model fits, and how.

    Attributes:
        number_format: of its weights, and of what it computes.
        spread: whether it is spread over all GPUs.
        needed, free, given_back: bytes that it needs, that are free where it goes, and that making
            room frees there.
        where: "on the GPU" and the like.
        slow_format: whether all is float32 because this processor is slow in bfloat16.
    """

    number_format: NumberFormat
    spread: bool
    needed: int
    free: int
    given_back: int
    where: str
    slow_format: bool

    @property
    def crowded(self) -> bool:
        """Whether it fits only once `LoadOptions.make_room` has given memory back, if then."""
        return self.needed > self.free

    @property
    def fits(self) -> bool:
        """Whether there is memory for it."""
        return self.needed <= self.free + self.given_back


def plan_room(config: Any, family: type[Model], options: LoadOptions) -> Room:
    """How a checkpoint of this config would be loaded now."""
    counted = config if options.language_model else without_language_model(config)
    weights = count_weights(counted, family)
    own = getattr(config, "dtype", None)
    number_format = suited_format(own, weights.count, options.device, options.bits)
    free, spread = free_bytes(options.device), False
    where = {"cuda": "on the GPU", "mps": "on the Apple GPU"}.get(options.device.type, "of memory")
    needed = needed_bytes(config, family, weights, options, number_format)
    single = uniform(torch.float32)
    large = options.device.type == "cpu" and weights.count >= LARGE
    short = large and number_format == single and needed > free + options.given_back
    if short and bfloat16_slowness() < _TOO_SLOW:
        number_format = uniform(torch.bfloat16)  # half the size
        needed = needed_bytes(config, family, weights, options, number_format)
    if needed > free + options.given_back and options.spread and torch.cuda.device_count() > 1:
        gpus = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
        free, where, spread = sum(map(free_bytes, gpus)), "on all GPUs together", True
    given_back = options.given_back + (options.given_back_elsewhere if spread else 0)
    slow_format = large and number_format == single
    return Room(number_format, spread, needed, free, given_back, where, slow_format)


def find_room(config: Any, family: type[Model], label: str, options: LoadOptions) -> Room:
    """As `plan_room`, reported; ModelError for too little memory says what would be enough."""
    room = plan_room(config, family, options)
    free = room.free + room.given_back
    sentence = f"{label} needs about {size_words(room.needed)} {room.where}"
    if room.number_format.is_narrow:
        sentence += " (with weights of 16 bits, computing in float32)"
    if room.slow_format:
        sentence += " in float32 (this processor is slow in bfloat16)"
    sentence += f", and {size_words(free)} are free"
    sentence += " without the present model" if room.given_back else ""
    if room.fits:
        options.report(f"{sentence}.")
        return room
    offers = []
    for bits in (b for b in BITS if b < options.bits and options.device.type != "mps"):
        smaller = plan_room(config, family, replace(options, bits=bits))
        if smaller.fits:
            size = size_words(smaller.needed)
            size += ", slowly" if unpacks_in_every_pass(options.device, bits) else ""
            offers.append(f"start it with --bits {bits} (about {size})")
            break
    offers += ["free some memory", "choose a smaller model (see python -m spare_demo models)"]
    choice = ", or ".join(offers)
    raise ModelError(f"{sentence}. {choice[0].upper()}{choice[1:]}.")


def size_words(count: int) -> str:
    """ "4.6 GB", "87 MB"."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _container_room() -> int:
    """Bytes that the container may still take; without a limit, more than any machine has."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text("utf-8").strip()
        used = int((group / "memory.current").read_text("utf-8"))
        # Pages of files that were read count as used, and are given back when asked for.
        lines = (group / "memory.stat").read_text("utf-8").splitlines()
        file_pages = sum(int(x.split()[1]) for x in lines if x.startswith("inactive_file "))
        return int(limit) - used + file_pages
    except (OSError, ValueError):  # no such file, or "max"
        return 2**63
