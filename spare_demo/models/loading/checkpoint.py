"""Reads one checkpoint, whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import re
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoProcessor

from spare_demo.models.base import ModelError
from spare_demo.models.families import family_of, supported_classes
from spare_demo.models.generate.passes import is_out_of_memory
from spare_demo.models.loading.memory import TAKE_LESS, Fit, find_room
from spare_demo.models.model import Model

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


def read_checkpoint(source: Path | str, label: str, fit: Fit) -> tuple[type[Model], Any, Any]:
    """Load model and processor; no code from the checkpoint is ever run.

    Args:
        source: a local folder (a ``Path``) or a repository of the hub (a ``str``).
        label: how to call it in a refusal.
        fit: where to and as what.

    Returns:
        its family, the model, every parameter from the checkpoint, and its processor.

    Raises:
        ModelError: of no family, not reachable, too large for the memory there is, incomplete,
            cut off, or not fitting its settings.
    """
    local = isinstance(source, Path)
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": local}
    family = _family(source, label, local, options)
    if local:
        _check_folder(Path(source), label)
    try:
        processor = AutoProcessor.from_pretrained(source, **options)
    except Exception as error:
        raise _refusal(label, local, "its processor or tokenizer files", error) from error
    if not hasattr(processor, "image_token") or not hasattr(processor, "image_processor"):
        raise ModelError(
            f"{label} has no processor that knows an image token. Get its processor and tokenizer "
            "files (processor_config.json, tokenizer.json, …) again."
        )
    try:
        config = AutoConfig.from_pretrained(source, **options)
    except Exception as error:
        raise _refusal(label, local, "its settings", error) from error
    dtype, spread = find_room(config, family, label, fit)
    if fit.bits != 16:
        options["quantization_config"] = _quantisation(fit, family, dtype)
    fit.make_room()
    try:
        # Typed as returning the model alone; with `output_loading_info` it is a pair.
        model_and_report: Any = getattr(transformers, family.hf_class).from_pretrained(
            source,
            dtype=dtype,
            device_map="auto" if spread else {"": fit.device},
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    except Exception as error:
        raise _refusal(label, local, "its weights", error) from error
    hf, report = model_and_report
    # Parts that accelerate could not place are left on the CPU without a word.
    places = set(map(str, getattr(hf, "hf_device_map", {}).values()))
    if spread and fit.device.type == "cuda" and places & {"cpu", "disk"}:
        raise ModelError(f"{label} does not fit on all GPUs together. {TAKE_LESS}")
    missing = sorted([*report["missing_keys"], *(str(k) for k in report["mismatched_keys"])])
    if missing:
        raise ModelError(
            f"{label} lacks {len(missing)} of the model's parameters (such as {missing[0]}). It "
            "would answer from noise, so it is not started. Get the whole checkpoint again."
        )
    return family, hf, processor


def _quantisation(fit: Fit, family: type[Model], dtype: torch.dtype) -> Any:
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError(
            f"--bits {fit.bits} needs bitsandbytes, which is not installed. Install it with "
            "`pip install bitsandbytes`, or leave --bits away."
        )
    if fit.device.type == "mps":
        raise ModelError("--bits 8 and 4 do not work on Apple GPUs. Choose --bits 16.")
    # It warns of a change of number format at every layer of every token.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    return transformers.BitsAndBytesConfig(
        load_in_8bit=fit.bits == 8,
        load_in_4bit=fit.bits == 4,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        # Matched from the start of a module's whole name; without it the tower is quantised too.
        llm_int8_skip_modules=list(family.kept_whole),
    )


def vision_is_openai_clip(vision: Any) -> bool:
    """Whether a vision config has the sizes of CLIP ViT-L/14-336, LLaVA-1.5's tower."""
    if vision.model_type != "clip_vision_model":
        return False
    sizes = (vision.hidden_size, vision.num_hidden_layers, vision.image_size, vision.patch_size)
    return bool(sizes == (1024, 24, 336, 14))


def folder_revision(folder: Path) -> str:
    """First 12 hex digits of the SHA-256 over a folder's weight files, the text side's included."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def revision_of(weights: str, bits: int) -> str:
    """A revision of weights, told apart where they are quantised: other weights, other answers."""
    return weights if bits == 16 else f"{weights}-{bits}bit"


def bits_of(revision: str) -> int:
    """How the weights of a revision were held: 16, or 8 or 4 bits."""
    match = re.search(r"-([84])bit$", revision)
    return int(match[1]) if match else 16


def _family(source: Path | str, label: str, local: bool, options: dict[str, Any]) -> type[Model]:
    """Which family reads a checkpoint, from its config.json alone."""
    kind = None
    try:
        if local:
            config = json.loads((Path(source) / "config.json").read_text(encoding="utf-8"))
            kind = str(config["model_type"])
        else:
            kind = str(AutoConfig.from_pretrained(source, **options).model_type)
    except (ValueError, KeyError, TypeError) as error:
        if not local:  # a model_type that transformers does not know
            raise _unsupported(label, "unknown") from error
        raise _no_model(label) from error
    except OSError as error:
        raise (_no_model(label) if local else _refusal(label, local, "", error)) from error
    family = family_of(kind)
    if family is None:
        raise _unsupported(label, kind)
    return family


def _no_model(label: str) -> ModelError:
    return ModelError(
        f"{label} has no readable config.json, so it is no model. Choose a folder that holds a "
        "checkpoint in Hugging Face form."
    )


def _unsupported(label: str, kind: str) -> ModelError:
    return ModelError(
        f"{label} holds a model of type '{kind}', which this program cannot look into. Choose a "
        f"checkpoint of one of these classes: {supported_classes()}."
    )


def _check_folder(folder: Path, label: str) -> None:
    """Say plainly what transformers would say in a page of its own terms."""
    try:
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        shards = sorted(set(index["weight_map"].values()))
    except FileNotFoundError:
        shards = [_SINGLE]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{label} has a damaged {_INDEX}. Get the whole checkpoint again."
        ) from error
    for shard in shards:
        try:
            with safe_open(folder / shard, framework="pt"):
                pass  # opening checks the header and that the file is as long as it says
        except FileNotFoundError as error:
            raise ModelError(
                f"{label} lacks the weights file {shard}. Get the whole checkpoint again."
            ) from error
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"{label} is damaged: the weights file {shard} is cut off or no safetensors file. "
                "Get it again."
            ) from error


def _refusal(label: str, local: bool, part: str, error: Exception) -> ModelError:
    if is_out_of_memory(error):  # something else took it meanwhile
        return ModelError(f"Memory ran out while {label} was loaded. {TAKE_LESS}")
    if local:
        return ModelError(
            f"{label} could not be loaded: {part} are missing, damaged or do not fit its config. "
            "Get the whole checkpoint again."
        )
    if isinstance(error, OSError):
        return ModelError(
            f"{label} is not on this machine and could not be downloaded. Check the connection to "
            "huggingface.co (and that HF_HUB_OFFLINE is not set), or start with --model built-in."
        )
    return ModelError(
        f"{label} could not be loaded ({type(error).__name__} while reading {part}). Install the "
        "versions in requirements.txt, or start with --model built-in."
    )
