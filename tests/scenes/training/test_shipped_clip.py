"""The CLIP in assets/built-in-clip is what today's recipe makes, and its log is complete."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import torch

from spare_demo.scenes.training.files import read_clip
from spare_demo.scenes.training.phases import TOWER, steps_of

FOLDER = Path(__file__).parents[3] / "assets" / "built-in-clip"


def test_it_is_of_todays_recipe() -> None:
    assert json.loads((FOLDER / "training.json").read_text()) == {
        "tower_steps": steps_of(TOWER),
        "tower_seed": 0,
        "tower_phases": [json.loads(json.dumps(dataclasses.asdict(phase))) for phase in TOWER],
    }


def test_its_log_is_complete() -> None:
    steps, log = steps_of(TOWER), (FOLDER / "training.log").read_text().splitlines()
    shown = [int(found[1]) for line in log if (found := re.match(r"tower (\d+)/.*  loss ", line))]
    assert shown == list(range(20, steps + 1, 20))
    reports = [line for line in log if "relevance, AUC" in line]
    assert len(reports) == len(TOWER) and reports[-1] == log[-1]


def test_it_can_be_read() -> None:
    clip = read_clip(FOLDER)
    assert all(torch.isfinite(value).all() for value in clip.state_dict().values())
