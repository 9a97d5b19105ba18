"""The whole recipe at toy size: from nothing to a model's files, cut off twice on its way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

from spare_demo.models import load_model
from spare_demo.scenes import train
from spare_demo.scenes.draw import draw
from spare_demo.scenes.training import architecture, loop, tower
from spare_demo.scenes.training.files import read_history
from spare_demo.scenes.training.loop import Training
from spare_demo.scenes.training.phases import DECODER, TOWER, replace
from spare_demo.scenes.world import World, rng_of, sample_scene

STEPS = 12  # of each of six phases


class CutOff(Exception):
    pass


@pytest.fixture
def toy(
    tiny_sizes: None,
    text_tokenizer: PreTrainedTokenizerFast,
    language_tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(architecture, "text_tokenizer", lambda: text_tokenizer)
    monkeypatch.setattr(architecture, "language_tokenizer", lambda: language_tokenizer)
    monkeypatch.setattr(tower, "_QUESTIONS", 3)
    monkeypatch.setattr(loop, "_SAVE_EVERY", -1.0)
    monkeypatch.setattr(loop, "_SHOW_EVERY", STEPS // 2)


def run(folder: Path, seed: int = 0, clip: Path | None = None) -> dict[str, torch.Tensor]:
    """Trains; returns all weights written."""
    phases = tuple(
        tuple(
            replace(phase, steps=STEPS, batch=2, cells=min(phase.cells, 8), questions=4)
            for phase in part
        )
        for part in (TOWER, DECODER)
    )
    device = torch.device("cpu")
    train.train_built_in(folder / "run", folder / "out", phases, device, 0, seed, clip)
    files = sorted((folder / "out").rglob("*.safetensors"))
    return {f"{file.name} {key}": value for file in files for key, value in load_file(file).items()}


def test_a_run_cut_off_twice_leaves_the_weights_of_an_uncut_one(
    tmp_path: Path, toy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(tmp_path / "whole")
    update, taken = Training._update, 0

    def cut(self: Training, *batch: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken in (21, 21 + 39):  # in the CLIP's second phase, and in the decoder's
            raise CutOff
        return update(self, *batch)

    monkeypatch.setattr(Training, "_update", cut)
    for _ in range(2):
        with pytest.raises(CutOff):
            run(tmp_path / "cut")
    resumed = run(tmp_path / "cut")
    assert taken < 2 * 6 * STEPS
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name

    # Projector and decoder alone, as on a machine that has no more than the CLIP's files.
    second = run(tmp_path / "second", clip=tmp_path / "whole" / "out" / "clip")
    for name, value in whole.items():
        assert torch.equal(value, second[name]), name

    out = tmp_path / "cut" / "out"
    of_clip = (out / "clip" / "training.log").read_text()
    assert of_clip.count("relevance, AUC: layer -2") == 3
    log = of_clip + (out / "training.log").read_text()
    assert f"decoder {3 * STEPS}/{3 * STEPS}" in log
    history = read_history(out)
    assert history["tower_steps"] == history["language_steps"] == 3 * STEPS
    model = load_model(str(out), device="cpu")
    picture = draw(sample_scene(World(), rng_of("page", 0)))
    assert model.answer(model.encode(picture, "Where is the star?"), max_new_tokens=2).token_ids
    losses = [
        float(line.split("  loss ")[1].split()[0]) for line in log.splitlines() if "loss" in line
    ]
    assert np.mean(losses[:2]) > np.mean(losses[4:6])  # the CLIP's falls, and the decoder's
    assert np.mean(losses[6:8]) > np.mean(losses[-2:])


def test_a_folder_without_a_trained_clip_is_refused(tmp_path: Path, toy: None) -> None:
    with pytest.raises(SystemExit, match="no CLIP that this command trained"):
        run(tmp_path, clip=tmp_path / "clip")
