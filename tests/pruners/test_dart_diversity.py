"""DART's diversity-only form against its steps, and by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import dart_diversity
from references import as_array

from spare_demo import VisualTokens
from spare_demo.pruners.dart import DartDiversity


@pytest.mark.parametrize("norm", ["l1", "l2"])
@given(n=st.integers(1, 40), pivots=st.integers(1, 12), seed=st.integers(0, 999), data=st.data())
@settings(max_examples=25)
def test_picks_are_the_steps(norm, n: int, pivots: int, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = dart_diversity(as_array(x), k, pivots, 1 if norm == "l1" else 2)
    selection = DartDiversity(pivots=pivots, norm=norm).select(VisualTokens(x), k)
    assert selection.order.tolist() == expected


def test_by_hand() -> None:
    """Pivots 2 and 0; 2 takes its opposite and what is across, 0 what is left."""
    x = torch.tensor([[4.0, 0.0], [1.0, 0.1], [0.0, 5.0], [0.0, -1.0], [-1.0, 0.0], [1.0, 0.0]])
    selection = DartDiversity(pivots=2).select(VisualTokens(x), 4)
    assert selection.order.tolist() == [2, 0, 3, 4]
    assert selection.gain.tolist() == pytest.approx([5.0, 4.0, 2.0, 2.0])
