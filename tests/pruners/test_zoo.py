"""ZOO-Prune against its definition, and on a projector whose sensitivity is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import zoo_prune
from references import as_array

from spare_demo import VisualTokens
from spare_demo.pruners.zoo import ZooPrune, scaled


@given(seed=st.integers(0, 999), k=st.integers(1, 12))
@settings(max_examples=15)
def test_picks_are_the_definitions(seed: int, k: int) -> None:
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(12, 5, generator=g, dtype=torch.float64)
    weight = torch.randn(5, 7, generator=g, dtype=torch.float64)
    tokens = VisualTokens(
        torch.tanh(h @ weight), states=h, project=lambda rows: torch.tanh(rows @ weight)
    )
    method = ZooPrune(directions=6, seed=seed)
    u = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    arrays = as_array(h), as_array(tokens.features)
    expected = zoo_prune(
        *arrays, lambda row: np.tanh(row @ as_array(weight)), as_array(u), step=0.01, k=k
    )
    assert method.select(tokens, k).order.tolist() == expected


def test_the_sensitivity_of_a_linear_projector_is_its_stretch() -> None:
    """f(h) = 3 h moves by 3 per unit in every direction and everywhere."""
    h = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    tokens = VisualTokens(3 * h, states=h, project=lambda rows: 3 * rows)
    assert ZooPrune().sensitivity(tokens).tolist() == pytest.approx([3.0] * 4)


def test_the_most_sensitive_comes_first_and_the_least_last() -> None:
    """f(h) = h^2 / 2 has slope |h|, whatever the direction in one dimension."""
    h = torch.tensor([[2.0], [-4.0], [1.0], [3.0]])
    x = torch.eye(4)  # all equally far apart
    tokens = VisualTokens(x, states=h, project=lambda rows: rows.square() / 2)
    selection = ZooPrune(directions=3).select(tokens, 4)
    assert selection.order.tolist() == [1, 3, 0, 2]
    assert selection.gain.tolist() == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0], abs=1e-6)


@pytest.mark.parametrize("stretch", [3.0, 0.0, 1e-3])
def test_a_constant_sensitivity_leaves_distance_alone_to_choose(stretch: float) -> None:
    """As in the released code: all weights are 1, the first pick is the first token.

    Angles of 0, 60, 20 and 180 degrees: 180 is farthest from 0, then 60, then 20.
    """
    angle = torch.tensor([0.0, 60.0, 20.0, 180.0], dtype=torch.float64).deg2rad()
    h = torch.stack([angle.cos(), angle.sin()], dim=1)
    tokens = VisualTokens(h, states=h, project=lambda rows: stretch * rows)
    selection = ZooPrune().select(tokens, 4)
    assert selection.order.tolist() == [0, 3, 1, 2]
    cos = [math.cos(math.radians(a)) for a in (180, 60, 20)]
    assert selection.gain.tolist() == pytest.approx([1.0, *(1 - c for c in cos)])


def test_each_view_has_its_own_scale() -> None:
    """Only where not all are alike the least sensitive has weight 0, and is the last pick."""
    assert scaled(torch.tensor([2.0, 2.0, 2.0]).double()).tolist() == [1.0, 1.0, 1.0]
    assert scaled(torch.tensor([1.0, 2.0, 3.0]).double()).tolist() == pytest.approx([0, 0.5, 1])
    h = torch.tensor([[2.0], [2.0], [2.0], [1.0], [2.0], [3.0]])
    tokens = VisualTokens(
        torch.eye(6), view=torch.arange(6) // 3, states=h, project=lambda rows: rows.square() / 2
    )
    assert ZooPrune(directions=3).select(tokens, 6).order.tolist() == [0, 5, 1, 4, 2, 3]


def test_the_seed_decides_the_directions() -> None:
    h = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    tokens = VisualTokens(h, states=h, project=lambda rows: rows.square())
    one, same, other = (ZooPrune(directions=2, seed=seed).sensitivity(tokens) for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.allclose(one, other)
