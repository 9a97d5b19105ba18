"""Names -> models: one of the table, or any folder or repository of a known family.

Untrained or half-loaded weights never answer: whatever is missing, cut off or does not fit stops
the loading with a `ModelError` that says what to do next and names no path but the one typed.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path
from reprlib import repr as brief
from shutil import which

import torch

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.models.base import LongQuestion, ModelError
from spare_demo.models.generate.passes import OutOfMemory
from spare_demo.models.loading.catalogue import (
    AUTO,
    BUILT_IN,
    CATALOGUE,
    LLAVA_7B,
    NO_CLIP,
    NO_CLIP_TOWER,
    OPENAI_CLIP,
    Entry,
)
from spare_demo.models.loading.checkpoint import open_checkpoint, read_checkpoint
from spare_demo.models.loading.hub import Progress, no_progress
from spare_demo.models.loading.machine import choose, this_machine, too_small
from spare_demo.models.loading.memory import TAKE_LESS, LoadOptions, free_bytes
from spare_demo.models.loading.text_tower import TextTower, text_side_of
from spare_demo.models.model import Model
from spare_demo.settings import BITS, CAPTURES, SYSTEMS
from spare_demo.tokens import cpu_by_default

_NVIDIA_DRIVERS = ("/proc/driver/nvidia/version", "/usr/lib/wsl/lib/nvidia-smi")
_DEVICES = "Choose auto, cpu, cuda or mps, or one of several GPUs, such as cuda:1."
_INSTALL = 'pip install --force-reinstall "torch>=2.11,<2.12" "torchvision>=0.26,<0.27" --index-url'
_WHEELS = "https://download.pytorch.org/whl"
_REPOSITORY = r"[\w-][\w.-]*/[\w-][\w.-]*"


@cpu_by_default()
def load_model(
    name: str = AUTO,
    device: str = "auto",
    bits: int = 16,
    report: Callable[[str], None] = lambda sentence: None,
    instead_of: Model | None = None,
    language_model: bool = True,
    progress: Progress = no_progress,
    system: str = "auto",
    capture_prefill: str = "auto",
    warm_up: bool = True,
) -> Model:
    """Load, check and warm up a model.

    Args:
        name: "auto", a name of `CATALOGUE`, a folder that holds a checkpoint, or a repository of
            the Hugging Face hub ("owner/name", or its address there).
        device: "auto" (CUDA if it can be used, else CPU), "cpu", "cuda", "cuda:1", "mps". With
            "auto" or "cuda" a model too large for one GPU is spread over all of them.
        bits: 16 for the number format that suits model and device; 8 or 4 quantise the language
            model (needs bitsandbytes).
        report: gets a sentence about the memory needed and free, before loading starts.
        instead_of: a model on the same device that this one follows: closed once this one is ready
            or, where there is no memory for both, before this one's weights are read.
        language_model: False loads the vision side alone: all works but the answers, and only
            that part of a repository is downloaded.
        progress: called with bytes so far and in all while files are downloaded, with (0, 0) when
            weights are read next and before `instead_of` is closed; what it raises ends the
            loading.
        system: the system sentence of prompts: "vicuna_v1", "none", or "auto" for the one that the
            papers used with the model.
        capture_prefill: "auto", "on" or "off"; see `Model.capture_prefill`.
        warm_up: False runs no pass and captures none, for a process that has no device itself.

    Raises:
        ModelError: with what to do next. `instead_of.closed` says whether that model is gone.
    """
    if not isinstance(name, str | os.PathLike):
        raise _no_such_model(name)
    name = plain_name(name) if isinstance(name, str) else name
    if system not in SYSTEMS:
        raise ModelError(
            f"No system sentence is called {brief(system)}. Choose {', '.join(SYSTEMS)}."
        )
    if capture_prefill not in CAPTURES:
        raise ModelError(
            f"capture_prefill cannot be {brief(capture_prefill)}. Choose {', '.join(CAPTURES)}."
        )
    if bits not in BITS:
        raise ModelError(f"A model in {brief(bits)} bits is not possible. Choose 16, 8 or 4.")
    place = _device(device)
    spread = place.type == "cuda" and device in ("auto", "cuda")
    freed = 0 if instead_of is None else instead_of.bytes_on(place)  # it may lie on another GPU
    options = LoadOptions(
        place,
        spread,
        bits=bits if language_model else 16,  # nothing else is quantised
        report=report,
        make_room=lambda: None if instead_of is None else _close(instead_of, progress),
        given_back=freed,
        given_back_elsewhere=0 if instead_of is None else instead_of.bytes - freed,
        language_model=language_model,
        progress=progress,
        system=system,
    )
    if name == AUTO:
        machine = this_machine("cpu" if place.type == "cpu" else device)
        entry, why = choose(machine, bits)
        if device == "auto" and entry.name != LLAVA_7B.name and too_small(machine):
            options = dataclasses.replace(options, device=torch.device("cpu"), spread=False)
        if device == "auto":
            why += _unusable_gpu()
        try:
            model = _load(entry, options, (why,))
        except ModelError as error:
            if entry.name == BUILT_IN.name:
                raise
            why = f"{BUILT_IN.title}, because {entry.title} could not be loaded: {error}"
            model = _load(BUILT_IN, dataclasses.replace(options, bits=16), (why,))
    elif name in CATALOGUE:
        model = _load(CATALOGUE[name], options, ())
    # No shell has read "~" on the page. False also for what is too long to be a path.
    elif name and os.path.isdir(folder := os.path.expanduser(name)):
        model = _load_other(Path(folder), options)
    elif isinstance(name, str) and re.fullmatch(_REPOSITORY, name):
        model = _load_other(name, options)
    else:
        raise _no_such_model(name)
    try:
        if warm_up:
            model.warm_up()
            model.capture_prefill(capture_prefill)
    except ModelError:
        model.close(f"{model.title} was not started.")
        raise
    except LongQuestion as error:
        model.close(f"{model.title} was not started.")
        raise ModelError(
            f"The language model of {model.title} has no room for a picture and a question. Choose "
            "another model."
        ) from error
    except Exception as error:
        # Choosing among the tokens, and what a pass leaves to be copied, are no passes.
        if not (isinstance(error, OutOfMemory) or is_out_of_memory(error)):
            raise
        model.close(f"{model.title} was too large.")
        raise ModelError(
            f"{model.title} was loaded, but there is not enough memory left to answer. {TAKE_LESS}"
        ) from None
    if instead_of is not None and not instead_of.closed:
        try:
            options.make_room()
        except BaseException:
            model.close("It is no longer needed.")
            raise
    return model


def _no_such_model(name: object) -> ModelError:
    near = difflib.get_close_matches(name.lower(), CATALOGUE, 1) if isinstance(name, str) else []
    meant = f" Did you mean {near[0]}?" if near else ""
    return ModelError(
        f"There is no model {name!r:.200}.{meant} Choose one of: {AUTO}, {', '.join(CATALOGUE)}, "
        "the path of a folder that holds a checkpoint, or a repository of the Hugging Face hub "
        "such as llava-hf/llava-1.5-7b-hf."
    )


def plain_name(name: str) -> str:
    """A model's name as typed, without a slash at its end and the hub's address before it."""
    address = re.fullmatch(rf"https://huggingface\.co/({_REPOSITORY})(/tree/main)?/*", name)
    return address[1] if address else name.rstrip("/") or name


def _close(model: Model, progress: Progress) -> None:
    progress(0, 0)
    model.close(
        f"{model.title} made room for another model. The page reopens when that one is loaded: ask "
        "again then."
    )


def _load(entry: Entry, options: LoadOptions, notes: tuple[str, ...]) -> Model:
    if isinstance(entry.source, Path) and not (entry.source / "config.json").is_file():
        raise ModelError(
            f"The weights of the {entry.name} model are not here. They come with the repository, "
            "in assets/built-in: get it whole, or train them with "
            "`python -m spare_demo.scenes.train`."
        )
    opened = open_checkpoint(entry.source, entry.title, options)
    # The text side first: should it be missing, 14 GB need not be read to find out.
    tower: TextTower | None = None
    if isinstance(entry.source, Path):
        tower = TextTower.from_folder(entry.source / "clip")
    elif opened.family.clip_tower:
        tower = TextTower.from_open_clip(*OPENAI_CLIP, options.progress)
    return read_checkpoint(
        opened,
        tower,
        name=entry.name,
        title=entry.title,
        description=entry.description,
        system=entry.system if options.system == "auto" else options.system,
        notes=(*notes, entry.note) if entry.note else notes,
    )


def _load_other(source: Path | str, options: LoadOptions) -> Model:
    """A checkpoint that the table does not know."""
    local = isinstance(source, Path)
    name = source.resolve().name if isinstance(source, Path) else source
    label = f"The model {'folder ' if local else ''}'{name}'"
    opened = open_checkpoint(source, label, options)
    family = opened.family
    notes: list[str] = []
    tower: TextTower | None = None
    side = text_side_of(source, opened.config) if family.clip_tower else None
    if not family.clip_tower:
        notes.append(NO_CLIP_TOWER)
    elif isinstance(side, Path):
        tower = TextTower.from_folder(side)
    elif side is not None:
        try:
            tower = TextTower.from_open_clip(*side, options.progress)
            notes.append(
                "Relevance uses OpenAI's CLIP ViT-L/14-336 text side; it is exact only if this "
                "checkpoint left that vision tower as it was."
            )
        except ModelError as error:
            notes.append(f"{NO_CLIP}{error}")
    else:
        notes.append(
            f"{NO_CLIP}there is no clip/ sub-folder, and the vision tower is none whose text side "
            "is known."
        )
    return read_checkpoint(
        opened,
        tower,
        name=name,
        title=name,
        description=f"A checkpoint of {family.hf_class} from "
        f"{'a local folder' if local else 'the Hugging Face hub'}.",
        system="none" if options.system == "auto" else options.system,
        notes=notes,
    )


def _unusable_gpu() -> str:
    """A sentence about an NVIDIA GPU that this torch cannot use, with what to install, or ""."""
    if torch.cuda.is_available():
        fault = _fault(torch.device("cuda"))
        if "out of memory" in fault:
            return " There is an NVIDIA GPU, but other programs have taken all its memory."
        return fault and (
            f" There is an NVIDIA GPU, but the PyTorch installed here cannot use it ({fault}). For "
            f"an older GPU try the PyTorch of `{_INSTALL} {_WHEELS}/cu126`."
        )
    driver = any(Path(path).is_file() for path in _NVIDIA_DRIVERS) or which("nvidia-smi")
    if not driver:
        return ""
    if torch.version.cuda is None:
        return (
            " There is an NVIDIA GPU, but the PyTorch installed here is built without CUDA: "
            f"`{_INSTALL} {_WHEELS}/cu130` installs one with it."
        )
    return (
        " There is an NVIDIA GPU, but the PyTorch installed here needs a driver for CUDA "
        f"{torch.version.cuda}: update the driver, or install one for an older driver: "
        f"`{_INSTALL} {_WHEELS}/cu126`."
    )


def _fault(device: torch.device) -> str:
    """What a CUDA GPU says when it is to compute; "" where it does.

    One that PyTorch was not built for is counted, and fails at the first kernel alone.
    """
    try:
        torch.ones(1, device=device)
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""


def _device(name: str) -> torch.device:
    if name == "auto":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        usable = any(not _fault(torch.device("cuda", number)) for number in range(count))
        name = "cuda" if usable else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"There is no device '{name}'. {_DEVICES}") from error
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        if count:
            raise ModelError(
                f"This machine has no CUDA GPU '{name}'. GPUs are counted from 0, and the last one "
                f"is cuda:{count - 1}. Choose another one, or --device cpu."
            )
        raise ModelError(
            f"This machine has no CUDA GPU '{name}'.{_unusable_gpu()} Choose --device cpu."
        )
    if name == "cuda" and torch.cuda.device_count() > 1:
        gpus = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
        device = max(gpus, key=free_bytes)
    if device.type == "cuda" and _fault(device):
        raise ModelError(f"The GPU cannot be used.{_unusable_gpu()} Choose --device cpu.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ModelError("This machine has no Apple GPU that torch can use. Choose --device cpu.")
    if device.type not in ("cpu", "cuda", "mps"):
        raise ModelError(f"The device '{name}' is not supported. {_DEVICES}")
    return device
