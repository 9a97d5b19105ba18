"""Reads one checkpoint, or its vision side alone, whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoProcessor, GenerationConfig

from spare_demo.cuda_graphs import is_out_of_memory
from spare_demo.models.base import ModelError
from spare_demo.models.families import FAMILIES, supported_classes
from spare_demo.models.loading import hub, hub_tensors
from spare_demo.models.loading.hub_refusals import get_again
from spare_demo.models.loading.memory import (
    TAKE_LESS,
    LoadOptions,
    Room,
    find_room,
    without_language_model,
)
from spare_demo.models.loading.packed_weights import pack_bfloat16, widen_arithmetic
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.models.model import Model

_OPTIONS: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}


@dataclass(frozen=True)
class OpenCheckpoint:
    """A checkpoint that can be loaded here, as far as its settings tell; no weights were moved.

    Attributes:
        folder: of its files, or of the commit in the hub's cache.
        repository: of the hub; None for a local folder.
        label: how to call it in a refusal.
        options, room: how it is to be loaded, and as what.
    """

    folder: Path
    repository: str | None
    label: str
    family: type[Model]
    config: Any
    options: LoadOptions
    room: Room


def open_checkpoint(source: Path | str, label: str, options: LoadOptions) -> OpenCheckpoint:
    """Read a checkpoint's settings, and find room for it; arguments as of `OpenCheckpoint`.

    source: a local folder (a ``Path``) or a repository of the hub (a ``str``).

    Raises:
        ModelError: of no family, not reachable, too large for the memory there is, or with weight
            files that are missing or cut off.
    """
    repository = None if isinstance(source, Path) else source
    folder = source if isinstance(source, Path) else hub.config_folder(source)
    family = _family(folder, label)
    if isinstance(source, Path):
        _check_folder(folder, label)
    try:
        config = AutoConfig.from_pretrained(folder, **_OPTIONS)
    except Exception as error:
        raise _refusal(label, repository, "its settings", error) from error
    room = find_room(config, family, label, options)
    if not room.crowded:
        options = replace(options, make_room=lambda: None)
    return OpenCheckpoint(folder, repository, label, family, config, options, room)


def read_checkpoint(opened: OpenCheckpoint, tower: TextTower | None, **words: Any) -> Model:
    """Load model and processor; no code from the checkpoint is ever run.

    tower, words: arguments of `Model`.

    Returns:
        the model with every parameter from the checkpoint; of options without language model with
        every parameter of the vision side, and a language model of no layers.

    Raises:
        ModelError: not to be had, incomplete, not fitting its settings, or as `Model`.
    """
    options, room, label = opened.options, opened.room, opened.label
    processor = _processor(opened)
    arguments: dict[str, Any] = {
        **_OPTIONS,
        "dtype": room.number_format.weights,
        "device_map": "auto" if room.spread else {"": options.device},
    }
    if options.bits != 16:
        arguments["quantization_config"] = _quantisation(
            options, opened.family, room.number_format.arithmetic
        )
    hf, report = _read(opened, arguments)
    # Parts that accelerate could not place are left on the CPU without a word.
    places = set(map(str, getattr(hf, "hf_device_map", {}).values()))
    if room.spread and options.device.type == "cuda" and places & {"cpu", "disk"}:
        raise ModelError(f"{label} does not fit on all GPUs together. {TAKE_LESS}")
    missing = sorted([*report["missing_keys"], *(str(k) for k in report["mismatched_keys"])])
    if missing:
        raise ModelError(
            f"{label} lacks {len(missing)} of the model's parameters (such as {missing[0]}). It "
            f"would answer from noise, so it is not started. {get_again(opened.repository)}"
        )
    try:
        if room.number_format.is_narrow:
            widen_arithmetic(hf)
        elif (hf.dtype, hf.device.type, options.bits) == (torch.bfloat16, "cpu", 16):
            pack_bfloat16(hf)
        words |= {"language_model": options.language_model, "revision": _revision(opened)}
        model = opened.family(hf, processor, tower, **words)  # moves the text side to the device
    except Exception as error:
        raise _refusal(label, opened.repository, "its weights", error) from error
    model.check_answers()
    return model


def _processor(opened: OpenCheckpoint) -> Any:
    """The checkpoint's processor; a repository's files are downloaded where some are missing."""
    folder, repository, label = opened.folder, opened.repository, opened.label
    refusal: Exception | None = None
    if repository is not None:
        # First of all: it can be read without the chat template and the generation settings.
        try:
            hub.download_small_files(repository, folder.name)
        except ModelError as error:
            if hub.lacks_settings(repository, folder.name):
                raise  # other answers would be made without them
            refusal = error  # and what is in the cache may do
    try:
        processor = AutoProcessor.from_pretrained(folder, **_OPTIONS)
    except Exception as error:
        what = "its processor or tokenizer files"
        raise refusal or _refusal(label, repository, what, error) from error
    if not hasattr(processor, "image_token") or not hasattr(processor, "image_processor"):
        raise ModelError(
            f"{label} has no processor that knows an image token. Get its processor and tokenizer "
            "files (processor_config.json, tokenizer.json, …) again."
        )
    return processor


def _read(opened: OpenCheckpoint, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """The model, and what transformers reports of its loading.

    Without the language model the vision side's weights are all that is downloaded and read.
    """
    folder, repository, options = opened.folder, opened.repository, opened.options
    family, config, whole = opened.family, opened.config, opened.options.language_model
    # Typed as returning the model alone; with `output_loading_info` it is a pair.
    cls: Any = getattr(transformers, family.hf_class)

    def wanted(name: str) -> bool:
        return whole or name.removeprefix("model.").startswith(family.vision_modules)

    files = hub.shards(folder, repository)
    paths = [folder / name for name in files]
    missing = [path.name for path in paths if not path.exists()]
    if repository is not None and missing and whole:
        hub.download_files(repository, folder.name, missing, options.progress)
    elif repository is not None and missing:
        paths = [
            hub_tensors.download_tensors(
                repository,
                folder.name,
                files,
                wanted,
                hub_tensors.VISION,
                options.progress,
                options.report,
            )
        ]
    options.progress(0, 0)
    options.make_room()
    arguments = arguments | {"use_safetensors": True, "output_loading_info": True}
    try:
        if whole and (options.device.type != "cpu" or options.bits != 16):
            hf, report = cls.from_pretrained(folder, **arguments)
            return hf, report
        # Given the files, transformers holds all that it read of them until it is done.
        tensors = hub_tensors.read_tensors(paths, wanted, arguments["dtype"])
        if not whole:
            config = without_language_model(config)
            with torch.device("meta"):
                state = cls(config).state_dict()
            for name, value in state.items():  # never read, but asked for
                if "language_model." in name or name.startswith("lm_head."):
                    tensors[name] = torch.zeros(value.shape)
        elif (folder / "generation_config.json").is_file():  # read of a source alone, as a rule
            arguments["generation_config"] = GenerationConfig.from_pretrained(
                folder, local_files_only=True
            )
        hf, report = cls.from_pretrained(None, config=config, state_dict=tensors, **arguments)
    except Exception as error:
        raise _refusal(opened.label, repository, "its weights", error) from error
    if not whole:
        hf.config = opened.config
    return hf, report


def _quantisation(options: LoadOptions, family: type[Model], dtype: torch.dtype) -> Any:
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError(
            f"--bits {options.bits} needs bitsandbytes, which is not installed. Install it with "
            "`pip install bitsandbytes`, or leave --bits out."
        )
    if options.device.type == "mps":
        raise ModelError("--bits 8 and 4 do not work on Apple GPUs. Choose --bits 16.")
    # It warns of a change of number format at every layer of every token, and of faster kernels
    # that it would download.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    return transformers.BitsAndBytesConfig(
        load_in_8bit=options.bits == 8,
        load_in_4bit=options.bits == 4,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        # Matched from the start of a module's whole name; without it the tower is quantised too.
        llm_int8_skip_modules=list(family.kept_whole),
    )


def _revision(opened: OpenCheckpoint) -> str:
    """First 12 hex digits of a commit, or of the SHA-256 over a folder's weight files, the text
    side's included; with the bits where they are quantised: other weights, other answers."""
    commit = _folder_digest(opened.folder) if opened.repository is None else opened.folder.name
    bits = opened.options.bits
    return commit[:12] if bits == 16 else f"{commit[:12]}-{bits}bit"


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def bits_of(revision: str) -> int:
    """How the weights of a revision were held: 16, or 8 or 4 bits."""
    match = re.search(r"-([84])bit$", revision)
    return int(match[1]) if match else 16


