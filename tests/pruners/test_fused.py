"""The fused steps against the plain loop: interpreted on the CPU, compiled on CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from spare_demo.pruners import PRUNERS, fused, greedy, plain

pytest.importorskip("triton", reason="needs Triton, which torch brings where it runs on CUDA")


def case(seed: int, n: int, d: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows (2, n, d), start (2, n) and merit (3, 2, n) of one of five kinds, by seed."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(2, n, d, generator=g)
    kind = seed % 5
    if kind == 1:  # ties: every row twice, weights alike
        x = x[:, torch.arange(n) // 2]
    elif kind == 2:  # rank 3, and zero tokens
        x = x[..., :3] @ torch.randn(3, d, generator=g)
        x[:, ::4] = 0
    elif kind == 3:
        x = x.half()
    elif kind == 4:
        x = x.bfloat16()
    rows = x.double()
    length = rows.norm(dim=-1, keepdim=True)
    rows = rows / length.masked_fill(length == 0, 1)
    merit = torch.rand(3, 2, n, generator=g, dtype=torch.float64)
    merit[0] = 1
    merit[1, :, ::3] = 0
    return rows, (length[..., 0] > 0).double(), merit


def test_a_step_stands_only_above_the_rounding_of_what_is_picked_after_it() -> None:
    """The kernel goes on past it, where the plain loop ends by itself."""
    order, value = torch.tensor([[[0, 1, 2]]]), torch.tensor([[[1.0, 1e-7, 1e-7]]])
    for reach in ([1.0, 1e-7, 1.0, 1e-8], [1.0, 1e-7, 1e-8, 1.0]):
        assert greedy._num_valid_steps(order, value, torch.tensor([[reach]])).item() == 1


def assert_same(
    found: tuple[torch.Tensor, ...], rows: torch.Tensor, start: torch.Tensor, merit: torch.Tensor
) -> None:
    """The steps that stand are the plain loop's, and as many stand."""
    k = found[0].shape[-1]
    expected = plain.steps(rows, start, merit, k)
    num_valid_steps = greedy._num_valid_steps(*expected[:2], merit * start)
    assert torch.equal(greedy._num_valid_steps(found[0], found[1], merit * start), num_valid_steps)
    good = torch.arange(k) < num_valid_steps[..., None]
    assert torch.equal(found[0][good], expected[0][good])
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(ours[good], theirs[good], rtol=1e-9, atol=1e-12)


def interpreted(seeds: range, n: int, d: int, k: int) -> int:
    """Cases at once by Triton's interpreter, which runs in programs started with
    TRITON_INTERPRET=1; how many runs they were."""
    cases = [case(seed, n, d) for seed in seeds]
    rows, start, merit = (
        torch.cat([each[part] for each in cases], dim=dim) for part, dim in enumerate((0, 0, 1))
    )
    found = fused.steps(rows, start, merit, k)
    assert_same(found, rows, start, merit)
    return merit.shape[0] * merit.shape[1]


@pytest.mark.parametrize("cases", [3, pytest.param(167, marks=pytest.mark.long)])
def test_runs_of_the_interpreted_kernel_are_the_plain_loops(cases: int) -> None:
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, __file__, str(cases)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{6 * cases + 12} runs agree\n"), done.stderr


def test_a_kernel_that_does_not_run_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    fused._runs.cache_clear()
    monkeypatch.setattr(fused, "steps", fail)
    error: Exception = torch.OutOfMemoryError("CUDA out of memory.")  # says nothing of the kernel
    with pytest.raises(torch.OutOfMemoryError):
        fused.available(torch.device("cpu"))
    assert fused._runs.cache_info().currsize == 0
    error = RuntimeError("no C compiler")
    assert not fused.available(torch.device("cpu"))
    fused._runs.cache_clear()


@pytest.mark.parametrize("n", [1, 15, 16])
def test_all_steps_run_what_one_step_compiles(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Triton compiles a kernel anew where another tensor begins at a multiple of 16 bytes."""
    aligned: list[tuple[bool, ...]] = []

    class Recorder:
        def __getitem__(self, grid: object) -> Callable[..., None]:
            def launch(*arguments: object, **_: object) -> None:
                tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
                aligned.append(tuple(each.data_ptr() % 16 == 0 for each in tensors))

            return launch

    monkeypatch.setattr(fused, "_step", Recorder())
    rows = torch.ones(1, n, 2, dtype=torch.float64)
    fused.steps(rows, torch.ones(1, n).double(), torch.ones(1, 1, n).double(), 4)
    assert len(aligned) == 4 and len(set(aligned)) == 1


def test_a_model_is_warmed_up_for_views_of_the_size_that_it_has(
    tiny_next: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is compiled for the number of tokens; those of all views are never chosen from."""
    chosen: list[torch.Size] = []

    def steps(*arguments: Any) -> tuple[torch.Tensor, ...]:
        chosen.append(arguments[0].shape[1:])
        return plain.steps(*arguments)

    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(fused, "available", lambda device: True)
    monkeypatch.setattr(fused, "steps", steps)
    monkeypatch.setattr(greedy, "_replay", greedy._one_round)
    monkeypatch.setattr(tiny_next, "has_language_model", False)
    tiny_next.warm_up()
    warm = set(chosen)
    view = tiny_next.encode(Image.new("RGB", (200, 200)), "What is this?")
    PRUNERS["spare"].select(view.tokens, view.tokens.n)
    assert set(chosen) == warm and warm


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_thousand_cases_on_a_gpu() -> None:
    for seed in range(1000):
        n = 1 + seed * 7 % 90
        rows, start, merit = case(seed, n, 2 + seed % 50)
        gpu = [part.cuda() for part in (rows, start, merit)]
        # Few shapes, or every case would be compiled and captured anew.
        found = fused.steps(gpu[0], gpu[1], gpu[2], min(n, 12))
        assert_same(tuple(part.cpu() for part in found), rows, start, merit)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_without_triton_the_plain_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1, 40, 30, device="cuda")
    merit = torch.rand(1, 40, device="cuda") + 0.1
    with_it = greedy.greedy(x, merit, 20).order
    monkeypatch.setattr(fused, "triton", None)
    assert torch.equal(greedy.greedy(x, merit, 20).order, with_it)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_model_is_loaded_with_the_kernel_compiled(tiny_folder: Path) -> None:
    from spare_demo.models import load_model

    fused._runs.cache_clear()
    load_model(str(tiny_folder), device="cuda")
    assert fused._runs.cache_info().currsize == 1


if __name__ == "__main__":
    runs = interpreted(range(int(sys.argv[1])), n=12, d=5, k=4)
    runs += interpreted(range(1), n=70, d=30, k=18)  # more columns than a program, more steps
    runs += interpreted(range(1), n=1, d=2, k=1)
    print(f"{runs} runs agree")
