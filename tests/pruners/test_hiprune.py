"""HiPrune against its definition, its neighbours by hand, and several views."""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import hiprune
from references import as_array

from spare_demo import VisualTokens
from spare_demo.pruners.hiprune import HiPrune


def tower_tokens(early: torch.Tensor, late: torch.Tensor) -> VisualTokens:
    blocks = {9: early, -2: late}  # no other is read
    return VisualTokens(torch.ones(len(early), 1), attention_received=blocks.__getitem__)


@given(seed=st.integers(0, 999), side=st.integers(2, 9), data=st.data())
@settings(max_examples=30)
def test_picks_are_the_definitions(seed: int, side: int, data: st.DataObject) -> None:
    n = side * side
    k = data.draw(st.integers(1, n))
    alpha = data.draw(st.sampled_from([0.0, 0.1, 0.3, 0.8]))
    g = torch.Generator().manual_seed(seed)
    early, late = torch.rand(2, n, generator=g, dtype=torch.float64)
    selection = HiPrune(alpha=alpha).select(tower_tokens(early, late), k)
    assert len(selection) == k
    if round(k * alpha / 5) <= k // 5:  # where the released code does not fail
        expected = hiprune(as_array(early), as_array(late), alpha, k, side)
        assert set(selection.order.tolist()) == expected


def test_neighbours_go_on_in_the_next_row_and_stay_in_the_picture() -> None:
    early, late = torch.zeros(16), torch.arange(16.0)
    early[[3, 0]] = torch.tensor([2.0, 1.0])  # the upper right corner, then the upper left one
    selection = HiPrune(alpha=1.0).select(tower_tokens(early, late), 10)
    # Of 3: before, after (in the next row), above (the first token), below. Of 0: itself, 1, 4.
    assert selection.order.tolist() == [3, 0, 2, 4, 1, 7, 15, 14, 13, 12]
    assert selection.gain[:2].tolist() == [2.0, 1.0]
    assert selection.gain[-4:].tolist() == [15.0, 14.0, 13.0, 12.0]
    few = HiPrune(alpha=1.0).select(tower_tokens(early, late), 3)
    assert few.order.tolist() == [15, 14, 13]  # no room for an anchor with its neighbours


def test_a_small_budget_has_no_anchors_and_ties_go_to_the_lower_index() -> None:
    flat = tower_tokens(torch.ones(36), torch.ones(36))
    assert HiPrune().select(flat, 25).order.tolist() == list(range(25))  # round(0.5) is 0
    order = HiPrune().select(flat, 26).order.tolist()
    assert order[:3] == [0, 1, 6] and order[3:] == [i for i in range(2, 27) if i != 6][:23]


def test_neighbours_are_of_the_same_view_however_the_budget_is_shared() -> None:
    """Two views of 3 x 3 whose tokens take turns."""
    view = torch.arange(18) % 2
    early = torch.zeros(18)
    early[8] = 1.0  # the centre of the first view
    tokens = dataclasses.replace(tower_tokens(early, torch.zeros(18)), view=view)
    for together, k in ((False, 10), (True, 5)):
        shared = dataclasses.replace(tokens, together=together)
        order = HiPrune(alpha=1.0).select(shared, k).order.tolist()
        assert order[:5] == [8, 6, 10, 2, 14]
