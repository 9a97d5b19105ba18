"""The whole recipe of the built-in model: ``python -m spare_demo.scenes.train``.

First the CLIP, then projector and decoder on its frozen tower, in four runs, then the files in
``assets/built-in``. Every step's batch follows from its number. Cut off at any moment, the same
command goes on from the last checkpoint in ``--run``. Where there is none, ``--from-assets`` goes
on from the shipped weights at the step that stands beside them, with fresh optimisers.
``--export`` only writes the files.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import open_clip
import torch
from torch import Tensor

from spare_demo.models.loading.convert import clip_vision_from_open_clip
from spare_demo.scenes.training import architecture, language, language_batch, tower
from spare_demo.scenes.training.files import BuiltInFiles
from spare_demo.scenes.training.language_phases import (
    BALANCE_PHASES,
    HELD_OUT_PHASES,
    NOISE_PHASES,
    PHASES,
    Phase,
)
from spare_demo.scenes.training.loop import Rates, checkpointed_module, log_of, train

TOWER_RATES = Rates(muon=4e-3, adam=1e-3)


class _HasSteps(Protocol):
    @property
    def steps(self) -> int: ...


PhaseT = TypeVar("PhaseT", bound=_HasSteps)
LossT = TypeVar("LossT")


def phase_at(phases: tuple[PhaseT, ...], step: int) -> PhaseT:
    """The phase that a step of the whole run belongs to."""
    for phase in phases:
        if step < phase.steps:
            return phase
        step -= phase.steps
    return phases[-1]


def _tower_batch(step: int, tokenizer: Any) -> dict[str, Tensor]:
    return tower.batch(phase_at(tower.PHASES, step), step, tokenizer)


def _language_batch(step: int, tokenizer: Any) -> dict[str, Tensor]:
    return language_batch.batch(phase_at(LANGUAGE_PHASES, step), step, tokenizer)


def _of_any_step(loss: Callable[[dict[str, Tensor]], LossT]) -> Callable[[Any, int], LossT]:
    return lambda data, step: loss(data)


def whole_log(before: list[str], checkpoints: list[Path]) -> list[str]:
    """The shipped log, and after it those of the checkpoints, each line once if exported before."""
    ours = [line for checkpoint in checkpoints for line in log_of(checkpoint)]
    return [line for line in before if line not in ours] + ours


@dataclass(frozen=True)
class Run:
    """Some of the decoder's phases, with rates of their own."""

    name: str
    phases: tuple[Phase, ...]
    rates: Rates
    averaged: bool = False  # whether it leaves the mean of the weights before and after it
    balances: bool = False  # whether it evens attention out and trains nothing else


LANGUAGE_RUNS = (
    Run("first", PHASES, Rates(muon=3e-3, adam=1e-3, decay=0.25)),
    # Rates fall over that share of all the steps of the decoder up to the end of the run.
    Run("fair", HELD_OUT_PHASES, Rates(muon=1.7e-3, adam=6e-4, decay=0.07), averaged=True),
    Run(
        "noisy", NOISE_PHASES,
        Rates(muon=1.5e-3, adam=5e-4, decay=0.035), averaged=True,
    ),
    Run(
        "even", BALANCE_PHASES,
        Rates(muon=0.0, adam=5e-4, warm_up=20, decay=0.019), balances=True,
    ),
)  # fmt: skip
LANGUAGE_PHASES = tuple(phase for run in LANGUAGE_RUNS for phase in run.phases)


