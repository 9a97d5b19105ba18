"""The training loop that both parts of the recipe share: seeded, resumable, one line of progress.

Batches depend on the seed and the step alone, and the log is part of the checkpoint. So a run that
was cut off and started again sees, does and says what an unbroken one would have; its log names the
stop. The curve shows every figure of the log over the steps.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from spare_demo.scenes.training.checkpoint import Checkpoint, reason
from spare_demo.scenes.training.muon import Muon
from spare_demo.scenes.training.phases import Phase, Rates

_SAVE_EVERY = 60.0  # seconds
_SHOW_EVERY = 20  # steps; a checkpoint is saved only then, so that a line is never of a part
_MOST_CANVASES = 1000  # of one step

Batch = dict[str, Tensor]


@dataclass
class Training:
    """One of the two trainings, of the CLIP or of projector and decoder, under way.

    Attributes:
        module: called with a batch and its phase; returns the loss and figures to be logged. Its
            `matrices` are the parameters that Muon trains.
        stream: which of the scenes are its own; no two trainings share one.
        make_batch: called with a phase and the number of the first scene.
        folder: of the checkpoint, the log and its curve.
        report: called at the end of every phase; returns a line for the log.
        origin: what the module starts from, where that is not the seed alone.
        step, log: the steps done and the log so far.
    """

    name: str
    module: Any
    rates: Rates
    phases: Sequence[Phase]
    stream: int
    make_batch: Callable[[Phase, int], Batch]
    folder: Path
    device: torch.device
    seed: int
    report: Callable[[], str] | None = None
    origin: str = ""
    step: int = 0
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.module.to(self.device).train()
        matrices = list(self.module.matrices())
        ours = {id(p) for p in matrices}
        rest = [p for p in self.module.parameters() if p.requires_grad and id(p) not in ours]
        muon = Muon(matrices, lr=self.rates.muon)
        adam = torch.optim.AdamW(rest, lr=self.rates.adam, betas=(0.9, 0.98), weight_decay=0.0)
        self.optimisers = [(muon, self.rates.muon), (adam, self.rates.adam)]
        self.schedule = [phase for phase in self.phases for _ in range(phase.steps)]
        self.steps = len(self.schedule)
        self.checkpoint = Checkpoint(self.folder / f"{self.name}.pt")
        self.recipe = f"seed {self.seed}, {', '.join(map(str, self.phases))}{self.origin}"
        if state := self.checkpoint.load():
            self._resume(state)

    def _resume(self, state: dict[str, Any]) -> None:
        if state["recipe"] != self.recipe:
            raise SystemExit(
                f"{self.checkpoint.path} is of another run: {state['recipe']}. "
                "Give the seed and the length that it was started with, or another --run folder."
            )
        self.module.load_state_dict(state["module"])
        for (optimiser, _), saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.step, self.log = state["step"], state["log"]
        if self.step < self.steps:
            self._write("resumed")

    def _save(self) -> bool:
        """Saves everything; where that fails, says what to do and returns False."""
        state = {
            "module": self.module.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser, _ in self.optimisers],
            **{"step": self.step, "log": self.log, "recipe": self.recipe},
        }
        try:
            self.checkpoint.save(state)
            (self.folder / f"{self.name}.log").write_text("\n".join(self.log) + "\n", "utf-8")
            write_curve(self.folder / f"{self.name}.svg", self.log)
        except OSError as error:
            print(f"Step {self.step} was not saved: {reason(error, self.folder)}.", flush=True)
            return False
        return True

    def _write(self, text: str) -> None:
        self.log.append(f"{self.name} {self.step}/{self.steps}  {text}")
        print(self.log[-1], flush=True)

    def _update(self, data: Batch, phase: Phase) -> dict[str, Tensor]:
        """One step. Returns its figures, still on the device."""
        factor = self.rates.at(self.step, self.steps)
        for optimiser, rate in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
        data = {key: value.to(self.device, non_blocking=True) for key, value in data.items()}
        # A processor without the instructions for it takes several times as long in half precision.
        halved = self.device.type != "cpu" or "AVX512" in torch.backends.cpu.get_cpu_capability()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=halved):
            loss, figures = self.module(data, phase)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        for optimiser, _ in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        self.step += 1
        return {"loss": loss.detach()} | {key: value.detach() for key, value in figures.items()}

    def run(self, workers: int) -> None:
        """Trains to the end. Raises SystemExit if that could not be saved."""
        if self.step == self.steps:
            return
        start = (2 * self.seed + self.stream) * 10**9
        draws: Any = [(phase, start + i * _MOST_CANVASES) for i, phase in enumerate(self.schedule)]
        batches: DataLoader[Batch] = DataLoader(
            draws[self.step :],
            batch_size=None,
            collate_fn=functools.partial(_drawn, self.make_batch),
            num_workers=workers,
            prefetch_factor=8 if workers else None,
            pin_memory=self.device.type == "cuda",
        )
        ends = list(itertools.accumulate(phase.steps for phase in self.phases))
        shown: list[dict[str, Tensor]] = []
        began = saved_at = time.monotonic()
        first, is_saved = self.step, True
        for data in batches:
            phase = self.schedule[self.step]
            shown.append(self._update(data, phase))
            is_end = self.step in ends
            if self.step % _SHOW_EVERY and not is_end:
                continue
            pace = (time.monotonic() - began) / (self.step - first)
            self._write(f"{phase.name}  {_means(shown)}  {pace:.2f} s/step")
            shown = []
            if is_end and self.report:
                self._write(self.report())
            if is_end or time.monotonic() - saved_at > _SAVE_EVERY:
                is_saved, saved_at = self._save(), time.monotonic()
        if not is_saved:
            raise SystemExit(
                f"The end of {self.name} could not be saved to {self.folder}. "
                "Free some space and run the same command again: it resumes at the last checkpoint."
            )


def _drawn(make_batch: Callable[[Phase, int], Batch], step: tuple[Phase, int]) -> Batch:
    return make_batch(*step)


def _means(figures: list[dict[str, Tensor]]) -> str:
    """The mean of each figure over steps; those of a batch that has none of it, NaN, are left out.

    Figures leave the device here alone, so that it need not wait at every step.
    """
    texts = []
    for name in figures[-1]:
        values = torch.stack([step[name].float() for step in figures if name in step])
        texts.append(f"{name} {values.nanmean().item():.3f}")
    return "  ".join(texts)


def figures_of(log: list[str]) -> dict[str, list[tuple[int, float]]]:
    """Each figure of a log's lines, "name step/steps  phase  figure value  …": steps and values."""
    figures: dict[str, list[tuple[int, float]]] = {}
    for line in log:
        if head := re.match(r"\w+ (\d+)/\d+  ", line):
            for name, value in re.findall(r"  (\w+) (-?\d+\.\d+)(?=  )", line):
                figures.setdefault(name, []).append((int(head[1]), float(value)))
    return figures


def write_curve(file: Path, log: list[str]) -> None:
    """Writes an SVG file, one band to a figure, from the smallest value to the largest."""
    width, height, margin = 900, 90, 40
    figures = figures_of(log)
    last = max((steps for points in figures.values() for steps, _ in points), default=1)
    top, parts = margin, []
    for name, points in figures.items():
        values = [value for _, value in points]
        low, high = min(values), max(values)
        scale = height / (high - low or 1.0)
        line = " ".join(f"{s / last * width:.1f},{top + (high - v) * scale:.1f}" for s, v in points)
        title = f"{name}: {low:.3f} to {high:.3f}, at step {points[-1][0]} {values[-1]:.3f}"
        parts.append(f'<text x="0" y="{top - 8}">{escape(title)}</text>')
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1f5fbf"/>')
        top += height + margin
    size = f'viewBox="0 0 {width} {top}" width="{width}" height="{top}"'
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n',
        encoding="utf-8",
    )
