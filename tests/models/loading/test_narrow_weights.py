"""Weights of 16 bits, packed: float32's results, in half its memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_families import FOLDERS
from torch import nn

from spare_demo.evaluation.experiment import describe
from spare_demo.models import Model, load_model
from spare_demo.models.base import ModelError
from spare_demo.models.generate.prefill_floor import prefill_bytes
from spare_demo.models.loading import checkpoint, number_format
from spare_demo.models.loading.packed_weights import NarrowLinear, can_pack
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

pytestmark = pytest.mark.skipif(
    not can_pack(), reason="torch has no FBGEMM for this processor, so nothing is packed"
)


@given(
    st.sampled_from([(), (1,), (2, 3), (0, 4)]),
    st.integers(1, 70),
    st.integers(1, 90),
    st.booleans(),
    st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
)
def test_a_layer_is_the_linear_layer_of_its_rounded_weights(
    shape: tuple[int, ...], given: int, out: int, bias: bool, dtype: torch.dtype
) -> None:
    layer = nn.Linear(given, out, bias, dtype=dtype).requires_grad_(False)
    inputs = torch.randn(*shape, given)
    expected = F.linear(inputs, layer.weight.half().float(), layer.bias.float() if bias else None)
    found = NarrowLinear(layer)(inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.is_contiguous() and found.dtype == torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("part", ["weight", "bias"])
def test_weights_that_are_no_numbers_are_noticed(part: str, value: float) -> None:
    layer = nn.Linear(3, 2).requires_grad_(False)
    assert not NarrowLinear(layer).damaged
    getattr(layer, part).view(-1)[1] = value
    before = layer.weight.clone()
    assert NarrowLinear(layer).damaged == [part]
    torch.testing.assert_close(layer.weight, before, rtol=0, atol=0, equal_nan=True)


def load(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    slowness: float = 150,
    language_model: bool = True,
) -> Model:
    """As a large model, on a processor that slow in bfloat16."""
    with monkeypatch.context() as patch:
        patch.setattr(number_format, "LARGE", 0)
        patch.setattr(number_format, "bfloat16_slowness", lambda: slowness)
        return load_model(str(folder), device="cpu", language_model=language_model, warm_up=False)


def load_rounded(folder: Path, language_model: bool = True) -> Model:
    """In float32, with the values that weights of 16 bits have."""
    model = load_model(str(folder), device="cpu", language_model=language_model, warm_up=False)
    for parameter in model.hf.parameters():
        parameter.data = parameter.data.half().float()
    return model


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("language_model", [True, False])
def test_a_model_says_what_it_says_in_float32(
    folder: Path, language_model: bool, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = load(folder, monkeypatch, language_model=language_model)
    wide = load_rounded(folder, language_model)
    question = "What is on the left?"
    views = [model.encode(photo, question) for model in (narrow, wide)]
    found, expected = views
    assert found.tokens.features.dtype == torch.float32
    torch.testing.assert_close(
        found.tokens.features, expected.tokens.features, rtol=1e-4, atol=1e-4
    )
    if not language_model:
        return
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


def test_every_method_keeps_what_it_keeps_in_float32(
    folder: Path, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow, wide = load(folder, monkeypatch), load_rounded(folder)
    found, expected = (m.encode(photo, "What is on the left?") for m in (narrow, wide))
    n, layers = found.tokens.n, found.layers
    methods = [m for m in PRUNERS.values() if narrow.reason_against(m) is None]
    assert len(methods) > 8
    for method in methods:
        k = max(n // 2, method.lowest(n, layers))
        kept = [
            method.plan(view, k) if method.inside else method.select(view.tokens, k)
            for view in (found, expected)
        ]
        if not method.inside:
            assert torch.equal(kept[0].kept, kept[1].kept), method.title
        ours, theirs = narrow.answer(found, kept[0], 3), wide.answer(expected, kept[1], 3)
        assert ours.token_ids == theirs.token_ids, method.title


def test_its_matrices_are_narrow_and_all_else_is_float32(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, wide = load(folder, monkeypatch), load_model(str(folder), "cpu", warm_up=False)
    assert model.dtype == model.hf.dtype == torch.float32
    assert describe(model)["dtype"] == "float32, weights float16"
    words = model.hf.get_input_embeddings().weight
    assert words.dtype == torch.float16
    kinds = (nn.Linear, NarrowLinear)
    linear = {name for name, m in wide.hf.named_modules() if type(m) in kinds}
    assert linear == {name for name, m in model.hf.named_modules() if type(m) is NarrowLinear}
    for name, tensor in (*model.hf.named_parameters(), *model.hf.named_buffers()):
        assert tensor is words or not tensor.is_floating_point() or tensor.dtype == torch.float32
        assert not tensor.requires_grad, name
    saved = 2 * sum(m.weight.numel() for m in wide.hf.modules() if type(m) is nn.Linear)
    tied = wide.hf.get_input_embeddings().weight is wide.hf.lm_head.weight
    # Tied, the words are there once packed and once as they are.
    assert wide.bytes - model.bytes == saved + (-2 if tied else 2) * words.numel()
    assert prefill_bytes(model.hf) < 0.6 * prefill_bytes(wide.hf)
    model.close("It was in the way.")
    assert model.bytes == 0


def test_damaged_weights_are_not_started(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tiny_folder, folder)
    for weights in folder.glob("*.safetensors"):
        state = load_file(weights)
        for name in state:
            if name.endswith("layers.1.mlp.up_proj.weight"):
                state[name][2, 3] = torch.nan
        save_file(state, weights, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"NaN or infinity, in .*layers\.1\.mlp\.up_proj\.weight"):
        load(folder, monkeypatch)


def test_memory_that_runs_out_while_weights_are_packed_is_a_sentence(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(hf: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory")

    monkeypatch.setattr(checkpoint, "widen_arithmetic", full)
    with pytest.raises(ModelError, match=r"Memory ran out while .* was loaded"):
        load(tiny_folder, monkeypatch)


def test_without_fbgemm_it_is_float32_throughout(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_format, "can_pack", lambda: False)
    model = load(tiny_folder, monkeypatch)
    assert {p.dtype for p in model.hf.parameters()} == {torch.float32}


@pytest.mark.parametrize("slowness", [150, 0.3])
def test_keeping_all_is_stock_generate(
    slowness: float, tiny_folder: Path, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called as its users call it, with gradients on; also with bfloat16 weights, packed or not."""
    model = load(tiny_folder, monkeypatch, slowness)
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
    model = load(tiny_folder, monkeypatch, slowness=0.3)
    assert model.dtype == torch.bfloat16 and describe(model)["dtype"] == "bfloat16"
    assert {p.dtype for p in model.hf.parameters()} == {torch.bfloat16}
