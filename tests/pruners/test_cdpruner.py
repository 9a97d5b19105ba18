"""CDPruner against its released Cholesky, against the determinant's definition, and by hand."""

from __future__ import annotations

import pytest
import references
import torch
from drawn_tokens import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo import VisualTokens
from spare_demo.pruners.cdpruner import CDPruner


def weights(tokens: VisualTokens, sign: float) -> references.Array:
    return references.minmax_weight((sign * references.token_cosines(tokens)).mean(axis=1))


@pytest.mark.parametrize(("form", "sign"), [("released", -1.0), ("paper", 1.0)])
@given(
    n=st.integers(2, 40),
    d=st.integers(2, 50),
    seed=st.integers(0, 999),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
)
@settings(max_examples=25)
def test_picks_are_those_of_the_released_loop(
    form, sign: float, n: int, d: int, seed: int, dtype: torch.dtype
) -> None:
    tokens = picture(n, d, seed, dtype)
    k = min(n - 1, d)
    expected = references.cdpruner(references.as_array(tokens.features), weights(tokens, sign), k)
    assert CDPruner(form=form).select(tokens, k).order.tolist() == expected


@given(n=st.integers(2, 14), d=st.integers(2, 16), seed=st.integers(0, 999))
@settings(max_examples=25)
def test_picks_maximise_the_determinant_of_the_conditional_kernel(
    n: int, d: int, seed: int
) -> None:
    tokens = picture(n, d, seed, torch.float64)
    w = weights(tokens, -1.0)
    unit = (tokens.features / tokens.features.norm(dim=1, keepdim=True)).numpy()
    expected = references.greedy_log_determinant(w[:, None] * (unit @ unit.T) * w, min(n - 1, d))
    assert CDPruner().select(tokens, min(n - 1, d)).order.tolist() == expected


def test_it_is_spare_with_the_weight_squared_over_the_squared_length() -> None:
    tokens = picture(60, 40, 3, torch.float64)
    w = weights(tokens, -1.0)
    x = references.as_array(tokens.features)
    expected = references.spare(x, w**2 / (x * x).sum(axis=1), 40)
    assert CDPruner().select(tokens, 40).order.tolist() == expected


def test_weight_by_hand() -> None:
    tokens = VisualTokens(
        torch.eye(3),
        clip_image=torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
        clip_text=torch.tensor([[2.0, 0.0]]),
    )  # cosines 1, 0 and 0.6
    released, paper = CDPruner().weight(tokens), CDPruner(form="paper").weight(tokens)
    assert released.tolist() == pytest.approx([1e-6, 1 + 1e-6, 0.4 + 1e-6], rel=1e-6)
    assert paper.tolist() == pytest.approx([1 + 1e-6, 1e-6, 0.6 + 1e-6], rel=1e-6)
    selection = CDPruner().select(tokens, 3)
    assert selection.order.tolist() == [1, 2, 0]
    assert selection.gain.tolist() == pytest.approx([1, 0.16, 1e-12], rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(5))
def test_without_text_the_first_token_comes_first(seed: int, dtype: torch.dtype) -> None:
    tokens = picture(200, 300, seed, dtype)
    selection = CDPruner(form="none").select(VisualTokens(tokens.features), 200)
    assert int(selection.order[0]) == 0
    assert float(selection.gain[0]) == 1
    assert (selection.gain <= 1).all()


def test_diversity_by_hand() -> None:
    degrees = torch.tensor([0.0, 30.0, 90.0, 60.0]).deg2rad()
    lengths = torch.tensor([1.0, 50.0, 2.0, 9.0])[:, None]
    x = lengths * torch.stack([degrees.cos(), degrees.sin()], dim=1)
    selection = CDPruner(form="none").select(VisualTokens(x), 4)
    # Length plays no part: token 0 by the tie, then the one at a right angle; the plane is full.
    assert selection.order.tolist() == [0, 2, 1, 3]
    assert selection.gain.tolist() == pytest.approx([1, 1, 0, 0])


def test_the_length_of_a_token_does_not_count() -> None:
    tokens = picture(20, 8, 1, torch.float64)
    stretched = torch.arange(1, 21)[:, None] * tokens.features
    changed = VisualTokens(stretched, tokens.clip_image, tokens.clip_text)
    assert torch.equal(CDPruner().select(changed, 8).order, CDPruner().select(tokens, 8).order)


def test_where_the_released_loop_repeats_picks_this_one_does_not() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(576, 16, generator=g) @ torch.randn(16, 128, generator=g)
    image, text = torch.randn(576, 6, generator=g), torch.randn(1, 6, generator=g)
    tokens = VisualTokens(x, image, text)
    with pytest.warns(RuntimeWarning):
        single = references.cdpruner(x.numpy(), weights(tokens, -1.0).astype("float32"), 128)
    assert len(set(single)) < 128
    assert len(set(CDPruner().select(tokens, 128).order.tolist())) == 128
