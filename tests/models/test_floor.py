"""The floor's arithmetic against the sizes of the tiny model."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from PIL import Image

from spare_demo.models import LlavaModel
from spare_demo.models.floor import (
    Rates,
    measure_rates,
    prefill_bytes,
    prefill_floor,
    prefill_operations,
)

# 32 wide, 4 heads of which 2 for keys and values, 64 in between, 3 layers.
LAYER = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64


def test_operations_and_bytes_are_those_of_the_sizes(tiny_model: LlavaModel) -> None:
    vocab = tiny_model.hf.config.text_config.vocab_size
    head = 32 * vocab
    expected = 2 * LAYER * (10 + 10 + 4) + 2 * 32 * (100 + 100 + 16) + 2 * head
    assert prefill_operations(tiny_model.hf, [10, 10, 4]) == expected
    assert prefill_bytes(tiny_model.hf) == 4 * (3 * (LAYER + 2 * 32) + head)  # two norms a layer


def test_the_larger_of_reading_and_computing_decides(tiny_model: LlavaModel) -> None:
    reading, computing = Rates(1.0, 1e30), Rates(1e30, 1.0)
    lengths = [10, 10, 4]
    assert prefill_floor(tiny_model.hf, reading, lengths) == prefill_bytes(tiny_model.hf)
    least = prefill_floor(tiny_model.hf, computing, lengths)
    assert least == prefill_operations(tiny_model.hf, lengths)


def test_rates_are_measured() -> None:
    rates = measure_rates(torch.device("cpu"), torch.float32)
    assert rates.bandwidth > 1e6 and rates.product > 1e6


def test_a_model_knows_its_floor_once_warm(
    tiny_model: LlavaModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tiny_model.answer(tiny_model.encode(photo, "Why?"), max_new_tokens=1)
    monkeypatch.setattr(tiny_model, "_rates", None)
    assert tiny_model.prefill_floor(answer) is None
    monkeypatch.setattr(tiny_model, "_rates", Rates(1e30, 1.0))
    others = answer.prompt_tokens - 16
    pruned = dataclasses.replace(answer, kept_per_layer=(16, 16, 2))
    assert tiny_model.prefill_floor(answer) == prefill_operations(tiny_model.hf, [others + 16] * 3)
    assert tiny_model.prefill_floor(pruned) == prefill_operations(
        tiny_model.hf, [others + 16, others + 16, others + 2]
    )
