"""The weights in assets/built-in are what today's recipe makes, and their logs are complete."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.train import LENGTH_ON_CUDA
from spare_demo.scenes.training.files import read_clip, read_history
from spare_demo.scenes.training.phases import DECODER, TOWER, Phase, lengthened

FOLDER = ASSETS / "built-in"
LONGER = lengthened(DECODER, LENGTH_ON_CUDA)
"""Projector and decoder were trained on a GPU."""


def steps_of(phases: Sequence[Phase]) -> int:
    return sum(phase.steps for phase in phases)


def told(phases: Sequence[Phase]) -> list[dict]:
    return [json.loads(json.dumps(dataclasses.asdict(phase))) for phase in phases]


def shown(log: Path, part: str) -> list[int]:
    """The steps whose figures a log shows."""
    lines = log.read_text().splitlines()
    return [int(found[1]) for x in lines if (found := re.match(rf"{part} (\d+)/.*  loss ", x))]


def expected(phases: Sequence[Phase]) -> list[int]:
    """Every twentieth, and the end of each phase."""
    ends = itertools.accumulate(phase.steps for phase in phases)
    return sorted({*range(20, steps_of(phases) + 1, 20), *ends})


def test_they_are_of_todays_recipe() -> None:
    assert read_history(FOLDER) == {
        "tower_steps": steps_of(TOWER),
        "tower_seed": 0,
        "tower_phases": told(TOWER),
        "language_steps": steps_of(LONGER),
        "language_seed": 0,
        "language_phases": told(LONGER),
    }


def test_their_logs_are_complete() -> None:
    assert shown(FOLDER / "clip" / "training.log", "tower") == expected(TOWER)
    assert shown(FOLDER / "training.log", "decoder") == expected(LONGER)
    log = (FOLDER / "clip" / "training.log").read_text().splitlines()
    reports = [line for line in log if "relevance, AUC" in line]
    assert len(reports) == len(TOWER) and reports[-1] == log[-1]


def test_the_clip_can_be_read() -> None:
    clip = read_clip(FOLDER / "clip")
    assert all(torch.isfinite(value).all() for value in clip.state_dict().values())
