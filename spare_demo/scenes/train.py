"""Trains the built-in model from nothing: ``python -m spare_demo.scenes.train``.

First the CLIP, whose files are then written to ``clip`` in ``--out``, then projector and decoder on
its frozen tower (`training.phases` is the recipe). Interrupted at any moment, the same command
resumes from the last checkpoint in ``--run``. Beside the checkpoints lie a log and a curve of each
part. ``--clip`` starts at the second part, on another machine, say.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.training import architecture, files, language, phases, tower
from spare_demo.scenes.training.checkpoint import reason
from spare_demo.scenes.training.loop import Training
from spare_demo.scenes.training.phases import Phase

LENGTH_ON_CUDA = 3
"""A GPU takes so many times the steps in less time."""


def train_built_in(
    run: Path,
    out: Path,
    recipe: Sequence[Sequence[Phase]],
    device: torch.device,
    workers: int,
    seed: int = 0,
    clip_folder: Path | None = None,
) -> None:
    """Trains CLIP, projector and decoder and writes the model's files.

    Args:
        run: the folder of checkpoints, logs and curves; what is there is gone on from.
        out: the folder of the model's files.
        recipe: the phases of the CLIP, and of projector and decoder.
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
        text_tokenizer = architecture.text_tokenizer()
        torch.manual_seed(seed)
        clip = architecture.new_clip(text_tokenizer)
        training = Training(
            "tower", tower.TowerTraining(clip), phases.TOWER_RATES, recipe[0], 0,
            functools.partial(tower.batch, tokenizer=text_tokenizer), run, device, seed,
            report=functools.partial(tower.relevance_report, clip, text_tokenizer),
        )  # fmt: skip
        write = functools.partial(files.write_clip, clip_folder, clip, text_tokenizer)
        _finish(training, workers, "tower", write, clip_folder)
    elif not (clip_folder / files.HISTORY).exists():
        raise SystemExit(f"{clip_folder}: no CLIP that this command trained. Leave --clip out.")
    # As its files hold it, in half precision: the decoder is trained on the tower that is shipped.
    clip = files.read_clip(clip_folder)
    tokenizer = architecture.language_tokenizer()
    torch.manual_seed(seed + 1)
    llava = architecture.new_llava(clip, tokenizer)
    training = Training(
        "decoder", language.LanguageTraining(llava, clip.visual, tokenizer), phases.DECODER_RATES,
        recipe[1], 1, functools.partial(language.batch, tokenizer=tokenizer), run, device, seed,
        origin=f", the CLIP {_digest(clip)}",
    )  # fmt: skip
    write = functools.partial(files.write_llava, out, llava, tokenizer, clip_folder)
    _finish(training, workers, "language", write, out)


def _finish(
    training: Training, workers: int, part: str, write: Callable[[], None], folder: Path
) -> None:
    """Trains to the end and writes the files."""
    training.run(workers)
    training.module.cpu()
    try:
        write()
        files.write_history(folder, part, training)
    except OSError as error:
        raise SystemExit(
            f"The model's files were not written: {reason(error, folder)} and run the same command "
            "again. No finished step is trained again."
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
    parser.add_argument("--length", type=float, help="factor on the steps of every phase")
    args = parser.parse_args()
    device = torch.device(args.device)
    length = args.length or (LENGTH_ON_CUDA if device.type == "cuda" else 1)
    recipe = tuple(phases.lengthened(part, length) for part in (phases.TOWER, phases.DECODER))
    train_built_in(args.run, args.out, recipe, device, args.workers, args.seed, args.clip)


if __name__ == "__main__":
    main()
