"""Leverage scores and the greedy column subset against their definitions, in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import column_subset, leverage
from references import as_array

from spare_demo import PRUNERS, VisualTokens
from spare_demo.measures import reconstruction_curve
from spare_demo.pruners.column_subset import ColumnSubset
from spare_demo.pruners.cosines import gram_matrix, in_largest_units
from spare_demo.pruners.leverage import Leverage, leverage_scores

few = settings(max_examples=15)


def tokens_of(n: int, d: int, seed: int) -> VisualTokens:
    """Loosely grouped directions of different lengths."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g, dtype=torch.float64)
    x[: n // 2] = x[:1] + 0.3 * x[: n // 2]
    return VisualTokens(x * torch.exp(torch.randn(n, 1, generator=g, dtype=torch.float64) / 2))


@given(n=st.integers(2, 24), d=st.integers(2, 24), seed=st.integers(0, 999), data=st.data())
@few
def test_leverage_is_the_references(n: int, d: int, seed: int, data: st.DataObject) -> None:
    tokens = tokens_of(n, d, seed)
    # Of as many directions as there are tokens each has all of one: ties everywhere.
    k = data.draw(st.integers(1, max(1, min(n, d) - 1)))
    expected = leverage(as_array(tokens.features), k)
    np.testing.assert_allclose(
        as_array(leverage_scores(tokens.features, k)), expected, atol=1e-8, rtol=0
    )
    selection = Leverage().select(tokens, k)
    assert selection.order.tolist() == np.argsort(-expected, kind="stable")[:k].tolist()
    assert torch.all(selection.gain[1:] <= selection.gain[:-1])


@pytest.mark.parametrize(("n", "d", "r", "total"), [(9, 4, 2, 2), (9, 4, 7, 4), (4, 9, 4, 4)])
def test_leverage_scores_add_up_to_the_rank(n: int, d: int, r: int, total: int) -> None:
    score = leverage_scores(tokens_of(n, d, 0).features, r)
    assert float(score.sum()) == pytest.approx(total)
    assert float(score.min()) >= 0 and float(score.max()) <= 1 + 1e-9


def test_leverage_by_hand() -> None:
    """The main direction is (0, 1), which two tokens share; the next (1, 0) has one token."""
    x = torch.tensor([[3.0, 0], [0, 3], [0, 3], [0, 0]])
    one, two = (Leverage().select(VisualTokens(x), k) for k in (1, 2))
    assert one.order.tolist() == [1] and two.order.tolist() == [0, 1]
    assert one.gain.tolist() == pytest.approx([0.5])
    assert two.gain.tolist() == pytest.approx([1.0, 0.5])
    every = Leverage().select(VisualTokens(x), 4)
    assert every.order.tolist() == [0, 1, 2, 3]


@given(n=st.integers(2, 18), d=st.integers(2, 18), seed=st.integers(0, 999), data=st.data())
@few
def test_the_column_subset_is_the_references(
    n: int, d: int, seed: int, data: st.DataObject
) -> None:
    tokens = tokens_of(n, d, seed)
    # With one direction left, every token explains all of it.
    k = data.draw(st.integers(1, max(1, min(n, d) - 1)))
    selection = ColumnSubset().select(tokens, k)
    assert selection.order.tolist() == column_subset(as_array(tokens.features), k)


@given(n=st.integers(1, 40), d=st.integers(1, 40), seed=st.integers(0, 999))
@few
def test_its_gains_add_up_to_what_is_reconstructed(n: int, d: int, seed: int) -> None:
    tokens = tokens_of(n, d, seed)
    selection = ColumnSubset().select(tokens, n)
    assert float(selection.gain.min()) >= 0
    budgets = range(n + 1)
    error = reconstruction_curve(tokens.features, selection.order, budgets)
    explained = torch.cat([torch.zeros(1, dtype=torch.float64), selection.gain.cumsum(0)])
    torch.testing.assert_close(explained, 1 - error.square(), atol=1e-9, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, -3e4, 0.0])
def test_products_are_in_units_of_the_largest_entry(dtype: torch.dtype, scale: float) -> None:
    x = (scale * tokens_of(9, 5, 1).features / 40).to(dtype)
    before, largest = x.clone(), float(x.double().abs().max()) or 1.0
    expected = (as_array(x) / largest) @ (as_array(x) / largest).T
    np.testing.assert_allclose(
        gram_matrix(in_largest_units(x)).numpy(), expected, rtol=0, atol=1e-14
    )
    assert torch.equal(x, before)


def test_it_looks_at_all_tokens_where_spare_looks_at_one() -> None:
    """One token of squared length 9 alone, four of 4 in one direction: 16 in all."""
    x = torch.tensor([[3.0, 0], [0, 2], [0, 2], [0, 2], [0, 2]])
    selection = ColumnSubset().select(VisualTokens(x), 5)
    assert selection.order.tolist() == [1, 0, 2, 3, 4]
    assert selection.gain.tolist() == pytest.approx([16 / 25, 9 / 25, 0, 0, 0])
    assert PRUNERS["spare-reconstruction"].select(VisualTokens(x), 1).order.tolist() == [0]


def test_with_one_direction_left_the_lowest_index_is_picked() -> None:
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = ColumnSubset().select(VisualTokens(x), 9).order.tolist()
    assert order[2] == min(set(range(9)) - set(order[:2]))
    rest = order[3:]
    assert rest == sorted(rest, key=lambda i: -float(x[i].norm()))


@pytest.mark.parametrize("seed", range(3))
def test_of_equal_tokens_within_the_span_the_lowest_index_is_picked(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    group = torch.arange(75)[torch.randperm(75, generator=g)] % 25  # 25 tokens, three times each
    x = torch.randn(25, 100, generator=g)[group]
    order = ColumnSubset().select(VisualTokens(x), 75).order
    for equal in range(25):
        places = order[group[order] == equal]
        assert places.tolist() == sorted(places.tolist())
