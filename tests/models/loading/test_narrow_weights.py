"""Weights of 16 bits, widened as they are used: float32's results, in half its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from spare_demo.models import Model, load_model
from spare_demo.models.loading import checkpoint, narrow_weights, number_format
from spare_demo.models.loading.narrow_weights import NarrowEmbedding, NarrowLinear
from spare_demo.models.loading.number_format import NumberFormat
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

HALVES = (torch.float16, torch.bfloat16)


@given(
    st.sampled_from([(), (1,), (2, 3), (0, 4)]),
    st.integers(1, 9),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from(HALVES),
    st.integers(1, 64),
)
def test_a_layer_is_the_linear_layer_of_its_widened_weights(
    shape: tuple[int, ...], given: int, out: int, bias: bool, dtype: torch.dtype, block: int
) -> None:
    layer = nn.Linear(given, out, bias).requires_grad_(False)
    layer.weight.data = layer.weight.data.to(dtype)
    inputs = torch.randn(*shape, given)
    expected = F.linear(inputs, layer.weight.float(), layer.bias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow_weights, "_BLOCK", block)
        found = NarrowLinear(layer)(inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert found.is_contiguous()


def test_blocks_of_two_sizes_do_not_mix() -> None:
    """The room of a thread is used again, by layers of every shape."""
    layers = [nn.Linear(n, m).requires_grad_(False) for n, m in ((3, 50), (70, 9), (5, 5))]
    for layer in layers:
        layer.weight.data = layer.weight.data.half()
    for layer in (*layers, *reversed(layers)):
        inputs = torch.randn(4, layer.in_features)
        expected = F.linear(inputs, layer.weight.float(), layer.bias)
        torch.testing.assert_close(NarrowLinear(layer)(inputs), expected)


def load(
    folder: Path, monkeypatch: pytest.MonkeyPatch, slowness: float, dtype: torch.dtype
) -> Model:
    """As a large model stored in `dtype`, on a processor that slow in bfloat16."""
    with monkeypatch.context() as patch:
        patch.setattr(number_format, "_LARGE", 0)
        patch.setattr(number_format, "bfloat16_slowness", lambda: slowness)
        if dtype != torch.float16:  # which is what a checkpoint in float32 is taken for
            patch.setattr(checkpoint, "find_room", _with_weights_of(dtype, checkpoint.find_room))
        return load_model(str(folder), device="cpu")


def _with_weights_of(dtype: torch.dtype, find_room: Any) -> Any:
    def run(*given: Any) -> Any:
        room = find_room(*given)
        object.__setattr__(room, "number_format", NumberFormat(dtype, torch.float32))
        return room

    return run


@pytest.fixture(params=["tiny_folder", "tiny_next_folder", "tiny_qwen_folder"])
def folder(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_says_what_it_says_in_float32(
    folder: Path, dtype: torch.dtype, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = load(folder, monkeypatch, 150, dtype)
    wide = load_model(str(folder), device="cpu")
    for parameter in wide.hf.parameters():
        parameter.data = parameter.data.to(dtype).float()
    question = "What is on the left?"
    views = [model.encode(photo, question) for model in (narrow, wide)]
    found, expected = views
    assert found.tokens.features.dtype == torch.float32
    torch.testing.assert_close(
        found.tokens.features, expected.tokens.features, rtol=1e-4, atol=1e-4
    )
    n = found.tokens.n
    selections = [None, Selection(torch.arange(0, n, 3))]
    if n >= 16:
        selections.append(PRUNERS["divprune"].select(expected.tokens, n // 2))
    for selection in selections:
        ours, theirs = (
            model.answer(view, selection, 6)
            for model, view in zip((narrow, wide), views, strict=True)
        )
        assert ours.token_ids == theirs.token_ids
        torch.testing.assert_close(ours.first_logits, theirs.first_logits, rtol=1e-3, atol=1e-3)


def test_its_matrices_are_narrow_and_all_else_is_float32(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, wide = load(folder, monkeypatch, 150, torch.float16), load_model(str(folder), "cpu")
    assert model.dtype == model.hf.dtype == torch.float32
    layers = [m for m in model.hf.modules() if isinstance(m, NarrowLinear | NarrowEmbedding)]
    narrow = {id(layer.weight) for layer in layers}
    assert not any(type(module) is nn.Linear for module in model.hf.modules())
    for name, parameter in model.hf.named_parameters():
        half = id(parameter) in narrow
        assert parameter.dtype == (torch.float16 if half else torch.float32), name
        assert not parameter.requires_grad
    assert all(b.dtype == torch.float32 for b in model.hf.buffers() if b.is_floating_point())
    count = sum(p.numel() for p in wide.hf.parameters())
    assert count == sum(p.numel() for p in model.hf.parameters())  # tied weights stay tied
    saved = {id(layer.weight): 2 * layer.weight.numel() for layer in layers}
    assert wide.bytes - model.bytes == sum(saved.values())
    model.close("It was in the way.")
    assert model.bytes == 0


def test_keeping_all_is_stock_generate(
    tiny_folder: Path, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called as its users call it, with gradients on."""
    model = load(tiny_folder, monkeypatch, 150, torch.float16)
    view = model.encode(photo, "Is it red?")
    stock = model.hf.generate(
        input_ids=view.input_ids,
        pixel_values=view.pixel_values,
        attention_mask=torch.ones_like(view.input_ids),
        do_sample=False,
        max_new_tokens=5,
    )
    expected = stock[0, view.input_ids.shape[1] :].tolist()
    assert list(model.answer(view, max_new_tokens=5).token_ids) == expected


def test_a_processor_that_is_fast_in_bfloat16_computes_in_it(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny_folder, monkeypatch, 0.3, torch.float16)
    assert model.dtype == torch.bfloat16
    assert {p.dtype for p in model.hf.parameters()} == {torch.bfloat16}
