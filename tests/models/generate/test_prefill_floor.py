"""The floor's arithmetic against the sizes of the tiny model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from spare_demo.models import LlavaModel
from spare_demo.models.generate import prefill_floor as module
from spare_demo.models.generate.prefill_floor import (
    Rates,
    measure_rates,
    prefill_bytes,
    prefill_floor,
    prefill_operations,
)
from spare_demo.pruners import PRUNERS

# 32 wide, 4 heads of which 2 for keys and values, 64 in between, 3 layers.
LAYER = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64


def test_operations_and_bytes_are_those_of_the_sizes(tiny_model: LlavaModel) -> None:
    vocab = tiny_model.hf.config.text_config.vocab_size
    head = 32 * vocab
    expected = 2 * LAYER * (10 + 10 + 4) + 2 * 32 * (100 + 100 + 16) + 2 * head
    assert prefill_operations(tiny_model.hf, [10, 10, 4]) == expected
    assert prefill_bytes(tiny_model.hf) == 4 * (3 * (LAYER + 2 * 32) + head)  # two norms a layer


def test_operations_are_those_that_torch_counts_where_heads_are_wider_than_the_tokens() -> None:
    sizes = {"hidden_size": 32, "head_dim": 16, "intermediate_size": 64, "vocab_size": 40}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    hf = LlamaForCausalLM(LlamaConfig(**sizes, **heads, attn_implementation="eager"))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hf(torch.zeros(1, 11, dtype=torch.long), logits_to_keep=1)
    counts = counter.get_flop_counts()["Global"]
    squares = sum(count for kind, count in counts.items() if "bmm" in str(kind))
    half_of_them = squares // 2  # a causal pass needs no more
    assert prefill_operations(hf, [11, 11]) == counter.get_total_flops() - half_of_them


def test_rates_are_those_of_the_fastest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [0.05, 0.02, 0.15, 0.3]  # three copies until a fifth of a second is over; one product
    clock = iter([at for seconds in runs for at in (7.0, 7.0 + seconds)])
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    rates = measure_rates(torch.device("cpu"), torch.float32)
    assert rates.bandwidth == pytest.approx(2 * 2**26 / 0.02)
    assert rates.product == pytest.approx(2 * 1024**3 / 0.3)


def test_the_larger_of_reading_and_computing_decides(tiny_model: LlavaModel) -> None:
    reading, computing = Rates(1.0, 1e30), Rates(1e30, 1.0)
    lengths = [10, 10, 4]
    assert prefill_floor(tiny_model.hf, reading, lengths) == prefill_bytes(tiny_model.hf)
    least = prefill_floor(tiny_model.hf, computing, lengths)
    assert least == prefill_operations(tiny_model.hf, lengths)


Held = type("Held", (SimpleNamespace,), {"__module__": "bitsandbytes.functional"})


def quantised(data: torch.Tensor, **beside: Any) -> nn.Linear:
    """A linear layer from 128 to 64 whose weight is held as bitsandbytes holds it."""
    linear = nn.Linear(128, 64, bias=False)
    linear.weight = nn.Parameter(data, requires_grad=False)
    for name, value in beside.items():
        setattr(linear.weight, name, value)
    return linear


def test_quantised_weights_are_read_packed_with_their_scales() -> None:
    packed, scales = torch.zeros(64 * 128 // 2, 1, dtype=torch.uint8), torch.zeros(64 * 128 // 64)
    four = quantised(packed, quant_state=Held(absmax=scales, state2=None))
    nested = Held(absmax=scales.byte(), state2=Held(absmax=torch.zeros(1)))
    eight = quantised(torch.zeros(64, 128, dtype=torch.int8), SCB=torch.zeros(64))
    used = quantised(torch.zeros(64, 128, dtype=torch.int8), SCB=None)  # after its first pass
    vars(used)["state"] = Held(SCB=torch.zeros(64))
    head = nn.Linear(128, 10, bias=False).half()
    for layer, expected in (
        (four, 4096 + 4 * 128),
        (quantised(packed, quant_state=nested), 4096 + 128 + 4),
        (eight, 8192 + 4 * 64),
        (used, 8192 + 4 * 64),
    ):
        hf = SimpleNamespace(
            model=SimpleNamespace(layers=nn.ModuleList([layer])),
            lm_head=head,
            config=SimpleNamespace(
                get_text_config=lambda: SimpleNamespace(
                    hidden_size=128, num_attention_heads=4, vocab_size=10
                )
            ),
        )
        assert prefill_bytes(hf) == expected + 2 * 1280
        least = prefill_floor(hf, Rates(1e30, 1.0), [10])
        if layer in (eight, used):  # their products have a rate of their own
            assert least == pytest.approx(prefill_bytes(hf) / 1e30)
        else:
            assert least == prefill_operations(hf, [10])


def test_rates_are_measured() -> None:
    rates = measure_rates(torch.device("cpu"), torch.float32)
    assert rates.bandwidth > 1e6 and rates.product > 1e6


def test_a_model_knows_its_floor_once_warm(
    tiny_model: LlavaModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tiny_model.encode(photo, "Why?")
    answer = tiny_model.answer(view, max_new_tokens=1)
    pruned = tiny_model.answer(view, PRUNERS["fastv"].plan(view, 12), 1)
    assert pruned.kept_per_layer == (16, 10, 10)
    monkeypatch.setattr(tiny_model, "_rates", None)
    assert tiny_model.prefill_floor(answer) is None
    monkeypatch.setattr(tiny_model, "_rates", Rates(1e30, 1.0))
    others = answer.prompt_tokens - 16
    for each in (answer, pruned):
        lengths = [others + kept for kept in each.kept_per_layer]
        assert each.prefill_operations == prefill_operations(tiny_model.hf, lengths)
        assert tiny_model.prefill_floor(each) == each.prefill_operations
    monkeypatch.setattr(tiny_model._passes, "closed", "It made room.")
    assert tiny_model.prefill_floor(answer) is None  # of weights that are gone nothing is read
