"""Trains the built-in model from nothing: ``python -m spare_demo.scenes.train``.

First the CLIP, whose files are then written to ``clip`` in ``--out``, then projector and decoder on
its frozen tower (`training.phases` is the recipe). Interrupted at any moment, the same command
resumes from the last checkpoint in ``--run``. Beside the checkpoints lie a log and a curve of each
part. ``--clip`` starts at the second part, on another machine, say.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.training import architecture, files, language, tower
from spare_demo.scenes.training.checkpoint import Checkpoint, reason
from spare_demo.scenes.training.loop import Training
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

LENGTH_ON_CUDA = 3
"""A GPU takes so many times the steps in less time."""


def train_built_in(
    run: Path,
    out: Path,
    phases: tuple[Sequence[Phase], Sequence[Phase]],
    device: torch.device,
    workers: int,
    seed: int = 0,
    clip_folder: Path | None = None,
) -> None:
    """Trains CLIP, projector and decoder and writes the model's files.

    Args:
        run: the folder of checkpoints, logs and curves; what is there is gone on from.
        out: the folder of the model's files.
        phases: of the CLIP, and of projector and decoder.
        device: where it is trained. workers: processes that draw scenes ahead.
        seed: of weights and scenes.
        clip_folder: ``out / "clip"`` of a run that trained the CLIP to its end; from nothing
            without it.

    Raises:
        SystemExit: what to do where checkpoints are damaged or of another recipe, no CLIP lies in
            ``clip_folder``, or the disk is full.
    """
    if clip_folder is None:
        clip_folder = out / "clip"
        _train_clip(run, clip_folder, phases[0], device, workers, seed)
    elif not (clip_folder / files.HISTORY).exists():
        raise SystemExit(f"{clip_folder}: no CLIP that this command trained. Leave --clip out.")
    # As its files hold it, in half precision: the decoder is trained on the tower that is shipped.
    clip = files.read_clip(clip_folder)
    tokenizer = architecture.language_tokenizer()
    torch.manual_seed(seed + 1)
    llava = architecture.new_llava(clip, tokenizer)
    decoder = language.LanguageTraining(llava, clip.visual, tokenizer)
    make_batch = functools.partial(language.batch, tokenizer=tokenizer)
    training = Training(
        "decoder", decoder, DECODER_RATES, phases[1], 1, make_batch,
        Checkpoint(run / "decoder.pt"), device, seed, origin=f", the CLIP {_digest(clip)}",
    )  # fmt: skip
    training.run(workers)
    with _told_what_to_do(out):
        files.write_llava(
            out, llava.cpu().eval(), tokenizer, clip_folder,
            _history("language", phases[1], seed), training.log,
        )  # fmt: skip


def _train_clip(
    run: Path, out: Path, phases: Sequence[Phase], device: torch.device, workers: int, seed: int
) -> None:
    tokenizer = architecture.text_tokenizer()
    torch.manual_seed(seed)
    clip = architecture.new_clip(tokenizer)
    module = tower.TowerTraining(clip)
    make_batch = functools.partial(tower.batch, tokenizer=tokenizer)
    training = Training(
        "tower", module, TOWER_RATES, phases, 0, make_batch,
        Checkpoint(run / "tower.pt"), device, seed,
        report=functools.partial(relevance_report, clip, tokenizer),
    )  # fmt: skip
    training.run(workers)
    with _told_what_to_do(out):
        files.write_clip(out, clip.cpu(), tokenizer, _history("tower", phases, seed), training.log)


def _history(name: str, phases: Sequence[Phase], seed: int) -> dict[str, Any]:
    return {
        f"{name}_steps": steps_of(phases),
        f"{name}_seed": seed,
        f"{name}_phases": [dataclasses.asdict(phase) for phase in phases],
    }


@contextlib.contextmanager
def _told_what_to_do(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SystemExit(
            f"The model's files were not written: {reason(error, folder)} and run the same command "
            "again. Nothing is trained anew."
        ) from None


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
    parser.add_argument("--clip", type=Path, help="files of a CLIP that this command trained")
    parser.add_argument("--length", type=float, help="times the steps of every phase")
    args = parser.parse_args()
    device = torch.device(args.device)
    length = args.length or (LENGTH_ON_CUDA if device.type == "cuda" else 1)
    phases = lengthened(TOWER, length), lengthened(DECODER, length)
    train_built_in(args.run, args.out, phases, device, args.workers, args.seed, args.clip)


if __name__ == "__main__":
    main()
