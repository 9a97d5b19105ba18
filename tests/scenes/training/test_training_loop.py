"""The loop: cut off at any moment, it ends where an unbroken run ends."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.train import LANGUAGE_PHASES, LANGUAGE_RUNS, Recipe, phase_at, whole_log
from spare_demo.scenes.training import loop, tower

STEPS = 7
RATES = loop.Rates(muon=0.02, adam=0.01, warm_up=4)  # some breaks come during the warm-up


class CutOff(Exception):
    pass


def new_module() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 3))


def make_batch(step: int) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(step)
    return {"x": torch.randn(8, 5, generator=rng), "y": torch.randint(3, (8,), generator=rng)}


def run(checkpoint: Path, module: nn.Module, stop_at: int | None = None) -> list[int]:
    """Trains; returns the steps taken in this run."""
    taken: list[int] = []

    def loss_of(data: dict[str, Tensor], step: int) -> tuple[Tensor, dict[str, float]]:
        if step == stop_at:
            raise CutOff
        taken.append(step)
        return nn.functional.cross_entropy(module(data["x"]), data["y"]), {"nothing": float("nan")}

    matrices = [p for p in module.parameters() if p.ndim == 2]
    done = loop.train(
        "test", module, matrices, RATES, STEPS, make_batch, loss_of,
        checkpoint, torch.device("cpu"), workers=0,
    )  # fmt: skip
    assert done == STEPS
    return taken


def test_a_run_cut_off_and_resumed_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_SAVE_EVERY", -1.0)  # after every step
    monkeypatch.setattr(loop, "_SHOW_EVERY", 2)
    whole = new_module()
    assert run(tmp_path / "whole.pt", whole) == list(range(STEPS))

    checkpoint = tmp_path / "broken.pt"
    with pytest.raises(CutOff):
        run(checkpoint, new_module(), stop_at=3)
    with pytest.raises(CutOff):
        run(checkpoint, new_module(), stop_at=5)
    resumed = new_module()
    assert run(checkpoint, resumed) == [5, 6]

    start = new_module().state_dict()
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name
        assert not torch.equal(weight, start[name]), f"{name} was not trained"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.pt", "whole.pt"]

    log = loop.log_of(checkpoint)
    assert [line.split("  ")[0] for line in log] == ["test 2/7", "test 4/7", "test 6/7", "test 7/7"]
    assert len(loop.log_of(tmp_path / "whole.pt")) == len(log)
    assert loop.log_of(tmp_path / "none.pt") == []


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    module = new_module()
    run(tmp_path / "run.pt", module)
    again = new_module()
    assert run(tmp_path / "run.pt", again) == []
    read = new_module()
    assert loop.checkpointed_module(read, tmp_path / "run.pt") == STEPS
    for one, two, three in zip(
        module.parameters(), again.parameters(), read.parameters(), strict=True
    ):
        assert torch.equal(one, two) and torch.equal(one, three)
    assert loop.checkpointed_module(read, tmp_path / "none.pt") == 0


def test_rates_rise_stay_and_fall() -> None:
    rates = loop.Rates(muon=1, adam=1, warm_up=10, decay=0.5)
    factors = [rates.at(step, 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9:51] == [1.0] * 42
    assert factors[51:] == sorted(factors[51:], reverse=True)
    assert 0 < factors[-1] <= 0.02


def test_fresh_optimisers_warm_up_where_they_start() -> None:
    rates = loop.Rates(muon=1, adam=1, warm_up=10, decay=0.5)
    assert rates.at(40, 100, warm_from=40) == pytest.approx(0.1)
    assert rates.at(49, 100, warm_from=40) == 1.0


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_what_is_frozen_stays_and_the_rest_learns(tmp_path: Path, frozen: str) -> None:
    module = new_module()
    before = {name: value.clone() for name, value in module.named_parameters()}
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.endswith(frozen))
    run(tmp_path / "any.pt", module)
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, before[name]) == name.endswith(frozen)


@pytest.mark.parametrize(("instructions", "halved"), [("AVX2", False), ("AVX512", True)])
def test_half_precision_is_for_processors_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instructions: str, halved: bool
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    module, found = new_module(), set()
    module.register_forward_hook(lambda _, __, out: found.add(out.dtype))
    run(tmp_path / "any.pt", module)
    assert found == {torch.bfloat16 if halved else torch.float32}


def test_the_log_goes_on_where_the_shipped_one_ends(tmp_path: Path) -> None:
    files = [tmp_path / "tower.pt", tmp_path / "first.pt", tmp_path / "fair.pt"]
    torch.save({"log": ["two", "three"]}, files[1])
    torch.save({"step": 3}, files[2])  # of a time that kept no log
    log = whole_log(["one"], files)
    assert log == ["one", "two", "three"]
    assert whole_log(log, files) == log


def test_the_second_and_the_third_run_are_taken_by_half(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, torch.device("cpu"), 0, from_assets=False)
    clip, _ = recipe.trained_clip()
    module, step = recipe.decoder(clip)
    assert step == 0
    name = "llava.model.multi_modal_projector.linear_1.weight"
    start = module.state_dict()[name].clone()
    ends = list(accumulate(sum(phase.steps for phase in run.phases) for run in LANGUAGE_RUNS))

    def leave(run: int, off: float, step: int) -> None:
        state = module.state_dict() | {name: start + off}
        torch.save({"module": state, "step": step}, recipe.language_files[run])

    def found() -> tuple[float, int]:
        there, steps = recipe.decoder(clip)
        return float((there.state_dict()[name] - start).mean()), steps

    leave(0, 1.0, ends[0])
    assert found() == (pytest.approx(1.0, abs=1e-5), ends[0])
    leave(1, 4.0, ends[1] - 1)  # broken off: not yet a mean
    assert found() == (pytest.approx(4.0, abs=1e-5), ends[1] - 1)
    leave(1, 4.0, ends[1])
    assert found() == (pytest.approx(2.5, abs=1e-5), ends[1])
    leave(2, 4.5, ends[2])
    assert found() == (pytest.approx(3.5, abs=1e-5), ends[2])
    leave(3, 5.0, ends[3])  # the last is taken as it is
    assert found() == (pytest.approx(5.0, abs=1e-5), ends[3])


def test_shipped_weights_have_seen_whole_runs() -> None:
    steps = json.loads((ASSETS / "built-in" / "training.json").read_text())
    assert steps["tower_steps"] == sum(phase.steps for phase in tower.PHASES)
    ends = accumulate(sum(phase.steps for phase in run.phases) for run in LANGUAGE_RUNS)
    assert steps["language_steps"] in ends


@pytest.mark.parametrize("phases", [tower.PHASES, LANGUAGE_PHASES])
def test_every_step_belongs_to_its_phase(phases: tuple) -> None:
    steps = sum(phase.steps for phase in phases)
    told = [phase_at(phases, step) for step in range(steps)]
    assert told == [phase for phase in phases for _ in range(phase.steps)]
    assert phase_at(phases, steps) is phases[-1]