def _family(folder: Path, label: str) -> type[Model]:
    """Which family reads a checkpoint, from its config.json alone."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = str(config["model_type"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{label} has no readable config.json, so it is not a model. Choose a folder that "
            "holds a checkpoint in Hugging Face form."
        ) from error
    if "mm_vision_tower" in config and "text_config" not in config:
        raise ModelError(
            f"{label} is in the form of LLaVA's own code. Choose the same model in the form of "
            "transformers, such as llava-hf/llava-1.5-7b-hf."
        )
    if kind not in FAMILIES:
        raise ModelError(
            f"{label} holds a model of type '{kind}', which this program cannot look into. Choose "
            f"a checkpoint of one of these classes: {supported_classes()}."
        )
    return FAMILIES[kind]


def _check_folder(folder: Path, label: str) -> None:
    """Raise ModelError for weight files of a folder that are missing or cut off."""
    for shard in hub.shards(folder, None):
        try:
            with safe_open(folder / shard, framework="pt"):
                pass  # opening checks the header and that the file is as long as it says
        except FileNotFoundError as error:
            if any(folder.glob("pytorch_model*.bin")):
                raise ModelError(
                    f"{label} has its weights in .bin files, which can run code and are not read. "
                    "Save them as safetensors with save_pretrained of transformers, or choose "
                    "another model."
                ) from error
            raise ModelError(
                f"{label} lacks the weights file {shard}. Get the whole checkpoint again."
            ) from error
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"{label} is damaged: the weights file {shard} is cut off or not a safetensors "
                "file. Get it again."
            ) from error


def _refusal(label: str, repository: str | None, part: str, error: Exception) -> ModelError:
    if isinstance(error, ModelError):
        return error
    if is_out_of_memory(error):  # something else took it meanwhile
        return ModelError(f"Memory ran out while {label} was loaded. {TAKE_LESS}")
    if isinstance(error, OSError | ValueError | KeyError | RuntimeError | SafetensorError):
        return ModelError(
            f"{label} could not be loaded: {part} are missing, damaged or do not fit its config. "
            f"{get_again(repository)}"
        )
    return ModelError(
        f"{label} could not be loaded ({type(error).__name__} while reading {part}). Install the "
        "versions in requirements.txt, or choose another model."
    )
