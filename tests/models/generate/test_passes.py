"""Passes on a CUDA device: alone while they run, the second stream always the same."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spare_demo.cuda_graphs import CAPTURE_LOCK
from spare_demo.models.generate.passes import Passes


class Stream(SimpleNamespace):
    def wait_stream(self, other: object) -> None:
        pass


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    """The streams that were made; calls of torch.cuda without a GPU."""
    made: list[Stream] = []

    def make(device: Any) -> Stream:
        made.append(Stream())
        return made[-1]

    monkeypatch.setattr(torch.cuda, "Stream", make)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    return made


def others_may_capture() -> bool:
    """Whether another thread could begin to capture a graph now."""
    free: list[bool] = []

    def look() -> None:
        free.append(CAPTURE_LOCK.acquire(blocking=False))
        if free[0]:
            CAPTURE_LOCK.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return free[0]


def test_nobody_captures_a_graph_beside_a_pass(
    streams: list[Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gpu, on_cpu = Passes(torch.device("cuda", 0)), Passes(torch.device("cpu"))
    assert on_gpu.run(others_may_capture)[0] is False
    assert on_cpu.run(others_may_capture)[0] is True
    assert others_may_capture()
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(others_may_capture()))
    on_gpu.release()
    assert emptied == [False] and others_may_capture()


def test_the_second_stream_is_always_the_same(streams: list[Stream]) -> None:
    passes = Passes(torch.device("cuda", 0))
    for _ in range(3):
        assert passes.run(lambda: 1, concurrent=list)[0] == 1
    assert len(streams) == 1


def test_attention_is_not_cudnns_during_a_pass_on_a_gpu(streams: list[Stream]) -> None:
    on_gpu, on_cpu = Passes(torch.device("cuda", 0)), Passes(torch.device("cpu"))
    enabled = torch.backends.cuda.cudnn_sdp_enabled
    assert enabled()
    assert on_gpu.run(lambda: (enabled(), on_cpu.run(enabled)[0]))[0] == (False, False)
    assert on_cpu.run(enabled)[0] is True
    with pytest.raises(ZeroDivisionError):
        on_gpu.run(lambda: 1 / 0)
    assert enabled()
