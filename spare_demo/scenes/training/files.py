"""The files of the trained model: a Hugging Face LLaVA checkpoint and, in ``clip``, an open_clip
folder.

Weights lie in half precision, which halves the download; they are used in float32. Beside those of
each part, ``training.json`` says how they were trained, and ``training.log`` what was printed on
the way.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import open_clip
from safetensors.torch import load_file, save_file
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from spare_demo.scenes.training import architecture
from spare_demo.scenes.training.loop import Training

HISTORY = "training.json"
_WEIGHTS = "open_clip_model.safetensors"
_LARGEST_FILE = "8MB"  # a Space refuses files over 10 MB without LFS


def write_clip(folder: Path, clip: open_clip.CLIP, tokenizer: PreTrainedTokenizerFast) -> None:
    """Replaces the files of the CLIP. Raises OSError if the disk is full, say."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = {"size": architecture.SIDE, "mean": architecture.MEAN, "std": architecture.STD}
    config = {"model_cfg": architecture.clip_config(tokenizer), "preprocess_cfg": picture}
    (folder / "open_clip_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    state = {name: value.half().contiguous() for name, value in clip.state_dict().items()}
    save_file(state, folder / _WEIGHTS)
    tokenizer.save_pretrained(folder)


def read_clip(folder: Path) -> open_clip.CLIP:
    """The CLIP of `write_clip`, in float32."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    clip = architecture.new_clip(tokenizer)
    clip.load_state_dict(load_file(folder / _WEIGHTS))
    return clip.eval()


def write_llava(
    folder: Path,
    llava: LlavaForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    clip_folder: Path,
) -> None:
    """Replaces the files of the whole model, those of ``clip_folder`` in ``clip``.

    Raises OSError if the disk is full, say.
    """
    own = folder / "clip"
    if clip_folder.resolve() != own.resolve():
        shutil.copytree(clip_folder, own, dirs_exist_ok=True)
    llava.half().save_pretrained(folder, max_shard_size=_LARGEST_FILE)
    architecture.processor(tokenizer).save_pretrained(folder)


def write_history(folder: Path, part: str, training: Training) -> None:
    """Replaces what says how a part was trained. Raises OSError if the disk is full, say."""
    phases = [asdict(phase) for phase in training.phases]
    figures = {"steps": training.steps, "seed": training.seed, "phases": phases}
    history = {f"{part}_{name}": value for name, value in figures.items()}
    (folder / HISTORY).write_text(json.dumps(history, indent=2) + "\n", "utf-8")
    (folder / "training.log").write_text("".join(f"{line}\n" for line in training.log), "utf-8")


def read_history(folder: Path) -> dict[str, Any]:
    """How a model was trained, its CLIP and the rest.

    Raises OSError or ValueError if that cannot be read.
    """
    history: dict[str, Any] = {}
    for part in (folder / "clip", folder):
        history |= json.loads((part / HISTORY).read_text(encoding="utf-8"))
    return history
