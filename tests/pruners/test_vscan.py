"""VScan's vision stage against an independent reference: windows, the rest, and averages."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_tokens import vscan_tokens
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import vscan

from spare_demo import VisualTokens
from spare_demo.pruners.vscan import VScan, scan


@pytest.mark.parametrize("side", [8, 12, 24])
@given(seed=st.integers(0, 9999), data=st.data())
@settings(max_examples=6)
def test_it_is_the_reference(side: int, seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, min(96, side * side)))
    tokens, x, attention = vscan_tokens(side, seed)
    picks, rows, parts = vscan(x, *attention, side, k)
    selection = VScan().select(tokens, k)
    assert selection.order.tolist() == picks
    assert float(selection.gain[-1]) == pytest.approx(attention[1][:, picks[-1]].mean())
    np.testing.assert_allclose(selection.features.numpy(), rows, atol=1e-12)
    np.testing.assert_array_equal(selection.sources.numpy(), parts)
    assert selection.row_tokens.tolist() == sorted(picks)  # of equal parts not the lowest


def test_half_of_a_budget_is_spread_over_the_windows_from_32_on() -> None:
    tokens, _, _ = vscan_tokens(24, 1)
    for k, quota in ((31, 0), (32, 1), (63, 1), (64, 2), (96, 3)):
        local = VScan().select(tokens, k).order[: 16 * quota]
        window = local // 24 // 6 * 4 + local % 24 // 6
        assert torch.equal(window.bincount(minlength=16), torch.full((16,), quota))
    late, early = torch.rand(2, 60, generator=torch.Generator().manual_seed(0))
    local = scan(early, late, 32)[0][:16]  # eight a row, of the last one four
    assert sorted((local // 8 // 2 * 4 + local % 8 // 2).tolist()) == list(range(16))


def test_ties_go_to_the_lower_index_and_all_tokens_stay_as_they_are() -> None:
    flat = torch.full((2, 64), 1 / 65)
    x = torch.ones(64, 3)
    tokens = VisualTokens(x, cls_attention=lambda block, joined=False: flat)
    few = VScan().select(tokens, 3)
    assert few.order.tolist() == [0, 1, 2]
    assert few.sources.sum(dim=1).tolist() == [62, 1, 1]  # equal cosines: all join the first
    tokens, x_all, _ = vscan_tokens(8, 2)
    whole = VScan().select(tokens, 64)
    assert sorted(whole.order.tolist()) == list(range(64))
    np.testing.assert_array_equal(whole.features.numpy(), x_all)


@pytest.mark.parametrize("n", [1, 2, 5, 37, 100, 575])
def test_views_that_are_no_square_still_have_k_tokens(n: int) -> None:
    g = torch.Generator().manual_seed(n)
    early, late = torch.rand(n, generator=g), torch.rand(n, generator=g)
    for k in {1, (n + 1) // 2, n}:
        place, value = scan(early, late, k)
        assert len(set(place.tolist())) == len(value) == k and int(place.max()) < n


def test_each_view_is_scanned_and_merged_by_itself() -> None:
    tokens, x, (early, late) = vscan_tokens(8, 4, views=2)
    selection = VScan().select(tokens, 80)
    apart = [vscan(x[v], early[:, v], late[:, v], 8, 40) for v in (slice(0, 64), slice(64, 128))]
    assert selection.order.tolist() == [*apart[0][0], *(i + 64 for i in apart[1][0])]
    np.testing.assert_allclose(
        selection.features.numpy(), np.concatenate([rows for _, rows, _ in apart]), atol=1e-12
    )
