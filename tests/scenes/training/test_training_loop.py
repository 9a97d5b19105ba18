"""The loop: interrupted at any moment, it ends where an unbroken run ends."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spare_demo.scenes.training import loop
from spare_demo.scenes.training.checkpoint import Checkpoint
from spare_demo.scenes.training.loop import Training, figures_of
from spare_demo.scenes.training.phases import DECODER, TOWER, Phase, Rates, lengthened
from spare_demo.scenes.world import World

STEPS = 7
PHASES = (Phase("early", 4, 8, 1, World(), 1.0), Phase("late", 3, 8, 1, World(), 0.0))
RATES = Rates(muon=0.02, adam=0.01, fall=0.35, warm_up=4)  # some breaks come during the warm-up
CPU = torch.device("cpu")


class CutOff(Exception):
    pass


class Small(nn.Module):
    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Linear(5, 6), nn.GELU(), nn.Linear(6, 3))
        self.stop_at, self.taken = stop_at, []

    def matrices(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.ndim == 2]

    def forward(self, data: dict[str, Tensor], phase: Phase) -> tuple[Tensor, dict[str, Tensor]]:
        step = int(data["step"])
        if step == self.stop_at:
            raise CutOff
        self.taken.append((step, phase.name))
        loss = nn.functional.cross_entropy(self.layers(data["x"]), data["y"])
        return loss, {"nothing": torch.tensor(torch.nan)}


def make_batch(phase: Phase, first: int) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(first)
    step = torch.tensor(first % 10**9 // 1000)
    x, y = torch.randn(8, 5, generator=rng), torch.randint(3, (8,), generator=rng)
    return {"x": x, "y": y, "step": step}


def training(folder: Path, module: Small, seed: int = 0) -> Training:
    parts = ("test", module, RATES, PHASES, 0, make_batch, folder, CPU, seed)
    return Training(*parts, report=lambda: "report of a phase")


def run(folder: Path, module: Small, workers: int = 0) -> list[str]:
    """Trains; returns the log."""
    under_way = training(folder, module)
    under_way.run(workers)
    return under_way.log


@pytest.fixture
def saves_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_SAVE_EVERY", -1.0)
    monkeypatch.setattr(loop, "_SHOW_EVERY", 1)


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def without_pace(log: list[str]) -> list[str]:
    return [line.rsplit("  ", 1)[0] if line.endswith("s/step") else line for line in log]


def test_a_run_cut_off_and_resumed_ends_with_the_same_weights_and_log(
    tmp_path: Path, saves_often: None
) -> None:
    whole = Small()
    log = run(tmp_path / "whole", whole)
    assert whole.taken == [(s, "early" if s < 4 else "late") for s in range(STEPS)]
    broken = tmp_path / "broken"
    for stop in (3, 5):
        with pytest.raises(CutOff):
            run(broken, Small(stop_at=stop))
    resumed = Small()
    resumed_log = run(broken, resumed)
    assert [step for step, _ in resumed.taken] == [5, 6]
    assert same(whole, resumed) and not same(whole, Small())
    stops = [line for line in resumed_log if line.endswith("  resumed")]
    assert stops == ["test 3/7  resumed", "test 5/7  resumed"]
    assert without_pace([line for line in resumed_log if line not in stops]) == without_pace(log)
    assert [line.split("  ")[1] for line in log] == [
        *["early"] * 4, "report of a phase", *["late"] * 3, "report of a phase",
    ]  # fmt: skip
    names = ["test.before.pt", "test.log", "test.pt", "test.svg"]
    assert sorted(path.name for path in broken.iterdir()) == names
    assert (broken / "test.log").read_text().splitlines() == resumed_log
    assert [step for step, _ in figures_of(log)["loss"]] == list(range(1, STEPS + 1))
    assert "polyline" in (broken / "test.svg").read_text()


def test_scenes_drawn_ahead_by_other_processes_are_the_same(tmp_path: Path) -> None:
    one, other = Small(), Small()
    run(tmp_path / "one", one)
    run(tmp_path / "other", other, workers=2)
    assert same(one, other)


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    module, again = Small(), Small()
    run(tmp_path, module)
    run(tmp_path, again)
    assert again.taken == [] and same(module, again)


def test_what_is_shown_is_the_mean_over_the_steps_since(tmp_path: Path) -> None:
    lines = run(tmp_path, Small())
    assert [line.split("  ")[0] for line in lines] == ["test 4/7"] * 2 + ["test 7/7"] * 2
    figures = [{"a": torch.tensor(1.0)}, {"a": torch.tensor(4.0)}, {"a": torch.tensor(torch.nan)}]
    assert loop._means(figures) == "a 2.500"


def test_another_seed_does_not_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    run(tmp_path, Small())
    with pytest.raises(SystemExit, match=r"seed 0[\s\S]*another --run folder"):
        training(tmp_path, Small(), seed=1)


@pytest.mark.parametrize("before", [True, False])
def test_a_checkpoint_cut_at_any_byte_gives_way_to_the_one_before(
    tmp_path: Path, before: bool
) -> None:
    checkpoint = Checkpoint(tmp_path / "run.pt")
    assert checkpoint.load() is None
    if before:
        checkpoint.save({"step": 1, "weights": torch.arange(50)})
    checkpoint.save({"step": 2, "weights": torch.arange(50)})
    content = checkpoint.path.read_bytes()
    for length in (*range(0, len(content), 97), len(content) - 1):
        checkpoint.path.write_bytes(content[:length])
        if before:
            assert checkpoint.load()["step"] == 1
        else:
            with pytest.raises(SystemExit, match="Remove them"):
                checkpoint.load()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    checkpoint.path.write_bytes(flipped)
    if before:
        checkpoint.save({"step": 3})  # the damaged one does not take the place of the whole one
        assert checkpoint.load()["step"] == 3
        checkpoint.path.unlink()
        assert checkpoint.load()["step"] == 1


@pytest.mark.parametrize("full_from", [1, 2])
def test_a_full_disk_loses_no_checkpoint_and_says_what_to_do(
    tmp_path: Path,
    saves_often: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    full_from: int,
) -> None:
    writes = 0
    fsync = loop.Checkpoint.save.__globals__["os"].fsync

    def full(descriptor: int) -> None:
        nonlocal writes
        writes += 1
        if writes >= full_from:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", full)
    module = Small()
    with pytest.raises(SystemExit, match="run the same command again"):
        run(tmp_path, module)
    assert len(module.taken) == STEPS  # it went on
    assert "the disk is full. Free some space" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.part"))
    monkeypatch.undo()
    resumed = Small()
    run(tmp_path, resumed)
    assert len(resumed.taken) == STEPS - (full_from - 1)
    assert same(module, resumed)


def test_rates_rise_stay_and_fall() -> None:
    rates = Rates(muon=1, adam=1, warm_up=10, fall=0.5)
    factors = [rates.at(step, 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9:51] == [1.0] * 42
    assert factors[51:] == sorted(factors[51:], reverse=True)
    assert 0 < factors[-1] <= 0.02
    early = Rates(muon=1, adam=1, warm_up=10, fall=0.5, fallen=0.7)
    assert {early.at(step, 100) for step in range(10, 20)} == {1.0}
    assert early.at(45, 100) == pytest.approx(0.5)
    assert {early.at(step, 100) for step in range(70, 100)} == {0.02}


@pytest.mark.parametrize(("instructions", "halved"), [("AVX2", False), ("AVX512", True)])
def test_half_precision_is_for_processors_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instructions: str, halved: bool
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    module, found = Small(), set()
    module.layers.register_forward_hook(lambda _, __, out: found.add(out.dtype))
    run(tmp_path, module)
    assert found == {torch.bfloat16 if halved else torch.float32}


@pytest.mark.parametrize("phases", [TOWER, DECODER])
def test_a_longer_recipe_is_the_same_phases(phases: tuple[Phase, ...]) -> None:
    assert len(phases) == 3
    steps = sum(phase.steps for phase in phases)
    shorter = sum(phase.steps for phase in lengthened(phases, 0.1))
    assert shorter == pytest.approx(0.1 * steps, abs=2)
    assert [phase.steps for phase in lengthened(phases, 3)] == [3 * p.steps for p in phases]


def test_captions_alone_make_the_last_third_of_the_clip() -> None:
    without = [phase for phase in TOWER if not phase.patch_loss]
    assert without == [TOWER[-1]]
    assert without[0].steps >= sum(phase.steps for phase in TOWER) / 3
