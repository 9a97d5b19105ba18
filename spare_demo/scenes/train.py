"""Trains the built-in model from nothing: ``python -m spare_demo.scenes.train``.

First the CLIP, then projector and decoder on its frozen tower (`training.phases` is the recipe),
then the files in ``--out``. Interrupted at any moment, the same command resumes from the last
checkpoint in ``--run``. Beside the checkpoints lie a log and a curve of each part.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.training import architecture, language, tower
from spare_demo.scenes.training.checkpoint import Checkpoint, reason
from spare_demo.scenes.training.loop import Part, Training
from spare_demo.scenes.training.phases import (
    DECODER,
    DECODER_RATES,
    TOWER,
    TOWER_RATES,
    Phase,
    lengthened,
    steps_of,
)
from spare_demo.scenes.training.relevance_report import relevance_report

_LENGTH_ON_CUDA = 3  # a GPU takes so many times the steps in less time
_LARGEST_FILE = "8MB"  # a Space refuses files over 10 MB without LFS


def train_built_in(
    run: Path,
    out: Path,
    phases: tuple[Sequence[Phase], Sequence[Phase]],
    device: torch.device,
    workers: int,
    seed: int = 0,
) -> None:
    """Trains CLIP, projector and decoder and writes the model's files.

    Args:
        run: the folder of checkpoints, logs and curves; what is there is gone on from.
        out: the folder of the model's files.
        phases: of the CLIP, and of projector and decoder.
        device: where it is trained. workers: processes that draw scenes ahead.
        seed: of weights and scenes.

    Raises:
        SystemExit: what to do where checkpoints are damaged or of another recipe, or the disk is
            full.
    """
    text_tokenizer, tokenizer = architecture.text_tokenizer(), architecture.language_tokenizer()
    torch.manual_seed(seed)
    clip = architecture.new_clip(text_tokenizer)
    module = tower.TowerTraining(clip)
    first = Training(
        Part(
            "tower", module, module.matrices(), TOWER_RATES, phases[0], stream=0,
            make_batch=functools.partial(tower.batch, tokenizer=text_tokenizer),
            report=functools.partial(relevance_report, clip, text_tokenizer),
        ),
        Checkpoint(run / "tower.pt"), device, seed,
    )  # fmt: skip
    first.run(workers)

    clip.cpu().eval()
    torch.manual_seed(seed + 1)
    llava = architecture.new_llava(clip, tokenizer)
    decoder = language.LanguageTraining(llava, clip.visual, tokenizer)
    second = Training(
        Part(
            "decoder", decoder, decoder.matrices(), DECODER_RATES, phases[1], stream=1,
            make_batch=functools.partial(language.batch, tokenizer=tokenizer),
            origin=f", the CLIP {_digest(clip)}",
        ),
        Checkpoint(run / "decoder.pt"), device, seed,
    )  # fmt: skip
    second.run(workers)

    history = {
        "tower_steps": steps_of(phases[0]),
        "language_steps": steps_of(phases[1]),
        "seed": seed,
        "tower_phases": [dataclasses.asdict(phase) for phase in phases[0]],
        "language_phases": [dataclasses.asdict(phase) for phase in phases[1]],
    }
    try:
        write_files(
            out, clip.cpu(), text_tokenizer, llava.cpu().eval(), tokenizer,
            history, first.log + second.log,
        )  # fmt: skip
    except OSError as error:
        raise SystemExit(
            f"The model's files were not written: {reason(error, out)} and run the same command "
            "again. Nothing is trained anew."
        ) from None


def write_files(
    folder: Path,
    clip: open_clip.CLIP,
    text_tokenizer: PreTrainedTokenizerFast,
    llava: LlavaForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    history: dict[str, Any],
    log: list[str],
) -> None:
    """Replaces the model's files.

    ``folder`` becomes a Hugging Face LLaVA checkpoint, ``folder/clip`` an open_clip folder; beside
    them ``training.json`` says how the weights were trained, and ``training.log`` what was printed
    on the way. Weights lie in half precision, which halves the download; they are used in float32.

    Raises:
        OSError: the disk is full, say.
    """
    clip_folder = folder / "clip"
    clip_folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_cfg": architecture.clip_config(text_tokenizer),
        "preprocess_cfg": {
            "size": architecture.SIDE,
            "mean": architecture.MEAN,
            "std": architecture.STD,
        },
    }
    (clip_folder / "open_clip_config.json").write_text(json.dumps(config, indent=2) + "\n")
    state = {name: value.half().contiguous() for name, value in clip.state_dict().items()}
    save_file(state, clip_folder / "open_clip_model.safetensors")
    text_tokenizer.save_pretrained(clip_folder)
    llava.half().save_pretrained(folder, max_shard_size=_LARGEST_FILE)
    architecture.processor(tokenizer).save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps(history, indent=2) + "\n")
    (folder / "training.log").write_text("".join(f"{line}\n" for line in log))


def _digest(module: nn.Module) -> str:
    weights = hashlib.sha256()
    for value in module.state_dict().values():
        weights.update(value.contiguous().numpy().tobytes())
    return weights.hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m spare_demo.scenes.train", description="Train the built-in model."
    )
    cuda = torch.cuda.is_available()
    cores = os.cpu_count() or 1
    parser.add_argument("--run", type=Path, default=Path("runs/built-in"), help="checkpoints")
    parser.add_argument("--out", type=Path, default=ASSETS / "built-in", help="the model's files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument(
        "--workers", type=int, default=cores if cuda else 1, help="processes that draw scenes"
    )
    parser.add_argument("--length", type=float, help="times the steps of every phase")
    args = parser.parse_args()
    device = torch.device(args.device)
    length = args.length or (_LENGTH_ON_CUDA if device.type == "cuda" else 1)
    phases = lengthened(TOWER, length), lengthened(DECODER, length)
    train_built_in(args.run, args.out, phases, device, args.workers, args.seed)


if __name__ == "__main__":
    main()
