"""The measures against hand-made answers, least squares, enumeration and known arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import references
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo import PRUNERS, Selection, VisualTokens
from spare_demo.measures import (
    chance_above,
    compact,
    curve_budgets,
    expected_jaccard,
    jaccard,
    kl_divergence,
    leftover_share,
    merged_error,
    random_spread,
    rank,
    reconstruction_curve,
    reconstruction_error,
    singular_squares,
    svd_bound,
)

HAND = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]])


def matrix(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_error_by_hand() -> None:
    whole = math.sqrt(18)
    assert reconstruction_error(HAND, []) == pytest.approx(1)
    assert reconstruction_error(HAND, [0]) == pytest.approx(math.sqrt(8) / whole)
    assert reconstruction_error(HAND, [0, 1]) == pytest.approx(math.sqrt(8) / whole)
    assert reconstruction_error(HAND, [2]) == pytest.approx(math.sqrt(4 + 9 * 4 / 5) / whole)
    assert reconstruction_error(HAND, [0, 2]) == pytest.approx(2 / whole)
    assert reconstruction_error(HAND, [0, 2, 3]) == pytest.approx(0, abs=1e-12)
    assert reconstruction_error(HAND, [0, 0, 0, 0]) == pytest.approx(math.sqrt(8) / whole)
    assert reconstruction_error(HAND * 1e-7, [0]) == pytest.approx(math.sqrt(8) / whole)


def test_the_error_of_merged_rows_is_of_their_span() -> None:
    x = matrix(9, 6)
    assert merged_error(x, x[[4, 1]]) == pytest.approx(reconstruction_error(x, [1, 4]))
    assert merged_error(x, x) == pytest.approx(0, abs=1e-12)
    assert reconstruction_error(x, torch.randperm(len(x))) == 0
    # Along (1, 0, 1) lies half of the squares of (3, 0, 0), (1, 2, 0)'s 1 and (0, 0, 2).
    row = torch.tensor([[0.5, 0.0, 0.5]])
    assert merged_error(HAND, row) == pytest.approx(math.sqrt(1 - (9 + 1 + 4) / 2 / 18))
    # A row with a part outside the span of X helps less.
    half = merged_error(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 3.0]]))
    assert half == pytest.approx(math.sqrt(0.5))


def test_leftover_by_hand() -> None:
    assert leftover_share(HAND, []).tolist() == [1, 0, 1, 1]
    expected = torch.tensor([0, 0, 0.8, 1], dtype=torch.float64)
    torch.testing.assert_close(leftover_share(HAND, [0]), expected)


@given(n=st.integers(2, 24), d=st.integers(1, 30), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=40)
def test_error_is_that_of_least_squares(n: int, d: int, seed: int, data: st.DataObject) -> None:
    x = matrix(n, d, seed)
    kept = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    expected = references.projection_error(x.numpy(), kept)
    assert reconstruction_error(x, kept) == pytest.approx(expected / float(x.norm()), abs=1e-9)
    share = leftover_share(x, kept)
    left = (share * x.square().sum(dim=1)).sum().sqrt()
    assert float(left) == pytest.approx(expected, abs=1e-9)
    assert not share[kept].any()  # exactly: a patch that was kept is not lost by rounding


def test_copies_and_zero_tokens_add_no_direction() -> None:
    x = matrix(8, 12)
    x[3], x[5] = x[2], 0
    alone = reconstruction_error(x, [2])
    assert reconstruction_error(x, [2, 3, 5]) == pytest.approx(alone)
    assert reconstruction_curve(x, [2, 3, 5], [1, 2, 3]).tolist() == pytest.approx([alone] * 3)
    large = reconstruction_curve(x * 1e9, [2, 3], [1, 2])
    assert large.tolist() == pytest.approx([alone] * 2)
    flat = matrix(6, 2)  # the pick named twice comes when nothing is left
    alone = reconstruction_error(flat, [0])
    curve = reconstruction_curve(flat, [0, 1, 2, 2], [1, 4])
    assert curve.tolist() == pytest.approx([alone, 0], abs=1e-12)


def test_a_short_token_and_a_small_difference_are_directions_of_their_own() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1e-11], [0.0, 1.0], [1.0, 0.0], [1.0, 1e-5]]).double()
    assert reconstruction_error(x, [0, 1]) == pytest.approx(0, abs=1e-9)
    assert reconstruction_error(x, [0, 3, 4]) == pytest.approx(0, abs=1e-9)
    assert rank(singular_squares(x[[0, 4]])) == 2


@pytest.mark.parametrize("d", [6, 50])
def test_curve_is_the_error_at_every_budget(d: int) -> None:
    x = matrix(20, d)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    budgets = [7, 0, 20, 1, 7, 13]
    curve = reconstruction_curve(x, order, budgets)
    expected = [reconstruction_error(x, order[:k]) for k in budgets]
    assert curve.tolist() == pytest.approx(expected, abs=1e-9)
    assert reconstruction_curve(x, order, []).shape == (0,)
    assert reconstruction_curve(x, order, torch.tensor(budgets)).equal(curve)
    for wrong in ([21], [-1]):
        with pytest.raises(ValueError, match="Choose budgets from 0 to 20"):
            reconstruction_curve(x, order, wrong)


@pytest.mark.parametrize("d", [6, 50])
def test_svd_bound_is_the_best_any_k_directions_can_do(d: int) -> None:
    x = matrix(20, d)
    budgets = list(range(21))
    squares = singular_squares(x)
    torch.testing.assert_close(squares.flip(0), torch.linalg.svdvals(x).square())
    bound = svd_bound(squares, budgets)
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    for k in budgets:
        truncated = u[:, :k] @ s[:k].diag() @ v[:k]
        least = float((x - truncated).norm() / x.norm())
        assert float(bound[k]) == pytest.approx(least, abs=1e-9)
    order = PRUNERS["spare-reconstruction"].select(VisualTokens(x), 20).order
    assert (reconstruction_curve(x, order, budgets) >= bound - 1e-9).all()
    with pytest.raises(ValueError, match="A budget of -1 is not possible"):
        svd_bound(squares, [3, -1])
    assert svd_bound(squares, []).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_bound_is_left_where_tokens_span_all(dtype: torch.dtype) -> None:
    x = (matrix(20, 8).to(dtype) @ matrix(8, 30).to(dtype)).double()
    x = torch.cat([x[:8], x[:8], torch.zeros(2, 30)])
    order = PRUNERS["spare-reconstruction"].select(VisualTokens(x), 8).order
    bound = svd_bound(singular_squares(x), range(9))
    assert (reconstruction_curve(x, order, range(9)) >= bound).all() and bound[7] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_counts_directions_and_no_rounding(dtype: torch.dtype) -> None:
    x = (matrix(30, 7) @ matrix(7, 20)).to(dtype)
    assert rank(singular_squares(x)) == 7
    assert rank(singular_squares(matrix(5, 9))) == 5
    assert rank(singular_squares(torch.zeros(4, 3))) == 0


@pytest.mark.parametrize("d", [6, 50])
def test_compact_features_have_the_same_inner_products_and_measures(d: int) -> None:
    x = matrix(20, d)
    small = compact(x)
    assert small.shape == (20, min(20, d))
    torch.testing.assert_close(small @ small.T, x @ x.T)
    assert reconstruction_error(small, [1, 2]) == pytest.approx(reconstruction_error(x, [1, 2]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_measures_take_any_precision_and_change_nothing(dtype: torch.dtype) -> None:
    x = matrix(9, 5).to(dtype)
    before = x.clone()
    array = references.as_array(before)
    expected = references.projection_error(array, [0, 4]) / np.linalg.norm(array)
    assert reconstruction_error(x, [0, 4]) == pytest.approx(expected)
    leftover_share(x, [1])
    svd_bound(singular_squares(x), [2])
    assert torch.equal(x, before)


def test_features_of_zeros_have_no_error() -> None:
    x = torch.zeros(4, 3)
    assert reconstruction_error(x, [1]) == 0
    assert svd_bound(singular_squares(x), [0, 2]).tolist() == [0, 0]
    assert leftover_share(x, [1]).tolist() == [0, 0, 0, 0]


def test_random_spread_is_that_of_the_random_method() -> None:
    x, budgets, seeds = matrix(20, 8), [1, 4, 8], [0, 1, 2]
    spread = random_spread(x, budgets, seeds)
    curves = []
    for seed in seeds:
        order = type(PRUNERS["random"])(seed=seed).select(VisualTokens(x), 20).order
        curves.append(reconstruction_curve(x, order, budgets))
    stack = torch.stack(curves)
    torch.testing.assert_close(spread.mean, stack.mean(0))
    torch.testing.assert_close(spread.low, stack.amin(0))
    torch.testing.assert_close(spread.high, stack.amax(0))
    assert (spread.low < spread.high)[:2].all()
    with pytest.raises(ValueError, match="at least one"):
        random_spread(x, budgets, [])


def test_curve_budgets_end_at_n_and_hold_the_marks() -> None:
    assert curve_budgets(1) == (1,)
    assert curve_budgets(2) == (1, 2)
    budgets = curve_budgets(576)
    assert budgets[-1] == 576
    assert {32, 64, 128, 192} < set(budgets)
    assert list(budgets) == sorted(set(budgets))


def test_the_chance_of_exceeding_counts_ties_half() -> None:
    a, b = torch.tensor([1.0, 2.0, 2.0]), torch.tensor([2.0, 0.0])
    pairs = [(x > y) + 0.5 * (x == y) for x in a.tolist() for y in b.tolist()]
    assert chance_above(a, b) == pytest.approx(np.mean(pairs))
    assert math.isnan(chance_above(a, b[:0]))


def test_jaccard_by_hand() -> None:
    assert jaccard([0, 1, 2], Selection([2, 9]).order, 10) == 0.25
    assert jaccard([], [], 3) == 1
    with pytest.raises(ValueError, match="0 to 8"):
        jaccard([0], [9], 9)


@pytest.mark.parametrize(
    ("n", "ka", "kb"), [(6, 2, 3), (7, 5, 4), (5, 5, 5), (4, 0, 2), (8, 1, 1), (3, 3, 0)]
)
def test_expected_jaccard_is_the_mean_over_all_pairs(n: int, ka: int, kb: int) -> None:
    assert expected_jaccard(n, ka, kb) == pytest.approx(references.mean_jaccard(n, ka, kb))


def test_expected_jaccard_at_the_sizes_of_the_page() -> None:
    assert expected_jaccard(576, 576, 576) == pytest.approx(1)
    # Above the ratio of the expectations, 32^2/576 shared over 64 - 32^2/576, which is 0.02857.
    assert 0.0286 < expected_jaccard(576, 32, 32) < 0.030
    assert 0 < expected_jaccard(2880, 640, 640) < 1
    assert expected_jaccard(5, 0, 0) == 1
    for sizes in ((6, 1), (1, 6), (-1, 1), (1, -1)):
        with pytest.raises(ValueError, match="Choose sizes from 0 to 5"):
            expected_jaccard(5, *sizes)


def test_kl_by_hand() -> None:
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert float(kl_divergence(p.log() - 3, q.log() + 7)) == pytest.approx(expected, rel=1e-6)
    assert float(kl_divergence(p.log(), p.log())) == 0
    excluded = torch.tensor([0.0, -torch.inf])
    assert float(kl_divergence(excluded, q.log())) == pytest.approx(math.log(4))
    assert float(kl_divergence(excluded, excluded)) == 0
    assert float(kl_divergence(p.log(), excluded)) == math.inf
    assert float(kl_divergence(torch.tensor([0.0, -800.0]), excluded)) == 0
    several = kl_divergence(torch.stack([p.log(), excluded]), torch.stack([q.log()] * 2))
    assert several.tolist() == pytest.approx([expected, math.log(4)], rel=1e-6)
    logits = torch.randn(40, 3, 9, generator=torch.Generator().manual_seed(0))
    near = kl_divergence(logits, logits + 1)
    assert near.shape == (40, 3) and near.min() == 0  # some were less than that by rounding
    with pytest.raises(ValueError, match="same positions"):
        kl_divergence(torch.zeros(3), torch.zeros(4))


@pytest.mark.parametrize(
    "measure",
    [
        lambda array: compact(array),
        lambda array: leftover_share(array, [0]),
        lambda array: merged_error(torch.from_numpy(array), array),
        lambda array: reconstruction_curve(array, [0, 1], [1, 2]),
        lambda array: singular_squares(array),
        lambda array: svd_bound(array[0], [1]),
        lambda array: kl_divergence(array, torch.eye(3)),
        lambda array: kl_divergence(torch.eye(3), array),
        lambda array: chance_above(array[0], torch.ones(1)),
        lambda array: chance_above(torch.ones(1), array[0]),
    ],
)
def test_an_array_is_refused_with_the_way_to_a_tensor(measure: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match=r"it is ndarray\. torch\.as_tensor makes one"):
        measure(np.eye(3))


@pytest.mark.parametrize(
    "measure",
    [
        compact,
        singular_squares,
        lambda x: leftover_share(x, [0]),
        lambda x: reconstruction_error(x, [0]),
        lambda x: reconstruction_curve(x, [0, 1], [1, 2]),
        lambda x: merged_error(x, torch.ones(1, 4)),
        lambda x: merged_error(torch.ones(3, 4), x),
    ],
)
def test_what_is_no_matrix_is_refused(measure: Callable[[Any], object]) -> None:
    for x in (torch.ones(4), torch.ones(2, 3, 4), torch.tensor(1.0)):
        with pytest.raises(ValueError, match="must be a non-empty matrix"):
            measure(x)
    with pytest.raises(ValueError, match="holds NaN"):
        measure(torch.full((3, 4), math.nan))


def test_merged_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="rows is 5 wide but features is 4 wide"):
        merged_error(torch.ones(3, 4), torch.ones(2, 5))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize(("n", "d"), [(64, 96), (64, 24)])
def test_a_gpu_measures_as_the_cpu_does(n: int, d: int, dependent: bool) -> None:
    x = matrix(n, d)
    x = torch.cat([x, x[:8]]) if dependent else x
    order, budgets = (
        torch.randperm(len(x), generator=torch.Generator().manual_seed(1)),
        (0, 1, 7, len(x)),
    )

    def measure(device: str) -> torch.Tensor:
        features = compact(x.to(device))
        assert features.device.type == device
        spread = random_spread(features, budgets, (0, 1))
        curve = reconstruction_curve(features, order, budgets)
        bound = svd_bound(singular_squares(features), budgets)
        left = leftover_share(features, order[:9]).cpu()
        return torch.cat([curve, spread.mean, spread.low, spread.high, bound, left])

    torch.testing.assert_close(measure("cuda"), measure("cpu"), rtol=0, atol=1e-6)
