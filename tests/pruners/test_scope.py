"""SCOPE and the coverage loop: the definition, by hand, and what coverage promises."""

from __future__ import annotations

import torch
from drawn_tokens import tower_tokens
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import scope
from references import as_array

from spare_demo.pruners.scope import Scope
from spare_demo.pruners.spread import cover_greedily


@given(seed=st.integers(0, 999), k=st.integers(1, 10), alpha=st.sampled_from([0.5, 1.0, 2.5]))
@settings(max_examples=15)
def test_picks_are_the_definitions(seed: int, k: int, alpha: float) -> None:
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(10, 4, generator=g, dtype=torch.float64)
    attention = torch.rand(3, 10, generator=g, dtype=torch.float64)
    expected = scope(as_array(h), as_array(attention), alpha, k)
    assert Scope(alpha=alpha).select(tower_tokens(h, attention), k).order.tolist() == expected


def test_two_that_cover_only_each_other_add_the_same_and_the_lower_is_picked() -> None:
    """Cosines are symmetric, so that such ties are common where attention plays no part."""
    h = torch.tensor([[1.0, 0, 0], [0, 1, 0.3], [0, 0.2, 1]], dtype=torch.float64)
    order = Scope(alpha=0.0).select(tower_tokens(h, torch.rand(1, 3)), 2).order
    assert order.tolist()[0] == 1


def test_by_hand() -> None:
    """Three alike and two alike: the larger group first, where attention leaves the choice."""
    east, north = [1.0, 0.0], [0.0, 2.0]
    h = torch.tensor([north, east, east, north, east])
    even = torch.ones(1, 5)
    selection = Scope().select(tower_tokens(h, even), 5)
    assert selection.order.tolist() == [1, 0, 2, 3, 4]  # then nothing is left to cover
    assert selection.gain.tolist() == [3.0, 2.0, 0.0, 0.0, 0.0]
    assert Scope().select(tower_tokens(h, torch.tensor([[1, 1, 1, 9, 1.0]])), 2).order[0] == 3
    assert Scope(alpha=0.0).select(tower_tokens(h, torch.rand(1, 5)), 2).order.tolist() == [1, 0]


def test_a_state_of_zeros_covers_nothing_not_even_itself() -> None:
    h = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    selection = Scope().select(tower_tokens(h, torch.tensor([[9.0, 1.0]])), 2)
    assert selection.order.tolist() == [1, 0]
    assert selection.gain.tolist() == [1.0, 0.0]


@given(seed=st.integers(0, 999), rows=st.integers(1, 30), n=st.integers(1, 30))
@settings(max_examples=25)
def test_gains_add_up_to_the_coverage_and_never_grow(seed: int, rows: int, n: int) -> None:
    table = torch.randn(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    order, gain = cover_greedily(table, torch.ones(n, dtype=torch.float64), n)
    assert sorted(order.tolist()) == list(range(n))
    reach = table.clamp_min(0)[:, order].cummax(dim=1).values.sum(dim=0)
    torch.testing.assert_close(gain.cumsum(dim=0), reach, atol=1e-11, rtol=0)
    assert bool((gain.diff() <= 1e-12).all())


def test_ties_go_to_the_lower_index_also_those_by_rounding() -> None:
    table = torch.tensor([[0.1 + 0.2, 0.3, 0.3], [0.0, 1e-17, 0.0]], dtype=torch.float64)
    order, _ = cover_greedily(table.flip(1), torch.ones(3, dtype=torch.float64), 3)
    assert order.tolist() == [0, 1, 2]
