"""The table of what `auto` takes."""

from __future__ import annotations

import pytest
import torch

from spare_demo.models.loading import machine as module
from spare_demo.models.loading.machine import Machine, choose, later_model, needed

GB = 10**9
SEVEN, TINY = needed("llava-1.5-7b", "cuda"), needed("tiny-llava", "cpu")
CACHED = frozenset({"tiny-llava"})


@pytest.mark.parametrize(
    ("machine", "bits", "name", "words"),
    [
        (Machine((SEVEN,), 64 * GB), 16, "llava-1.5-7b", "the freest GPU has"),
        (Machine((2 * GB, SEVEN), 64 * GB), 16, "llava-1.5-7b", "the freest GPU has"),
        (Machine((SEVEN - 1,), 64 * GB), 16, "built-in", "--model tiny-llava answers"),
        (Machine((12 * GB,), 64 * GB), 4, "llava-1.5-7b", "at 4 bits"),
        (Machine((12 * GB,), 64 * GB), 16, "built-in", "needs 17"),
        (Machine((12 * GB,), 64 * GB, cached=CACHED), 16, "tiny-llava", "weights are on this"),
        (Machine((2 * GB,), 64 * GB, cached=CACHED), 16, "tiny-llava", "the freest GPU has 2.0"),
        (Machine((2 * GB,), 64 * GB), 16, "built-in", "--model tiny-llava --device cpu answers"),
        (Machine((), 16 * GB), 16, "built-in", "none is in use. --model tiny-llava answers"),
        (Machine((), TINY, cached=CACHED), 16, "tiny-llava", "weights are on this machine"),
        (Machine((), TINY - 1, cached=CACHED), 16, "built-in", "TinyLLaVA needs"),
        (Machine((), 16 * GB, space=True), 16, "tiny-llava", "this is a Space"),
        (Machine((), 2 * GB, space=True), 16, "built-in", "2.0 GB are free"),
    ],
)
def test_the_table(machine: Machine, bits: int, name: str, words: str) -> None:
    entry, why = choose(machine, bits)
    assert entry.name == name and words in why and entry.title in why


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (Machine((), 16 * GB, space=True), "tiny-llava"),
        (Machine((), 16 * GB, space=True, cached=CACHED), "tiny-llava"),
        (Machine((), 16 * GB, cached=CACHED), None),  # whoever started it waits for it
        (Machine((), 2 * GB, space=True), None),
        (Machine((12 * GB,), 16 * GB, space=True), None),  # a GPU reads it in seconds
        (Machine((SEVEN,), 16 * GB, space=True), None),
    ],
)
def test_a_space_without_a_gpu_answers_before_its_model_stands(
    machine: Machine, name: str | None
) -> None:
    entry = later_model(machine)
    assert (entry and entry.name) == name


def test_the_needs_are_of_the_published_sizes() -> None:
    assert 16.5e9 < SEVEN < 17.5e9
    assert needed("llava-1.5-7b", "cuda", 4) < 8e9
    assert needed("tiny-llava", "cuda") < 5e9
    assert TINY < 5e9


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {0: 3 * GB, 1: 20 * GB}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        module, "free_bytes", lambda device: free[device.index] if device.type == "cuda" else GB
    )
    monkeypatch.setenv("SPACE_ID", "someone/space")
    assert module.this_machine("auto") == Machine((3 * GB, 20 * GB), GB, space=True)
    assert module.this_machine("cuda:1").gpus == (20 * GB,)
    assert module.this_machine("cpu").gpus == ()
    for unknown in ("cuda:2", "cuda:x", "cuda:"):  # refused where the model is loaded
        assert module.this_machine(unknown).gpus == ()
