"""Reads one LLaVA checkpoint, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoProcessor, LlavaForConditionalGeneration

from spare_demo.models.base import ModelError

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"


def read_checkpoint(
    source: Path | str, label: str, device: torch.device, dtype: torch.dtype | None
) -> tuple[LlavaForConditionalGeneration, Any]:
    """Load model and processor; no code from the checkpoint is ever run.

    Args:
        source: a local folder (a ``Path``) or a repository of the hub (a ``str``).
        label: how to call it in a refusal.
        device, dtype: where to and as what; dtype None keeps the checkpoint's own.

    Returns:
        the model, every parameter from the checkpoint, and its processor.

    Raises:
        ModelError: not a LLaVA, not reachable, incomplete, cut off, or not fitting its settings.
    """
    local = isinstance(source, Path)
    if local:
        _check_folder(Path(source), label)
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": local}
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
        # Typed as returning the model alone; with `output_loading_info` it is a pair.
        loaded: Any = LlavaForConditionalGeneration.from_pretrained(
            source,
            dtype=dtype or "auto",
            device_map={"": device},
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    except Exception as error:
        raise _refusal(label, local, "its weights", error) from error
    hf, report = loaded
    missing = sorted([*report["missing_keys"], *(str(k) for k in report["mismatched_keys"])])
    if missing:
        raise ModelError(
            f"{label} lacks {len(missing)} of the model's parameters (such as {missing[0]}). It "
            "would answer from noise, so it is not started. Get the whole checkpoint again."
        )
    return hf, processor


def vision_is_openai_clip(vision: Any) -> bool:
    """Whether a vision config has the sizes of CLIP ViT-L/14-336, LLaVA-1.5's tower."""
    sizes = (vision.hidden_size, vision.num_hidden_layers, vision.image_size, vision.patch_size)
    return bool(vision.model_type == "clip_vision_model" and sizes == (1024, 24, 336, 14))


def folder_revision(folder: Path) -> str:
    """First 12 hex digits of the SHA-256 over a folder's weight files, the text side's included."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def _check_folder(folder: Path, label: str) -> None:
    """Say plainly what transformers would say in a page of its own terms."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = config["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{label} has no readable config.json, so it is no model. Choose a folder that holds a "
            "LLaVA checkpoint in Hugging Face form."
        ) from error
    if kind != "llava":
        raise ModelError(
            f"{label} holds a '{kind}' model; this program reads 'llava' ones. Choose a folder "
            "with LLaVA-1.5 or its like."
        )
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
