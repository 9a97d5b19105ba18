"""Quantised weights, by the real bitsandbytes: its layers run on a CPU too."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from bitsandbytes.nn import Linear4bit, Linear8bitLt, Params4bit
from torch import nn

from spare_demo import compare
from spare_demo.models import Model, bits_of, load_model
from spare_demo.models.families import FAMILIES
from spare_demo.models.generate.passes import ModelUnloadedError
from spare_demo.models.generate.prefill_floor import tensors_beside_parameters
from spare_demo.models.loading.memory import count_weights
from tests.stock import noise, stock

# The tiny checkpoints are too narrow for 4 bits, whose weights go in blocks of 64.
MODELS = (
    ("built-in", "llava", 4),
    ("built-in", "llava", 8),
    ("tiny_next_folder", "llava_next", 8),
    ("tiny_qwen_folder", "qwen2_5_vl", 8),
)
LAYERS = {8: Linear8bitLt, 4: Linear4bit}
QUESTION = "What colour is the circle?"


@pytest.fixture(scope="module", params=MODELS, ids=lambda param: f"{param[1]}-{param[2]}")
def quantised(request: pytest.FixtureRequest) -> tuple[Model, str, int]:
    """The model, its family's name and its bits."""
    name, kind, bits = request.param
    if name.endswith("_folder"):
        name = str(request.getfixturevalue(name))
    return load_model(name, device="cpu", bits=bits), kind, bits


def test_the_language_model_is_quantised_and_nothing_else(
    quantised: tuple[Model, str, int],
) -> None:
    model, _, bits = quantised
    linear = {n: type(m) for n, m in model.hf.named_modules() if isinstance(m, nn.Linear)}
    inside = {name for name in linear if ".language_model." in name}
    assert inside and {linear[name] for name in inside} == {LAYERS[bits]}
    assert {linear[name] for name in linear.keys() - inside} == {nn.Linear}
    settings = model.hf.config.quantization_config
    assert (settings.load_in_8bit, settings.load_in_4bit) == (bits == 8, bits == 4)
    assert settings.bnb_4bit_quant_type == "nf4"
    assert settings.bnb_4bit_compute_dtype == model.dtype
    weights, _, suffix = model.revision.partition("-")
    assert (len(weights), suffix) == (12, f"{bits}bit")
    assert (bits_of(model.revision), bits_of(weights)) == (bits, 16)


def test_keeping_all_is_stock_generate(quantised: tuple[Model, str, int]) -> None:
    model, kind, _ = quantised
    view = model.encode(noise((90, 60)), QUESTION, "any" if kind == "llava_next" else None)
    inputs: dict[str, Any] = {
        "input_ids": view.input_ids,
        "pixel_values": view.pixel_values,
        "attention_mask": torch.ones_like(view.input_ids),
    }
    if kind != "llava":
        inputs = dict(model.processor(images=view.photo, text=view.prompt, return_tensors="pt"))
    expected = stock(model, 8, **inputs)
    answer = model.answer(view, max_new_tokens=8)
    assert list(answer.token_ids) == expected.sequences[0, view.input_ids.shape[1] :].tolist()
    torch.testing.assert_close(answer.first_logits, expected.logits[0][0], atol=1e-3, rtol=1e-3)


def test_a_comparison_prunes_it(
    quantised: tuple[Model, str, int], caplog: pytest.LogCaptureFixture
) -> None:
    model = quantised[0]
    methods = ("spare-reconstruction", "cdpruner-diversity")
    found = compare(model, noise((224, 168)), QUESTION, methods, budget=6, max_new_tokens=3)
    assert found.answers["spare-reconstruction"].visual_tokens == 6
    whole = found.answers["unpruned"]
    for label in methods:
        assert found.answers[label].kv_cache_bytes < whole.kv_cache_bytes
    assert not [record for record in caplog.records if "cast" in record.message]


def test_the_memory_told_before_loading_is_what_it_takes(quantised: tuple[Model, str, int]) -> None:
    """To the scales, of which a narrow layer has more for each weight."""
    model, kind, bits = quantised
    told = count_weights(model.hf.config, FAMILIES[kind]).bytes(model.dtype, bits)
    assert told == pytest.approx(model.hf.get_memory_footprint(return_buffers=False), rel=0.1)


def large_tensors() -> dict[int, weakref.ref[torch.Tensor]]:
    """Every tensor in this process that holds more than 4 kB, by id."""
    gc.collect()
    found = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
    return {id(t): weakref.ref(t) for t in found if t.numel() * t.element_size() > 4000}


@pytest.mark.parametrize(("bits", "form"), [(8, Linear8bitLt), (4, Linear4bit)])
def test_a_closed_model_leaves_nothing_of_its_weights(bits: int, form: type) -> None:
    before = large_tensors()
    model = load_model("built-in", device="cpu", bits=bits)
    view = model.encode(noise((90, 60)), QUESTION)
    model.answer(view, max_new_tokens=2)
    del view
    own = {key: ref for key, ref in large_tensors().items() if key not in before}
    layers = [module for module in model.hf.modules() if isinstance(module, form)]
    assert layers and len(own) > len(layers)
    model.close("It was put away.")
    gc.collect()
    left = [tensor for ref in own.values() if (tensor := ref()) is not None]
    assert sum(tensor.numel() * tensor.element_size() for tensor in left) == 0
    assert model.bytes == 0
    with pytest.raises(ModelUnloadedError, match="put away"):
        model.encode(noise((90, 60)), QUESTION)


def test_the_bytes_of_a_model_are_those_of_its_layers(quantised: tuple[Model, str, int]) -> None:
    model, beside = quantised[0], 0
    for layer in model.hf.modules():
        if isinstance(layer, Linear8bitLt):
            scales = layer.weight.SCB if layer.state.SCB is None else layer.state.SCB
            beside += scales.numel() * 4
        elif isinstance(layer, Linear4bit):
            state = layer.weight.quant_state
            # On a CPU with bfloat16 of its own they are packed anew, in half the bytes.
            beside += state.absmax.nbytes + state.code.nbytes
    assert beside
    tower = model.text_tower
    parts = [model.hf, tower] if tower is not None else [model.hf]
    plain = sum(
        tensor.numel() * tensor.element_size()
        for part in parts
        for tensor in (*part.parameters(), *part.buffers())
    )
    assert plain + beside <= model.bytes <= plain + 1.1 * beside


def test_scales_that_are_quantised_themselves_are_counted() -> None:
    layer = Linear4bit(128, 128, bias=False, compress_statistics=True, quant_type="nf4")
    layer.weight = Params4bit(
        torch.randn(128, 128), requires_grad=False, compress_statistics=True, quant_type="nf4"
    ).to("cpu")
    names = [name for _, name, _ in tensors_beside_parameters(layer)]
    state = layer.weight.quant_state
    assert state.nested and names.count("absmax") == 2 and "offset" in names
