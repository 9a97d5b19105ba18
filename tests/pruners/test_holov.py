"""HoloV against an independent reference, and what its runs and their shares promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from spare_demo import VisualTokens
from spare_demo.pruners.holov import HoloV, run_scores, run_shares

Array = NDArray[np.float64]


def drawn(n: int, seed: int, sharpness: float = 1.0) -> tuple[VisualTokens, Array, Array]:
    """Random tokens 7 wide, 3 heads: as tokens, as features, and as (3, n) attention."""
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 7, generator=g, dtype=torch.float64)
    weights = (sharpness * torch.randn(3, n + 1, generator=g, dtype=torch.float64)).softmax(dim=1)
    attention = weights[:, 1:]
    blocks: list[int] = []

    def read(block: int, joined: bool = False) -> torch.Tensor:
        blocks.append(block)
        assert (block, joined) == (-2, False)
        return attention

    return VisualTokens(features, cls_attention=read), features.numpy(), attention.numpy()


def run_score(x: Array, a: list[float], run: list[int]) -> float:
    """The released score of one run of tokens."""
    if len(run) == 1:
        return a[run[0]]
    unit = {i: x[i] / (math.sqrt(sum(v * v for v in x[i])) + 1e-6) for i in run}
    variances = []
    for i in run:
        row = [0.0 if j == i else float(unit[i] @ unit[j]) for j in run]
        mean = sum(row) / (len(run) - 1)
        variances.append(sum((s - mean) ** 2 for s in row) / (len(run) - 1))
    mean_a = sum(1000 * a[i] for i in run) / len(run)
    factor = mean_a / (sum(variances) / len(run) + 1e-6)
    total = sum(1000 * a[i] + 0.09 * v * factor for i, v in zip(run, variances, strict=True))
    return total / len(run)


def holov(x: Array, attention: Array, k: int) -> list[int]:
    """The released function's picks for one view, token by token; before its zero padding."""
    n = len(x)
    a = [sum(head[i] for head in attention) / len(attention) for i in range(n)]
    runs, start = [], 0
    for r in range(16):
        size = n // 16 + (1 if r < n % 16 else 0)
        if size:
            runs.append(list(range(start, start + size)))
        start += size
    scores = [run_score(x, a, run) for run in runs]
    weights = [score / (sum(scores) + 1e-6) for score in scores]
    shares = [math.floor(weight * k) for weight in weights]
    left = k - sum(shares)
    for r in sorted(range(len(runs)), key=lambda r: -weights[r])[:left]:
        shares[r] += 1
    picks = []
    for run, share in zip(runs, shares, strict=True):
        picks += run if share >= len(run) else sorted(run, key=lambda i: -a[i])[:share]
    return picks


@given(n=st.integers(1, 120), seed=st.integers(0, 9999), data=st.data())
@settings(max_examples=40)
def test_it_is_the_reference_and_fills_up_with_the_best_left(
    n: int, seed: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, n))
    tokens, x, attention = drawn(n, seed, data.draw(st.sampled_from([0.3, 1.0, 3.0])))
    expected = holov(x, attention, k)
    order = HoloV().select(tokens, k).order.tolist()
    assert set(order[: len(expected)]) == set(expected)
    a = attention.mean(axis=0)
    rest = sorted((i for i in range(n) if i not in expected), key=lambda i: -a[i])
    assert order[len(expected) :] == rest[: k - len(expected)]


def test_released_shares_leave_something_to_fill_up_where_attention_is_sharp() -> None:
    """Without such a case the test above would never see the padding."""
    _, x, attention = drawn(120, 1, 3.0)
    assert len(holov(x, attention, 90)) < 90


@pytest.mark.parametrize("k", [16, 64, 200])
def test_equal_attention_gives_every_run_the_same_and_ties_go_to_the_lower_index(k: int) -> None:
    x = torch.randn(576, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens = VisualTokens(x, cls_attention=lambda block, joined=False: torch.full((2, 576), 1e-3))
    kept = HoloV().select(tokens, k).kept
    counts = torch.bincount(kept // 36, minlength=16)
    assert int(counts.max() - counts.min()) <= 1
    first = [36 * r + i for r in range(16) for i in range(int(counts[r]))]
    assert kept.tolist() == first


@given(seed=st.integers(0, 999))
@settings(max_examples=20)
def test_similarity_cancels_out_of_a_runs_score(seed: int) -> None:
    """As the module says: 1.09 times the mean attention, whatever the features are."""
    g = torch.Generator().manual_seed(seed)
    attention = torch.rand(36, generator=g, dtype=torch.float64)
    score = run_scores(torch.randn(1, 36, 64, generator=g), attention[None])
    assert float(score) == pytest.approx(1090 * float(attention.mean()), rel=1e-4)
    alone = run_scores(torch.ones(1, 36, 64), attention[None])  # v is 1 / 35
    assert float(alone) == pytest.approx(1090 * float(attention.mean()), rel=1e-3)


@pytest.mark.parametrize("cosine", [0.0, 1e-4, 1e-3])
def test_similarity_counts_where_the_tokens_of_a_run_are_nearly_orthogonal(cosine: float) -> None:
    g = torch.Generator().manual_seed(1)
    noise = torch.randn(6, 6, generator=g, dtype=torch.float64)
    x, attention = torch.eye(6) + cosine * noise, torch.rand(2, 6, generator=g, dtype=torch.float64)
    expected = [run_score(x.numpy(), run, [*range(6)]) for run in attention.tolist()]
    assert run_scores(x.expand(2, 6, 6), attention).tolist() == pytest.approx(expected, rel=1e-9)
    assert expected[0] < 1085 * float(attention[0].mean())


@given(st.lists(st.floats(0.0, 1e3), min_size=1, max_size=16), st.integers(1, 600))
@settings(max_examples=60)
def test_shares_follow_the_scores(scores: list[float], k: int) -> None:
    shares = run_shares(torch.tensor(scores, dtype=torch.float64), k)
    assert min(shares) >= 0 and sum(shares) <= k
    total = sum(scores)
    if total > 1:  # where the code's 1e-6 is small beside it, nothing is left over
        assert sum(shares) == k
        for score, share in zip(scores, shares, strict=True):
            assert abs(share - k * score / total) <= 1 + 1e-3
