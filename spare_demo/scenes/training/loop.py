"""The training loop that both parts of the recipe share: seeded, resumable, one line of progress.

A checkpoint holds weights, optimisers, the step and the log, and is replaced in one move, so that
being cut off at any moment loses at most a minute. Batches depend on the step alone, so a resumed
run sees what an unbroken one would have.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

_SAVE_EVERY = 60.0  # seconds
_SHOW_EVERY = 20  # steps


@dataclass(frozen=True)
class Rates:
    """Learning rates of Muon (matrices) and AdamW (the rest).

    They rise over ``warm_up`` steps and fall over the last ``decay`` share of the run.
    """

    muon: float
    adam: float
    warm_up: int = 100
    decay: float = 0.35

    def at(self, step: int, steps: int, warm_from: int = 0) -> float:
        """The factor on both rates at a step of ``steps``, warmed up from ``warm_from``."""
        left = (steps - step) / (self.decay * steps)
        return min(1.0, (step - warm_from + 1) / self.warm_up, max(left, 0.02))


class _Batches(Dataset):
    def __init__(self, make: Callable[[int], dict[str, Tensor]], start: int, steps: int) -> None:
        self.make, self.start, self.steps = make, start, steps

    def __len__(self) -> int:
        return self.steps - self.start

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.make(self.start + index)


def _optimisers(
    module: nn.Module, matrices: Iterable[nn.Parameter], rates: Rates
) -> list[tuple[torch.optim.Optimizer, float]]:
    """Those of what is trained at all, each with its rate."""
    matrices = [p for p in matrices if p.requires_grad]
    ours = {id(p) for p in matrices}
    rest = [p for p in module.parameters() if p.requires_grad and id(p) not in ours]
    found: list[tuple[torch.optim.Optimizer, float]] = []
    if matrices:
        muon = torch.optim.Muon(
            matrices, lr=rates.muon, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"
        )
        found.append((muon, rates.muon))
    if rest:
        adam = torch.optim.AdamW(rest, lr=rates.adam, betas=(0.9, 0.98), weight_decay=0.0)
        found.append((adam, rates.adam))
    return found


def _save(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def checkpointed_module(module: nn.Module, checkpoint: Path) -> int:
    """Fills ``module`` from a checkpoint and returns its step; 0, untouched, without one."""
    if not checkpoint.exists():
        return 0
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    module.load_state_dict(state["module"])
    return int(state["step"])


def log_of(checkpoint: Path) -> list[str]:
    """The lines that the run of a checkpoint has printed so far; none without one."""
    if not checkpoint.exists():
        return []
    log: list[str] = torch.load(checkpoint, map_location="cpu", weights_only=True).get("log", [])
    return log


def train(
    name: str,
    module: nn.Module,
    matrices: Iterable[nn.Parameter],
    rates: Rates,
    steps: int,
    make_batch: Callable[[int], dict[str, Tensor]],
    loss_of: Callable[[dict[str, Tensor], int], tuple[Tensor, dict[str, float]]],
    checkpoint: Path,
    device: torch.device,
    workers: int,
    first_step: int = 0,
) -> int:
    """Runs to ``steps`` from the checkpoint, else from ``first_step``. Returns the last step done.

    ``first_step`` is for a module that already holds trained weights (those in ``assets/``): it
    goes on from there with a fresh optimiser.
    """
    module.to(device).train()
    optimisers = _optimisers(module, matrices, rates)
    warm_from = first_step
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        module.load_state_dict(state["module"])
        for (optimiser, _), saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        first_step = state["step"]
        warm_from = 0  # the optimisers are warm already
    log = log_of(checkpoint)
    if first_step >= steps:
        return first_step

    def save(step: int) -> None:
        parts = [optimiser.state_dict() for optimiser, _ in optimisers]
        state = {"module": module.state_dict(), "optimisers": parts, "step": step, "log": log}
        _save(checkpoint, state)

    batches = DataLoader(
        _Batches(make_batch, first_step, steps),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
    )
    # A processor without the instructions for it takes several times as long in half precision.
    halved = device.type != "cpu" or "AVX512" in torch.backends.cpu.get_cpu_capability()
    started = saved_at = time.monotonic()
    averages: dict[str, float] = {}
    for step, data in enumerate(batches, first_step):
        for optimiser, rate in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * rates.at(step, steps, warm_from)
        data = {key: value.to(device, non_blocking=True) for key, value in data.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=halved):
            loss, metrics = loss_of(data, step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for optimiser, _ in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        for key, value in {"loss": loss.item(), **metrics}.items():
            if value == value:  # a batch without a single word has no share of words right
                averages[key] = 0.95 * averages.get(key, value) + 0.05 * value
        if (step + 1) % _SHOW_EVERY == 0 or step + 1 == steps:
            pace = (time.monotonic() - started) / (step + 1 - first_step)
            figures = "  ".join(f"{key} {value:.3f}" for key, value in averages.items())
            left = pace * (steps - step - 1) / 60
            log.append(f"{name} {step + 1}/{steps}  {figures}  {pace:.2f} s/step")
            print(f"{log[-1]}  {left:.0f} min left", flush=True)
        if time.monotonic() - saved_at > _SAVE_EVERY:
            save(step + 1)
            saved_at = time.monotonic()
    save(steps)
    return steps
