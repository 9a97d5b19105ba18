"""bfloat16 weights packed for oneDNN: a linear layer's own results, in as much memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tiny_families import FOLDERS
from torch import nn

from spare_demo.models import Model, load_model
from spare_demo.models.generate.prefill_floor import prefill_bytes
from spare_demo.models.loading import number_format, packed_weights
from spare_demo.models.loading.packed_weights import Bfloat16Linear, can_pack_bfloat16
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

pytestmark = pytest.mark.skipif(
    not can_pack_bfloat16(), reason="this processor has no bfloat16, so nothing is packed"
)


@given(
    st.sampled_from([(), (1,), (2, 3), (0, 4)]),
    st.integers(1, 70),
    st.integers(1, 90),
    st.booleans(),
    st.booleans(),
)
def test_a_layer_is_the_linear_layer(
    shape: tuple[int, ...], given: int, out: int, bias: bool, every_other: bool
) -> None:
    layer = nn.Linear(given, out, bias, dtype=torch.bfloat16).requires_grad_(False)
    step = 2 if every_other else 1
    inputs = torch.randn(*shape, step * given, dtype=torch.bfloat16)[..., ::step]
    exact = F.linear(inputs.double(), layer.weight.double(), layer.bias.double() if bias else None)
    found = Bfloat16Linear(layer)(inputs)
    torch.testing.assert_close(found, exact.bfloat16(), rtol=2**-7, atol=1e-2)
    assert found.is_contiguous() and found.dtype == torch.bfloat16


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("part", ["weight", "bias"])
def test_weights_that_are_no_numbers_are_noticed(part: str, value: float) -> None:
    layer = nn.Linear(3, 2, dtype=torch.bfloat16).requires_grad_(False)
    assert not Bfloat16Linear(layer).damaged
    getattr(layer, part).view(-1)[1] = value
    assert Bfloat16Linear(layer).damaged == [part]


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, packed: bool = True) -> Model:
    """As a large model, on a processor that is fast in bfloat16."""
    with monkeypatch.context() as patch:
        patch.setattr(number_format, "LARGE", 0)
        patch.setattr(number_format, "bfloat16_slowness", lambda: 0.3)
        patch.setattr(packed_weights, "can_pack_bfloat16", lambda: packed)
        return load_model(str(folder), device="cpu", warm_up=False)


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def test_a_model_is_what_it_is_without(
    folder: Path, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, plain = load(folder, monkeypatch), load(folder, monkeypatch, packed=False)
    found, expected = (m.encode(photo, "What is on the left?") for m in (packed, plain))
    ours, theirs = (view.tokens.features.float() for view in (found, expected))
    assert found.tokens.features.dtype == torch.bfloat16
    assert (ours - theirs).norm() < 0.02 * theirs.norm()
    n = found.tokens.n
    for selection in (None, Selection(torch.arange(0, n, 3))):
        ours, theirs = (
            model.answer(view, selection, 2).first_logits.float()
            for model, view in ((packed, found), (plain, expected))
        )
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


def test_every_method_runs(
    folder: Path, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folder, monkeypatch)
    view = model.encode(photo, "What is on the left?")
    n = view.tokens.n
    methods = [m for m in PRUNERS.values() if model.reason_against(m) is None]
    assert len(methods) > 8
    for method in methods:
        k = max(n // 2, method.lowest(n, view.layers))
        kept = method.plan(view, k) if method.inside else method.select(view.tokens, k)
        answer = model.answer(view, kept, 2)
        assert answer.first_logits.isfinite().all(), method.title


def test_what_is_packed_and_what_it_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, plain = load(folder, monkeypatch), load(folder, monkeypatch, packed=False)
    words = plain.hf.get_input_embeddings().weight
    linear = {
        name
        for name, m in plain.hf.named_modules()
        if type(m) is nn.Linear and m.weight is not words and "projector" not in name
    }
    assert len(linear) > 20
    assert linear == {name for name, m in packed.hf.named_modules() if type(m) is Bfloat16Linear}
    assert packed.bytes == plain.bytes
    assert prefill_bytes(packed.hf) == prefill_bytes(plain.hf)
    packed.close("It was in the way.")
    assert packed.bytes == 0