class Recipe:
    """Both trainings and what they leave behind, in one run folder."""

    def __init__(self, run: Path, device: torch.device, workers: int, from_assets: bool) -> None:
        self.device, self.workers = device, workers
        self.tower_file = run / "tower.pt"
        self.language_files = [run / f"language-{each.name}.pt" for each in LANGUAGE_RUNS]
        self.shipped = BuiltInFiles() if from_assets else None
        self.text_tokenizer = architecture.text_tokenizer()
        self.tokenizer = architecture.language_tokenizer()
        self.clip_config = architecture.clip_config(self.text_tokenizer)

    def _new_tower(self) -> tuple[tower.TowerTraining, int]:
        torch.manual_seed(0)
        clip = architecture.new_clip(self.clip_config)
        step = self.shipped.load_clip(clip, self.text_tokenizer) if self.shipped else 0
        return tower.TowerTraining(clip), step

    def _new_language(self, clip: open_clip.CLIP) -> tuple[language.LanguageTraining, int]:
        torch.manual_seed(1)
        llava = architecture.new_llava(clip, self.tokenizer)
        step = self.shipped.load_llava(llava, self.tokenizer) if self.shipped else 0
        return language.LanguageTraining(llava, clip.visual, self.tokenizer), step

    def trained_clip(self) -> tuple[open_clip.CLIP, int]:
        """The CLIP as its checkpoint, else the shipped files, has it; and its steps."""
        module, step = self._new_tower()
        step = checkpointed_module(module, self.tower_file) or step
        return module.clip.cpu().eval(), step

    def train_tower(self) -> None:
        module, step = self._new_tower()
        train(
            "tower", module, module.matrices(), TOWER_RATES,
            sum(phase.steps for phase in tower.PHASES),
            functools.partial(_tower_batch, tokenizer=self.text_tokenizer),
            lambda data, step: module(data, phase_at(tower.PHASES, step)),
            self.tower_file, self.device, self.workers, step,
        )  # fmt: skip

    def decoder(
        self, clip: open_clip.CLIP, trained: bool = False
    ) -> tuple[language.LanguageTraining, int]:
        """Projector and decoder and their steps: as the checkpoints, else the shipped files, have
        them, or ``trained`` to the end of the recipe."""
        module, step = self._new_language(clip)
        end = 0
        for run, checkpoint in zip(LANGUAGE_RUNS, self.language_files, strict=True):
            end += sum(phase.steps for phase in run.phases)
            if step >= end:
                continue  # shipped weights are that far
            before = {key: value.cpu().clone() for key, value in module.state_dict().items()}
            if trained:
                if run.balances:
                    module.attention_only()
                if run.balances and not checkpoint.exists():
                    module.begin_evening(run.phases[0], step, self.tokenizer)
                step = train(
                    "language", module,
                    () if run.balances else module.matrices(), run.rates, end,
                    functools.partial(_language_batch, tokenizer=self.tokenizer),
                    _of_any_step(module.balance_loss if run.balances else module),
                    checkpoint, self.device, self.workers, step,
                )  # fmt: skip
            elif checkpoint.exists():
                step = checkpointed_module(module, checkpoint)
            if run.averaged and step == end:
                after = module.state_dict()
                module.load_state_dict(
                    {key: (before[key].to(value) + value) / 2 for key, value in after.items()}
                )
        return module, step

    def export(self) -> None:
        """Writes ``assets/built-in`` from what the checkpoints hold."""
        clip, tower_steps = self.trained_clip()
        module, language_steps = self.decoder(clip)
        tower_of = module.llava.model.vision_tower.state_dict()
        for name, value in clip_vision_from_open_clip(clip)[1].state_dict().items():
            if not torch.equal(value, tower_of[name]):
                raise SystemExit(
                    "The decoder was trained on another tower than this CLIP's. "
                    f"Remove {', '.join(map(str, self.language_files))} and train it again."
                )
        before = self.shipped.log() if self.shipped else []
        log = whole_log(before, [self.tower_file, *self.language_files])
        BuiltInFiles().write(
            clip, self.clip_config, self.text_tokenizer,
            module.llava.cpu().eval(), architecture.processor(self.tokenizer),
            {"tower_steps": tower_steps, "language_steps": language_steps},
            log,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m spare_demo.scenes.train", description="Train the built-in model."
    )
    parser.add_argument("--run", type=Path, default=Path("runs/built-in"), help="checkpoints")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=0, help="processes that draw scenes")
    parser.add_argument("--from-assets", action="store_true", help="go on from the shipped weights")
    parser.add_argument("--export", action="store_true", help="write the files, train nothing")
    args = parser.parse_args()
    recipe = Recipe(args.run, torch.device(args.device), args.workers, args.from_assets)
    if not args.export:
        recipe.train_tower()
        recipe.decoder(recipe.trained_clip()[0], trained=True)
    recipe.export()


if __name__ == "__main__":
    main()
