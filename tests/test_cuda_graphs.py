"""What is replayed against what is run, with graphs that a CPU can have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from spare_demo import cuda_graphs
from spare_demo.cuda_graphs import Replay
from spare_demo.pruners import fused, greedy


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a GPU is told to do, where there is none."""
    told: list[str] = []

    def capture(run: Callable[[], None], *_: Any, **__: Any) -> Any:
        told.append("capture")

        def replay() -> None:
            told.append("replay")
            run()

        return SimpleNamespace(replay=replay)

    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(cuda_graphs, "capture_graph", capture)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    return told


def twice_and_sum(x: Tensor, times: int = 2) -> tuple[Tensor, ...]:
    return times * x, x.sum()


def test_a_shape_is_captured_when_it_comes_again(told: list[str]) -> None:
    replay = Replay(twice_and_sum)
    for value, expected in ((1.0, []), (2.0, ["capture", "replay"]), (3.0, ["replay"])):
        told.clear()
        doubled, total = replay(torch.full((4,), value))
        assert (doubled.tolist(), float(total), told) == ([2 * value] * 4, 4 * value, expected)
    told.clear()
    for again in (
        replay(torch.ones(5)),
        replay(torch.ones(4).double()),
        replay(torch.ones(4), times=3),
    ):
        assert len(again) == 2
    assert told == []


def test_what_was_returned_is_not_written_to_again(told: list[str]) -> None:
    replay = Replay(twice_and_sum)
    results = [replay(torch.full((2,), float(i)))[0] for i in range(4)]
    assert [r.tolist() for r in results] == [[0, 0], [2, 2], [4, 4], [6, 6]]


def test_it_serves_in_and_out_of_inference_mode(told: list[str]) -> None:
    replay = Replay(twice_and_sum)
    for inside in (True, True, False, True):
        with torch.inference_mode(inside):
            assert replay(torch.ones(3))[0].tolist() == [2, 2, 2]


def test_what_is_kept_is_bounded(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(twice_and_sum)
    for n in (1, 2, 3):
        for _ in range(2):
            replay(torch.ones(n))
    assert len(replay._graphs) == 3
    monkeypatch.setattr(cuda_graphs, "_KEPT_BYTES", 1)
    replay(torch.ones(2))
    assert [key[0][2][0] for key in replay._graphs] == [2]
    monkeypatch.setattr(cuda_graphs, "_KEPT_BYTES", 10**6)
    monkeypatch.setattr(cuda_graphs, "_REMEMBERED", 5)
    for n in range(9):
        replay(torch.ones(n))
    assert len(replay._graphs) == 5


def test_what_a_graph_takes_is_not_set_off_against_what_was_kept_for_later(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`torch.cuda.graph` gives that back before it captures; else no bound would ever be met."""
    reserved = {"in use": 500, "for later": 0, "graphs": 0}
    capture = cuda_graphs.capture_graph

    def empty() -> None:
        reserved["for later"] = 0

    def begin_and_capture(*arguments: Any, **options: Any) -> Any:
        empty()
        reserved["graphs"] += 70
        return capture(*arguments, **options)

    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: sum(reserved.values()))
    monkeypatch.setattr(cuda_graphs, "capture_graph", begin_and_capture)
    monkeypatch.setattr(cuda_graphs, "_KEPT_BYTES", 100)
    replay = Replay(twice_and_sum)
    for n in (1, 2):
        for _ in range(2):
            reserved["for later"] = 10_000
            replay(torch.ones(n))
    assert [graph.bytes for graph in replay._graphs.values() if graph] == [70 + 2 * 4]


@pytest.mark.parametrize(
    "full",
    [
        torch.OutOfMemoryError("full"),
        torch.AcceleratorError("CUDA error: out of memory\nSearch"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_a_full_gpu_is_no_reason_to_give_up_for_good(
    told: list[str], monkeypatch: pytest.MonkeyPatch, full: Exception
) -> None:
    errors: list[Exception] = [full]
    working = cuda_graphs.capture_graph

    def capture(*arguments: Any, **options: Any) -> Any:
        if errors:
            raise errors.pop()
        return working(*arguments, **options)

    monkeypatch.setattr(cuda_graphs, "capture_graph", capture)
    replay = Replay(twice_and_sum)
    for _ in range(4):  # seen, full, seen anew, captured
        assert replay(torch.ones(2))[0].tolist() == [2, 2]
    assert told == ["capture", "replay"]
    errors.append(RuntimeError("it waits for the host"))
    for _ in range(4):  # not tried again
        assert replay(torch.ones(3))[0].tolist() == [2, 2, 2]
    assert told == ["capture", "replay"] and not replay._captures


def test_selections_are_replayed(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(greedy._one_round)
    g = torch.Generator().manual_seed(0)
    for _ in range(3):
        x = torch.randn(2, 30, 8, generator=g)
        merit = torch.rand(1, 2, 30, generator=g)
        order, gain, margin, complete = replay(x, merit, k=5)
        assert bool(complete)
        for found, expected in zip((order, gain, margin), greedy.greedy(x, merit, 5), strict=True):
            assert torch.equal(found, expected)
    assert told == ["capture", "replay", "replay"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gpu_replays_what_it_ran(dtype: torch.dtype) -> None:
    assert fused.available(torch.device("cuda", 0))
    replay = Replay(greedy._one_round)
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        x = torch.randn(3, 200, 64, generator=g).to("cuda", dtype)
        merit = torch.rand(2, 3, 200, generator=g).cuda()
        for found, expected in zip(
            replay(x, merit, k=40), greedy._one_round(x, merit, k=40), strict=True
        ):
            assert torch.equal(found, expected)
    assert replay._captures and any(replay._graphs.values())
