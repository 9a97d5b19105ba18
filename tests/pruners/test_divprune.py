"""DivPrune against its definition, and by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import divprune
from references import as_array

from spare_demo import VisualTokens
from spare_demo.pruners.divprune import DivPrune


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@given(n=st.integers(2, 24), d=st.integers(3, 12), seed=st.integers(0, 999))
@settings(max_examples=15)
def test_picks_are_the_definitions(n: int, d: int, seed: int, dtype: torch.dtype) -> None:
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).to(dtype)
    expected = divprune(as_array(x), n)
    assert DivPrune().select(VisualTokens(x), n).order.tolist() == expected


# Directions at 0, 10, 90 and 100 degrees, the last twice as long, and at 180.
ANGLES = torch.deg2rad(torch.tensor([0.0, 10.0, 90.0, 100.0, 180.0], dtype=torch.float64))
FAN = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)


def test_by_hand() -> None:
    selection = DivPrune().select(VisualTokens(FAN), 5)
    # 180 has the farthest neighbour (80 degrees off), then 0 lies opposite, then 90 between.
    assert selection.order.tolist()[:2] == [4, 0]
    assert selection.order[2] in (2, 3)
    assert DivPrune().select(VisualTokens(FAN[:1]), 1).gain.tolist() == [0]  # far from nothing
    assert selection.gain[:2].tolist() == pytest.approx(
        [1 - torch.cos(torch.deg2rad(torch.tensor(80.0))).item(), 2.0]
    )


def test_length_counts_only_for_the_euclidean_variant() -> None:
    line = VisualTokens(torch.tensor([[1.0], [2.0], [3.0], [9.0]]))
    assert DivPrune().select(line, 4).order.tolist() == [0, 1, 2, 3]  # all the same direction
    selection = DivPrune(metric="euclidean").select(line, 4)
    assert selection.order.tolist() == [3, 0, 2, 1]
    assert selection.gain.tolist() == pytest.approx([6 / 8, 1.0, 2 / 8, 1 / 8])


def test_equal_tokens_are_picked_last_and_once() -> None:
    x = torch.cat([FAN, FAN[:2], torch.zeros(1, 2, dtype=FAN.dtype)])
    order = DivPrune().select(VisualTokens(x), 8).order.tolist()
    assert sorted(order) == list(range(8))
    assert set(order[-2:]) & {0, 5} and set(order[-2:]) & {1, 6}
