"""SPARE against Algorithm 1 line by line, against LAPACK's pivoted QR, and by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import references
import scipy.linalg
import torch
from drawn_tokens import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo import VisualTokens
from spare_demo.pruners.spare import Spare

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


SQUASH = {"softplus": references.softplus_weight, "minmax": references.minmax_weight}


def relevance(tokens: VisualTokens, aggregation: str) -> references.Array:
    cosine = references.token_cosines(tokens)
    return cosine.mean(axis=1) if aggregation == "mean" else cosine.max(axis=1)


def by_the_paper(tokens: VisualTokens, method: Spare, k: int) -> list[int]:
    rho = np.ones(tokens.n)
    if method.guidance != "none":
        sign = -1 if method.guidance == "anti" else 1
        rho = SQUASH[method.squash](sign * relevance(tokens, method.aggregation))
    return references.spare(references.as_array(tokens.features), rho, k)


@pytest.mark.parametrize("guidance", ["anti", "none", "normal"])
@pytest.mark.parametrize("squash", ["softplus", "minmax"])
@pytest.mark.parametrize("aggregation", ["mean", "max"])
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 50),
    seed=st.integers(0, 999),
    dtype=st.sampled_from(DTYPES),
)
@settings(max_examples=12)
def test_picks_are_those_of_algorithm_1(
    aggregation, squash, guidance, n: int, d: int, seed: int, dtype: torch.dtype
) -> None:
    method = Spare(aggregation=aggregation, squash=squash, guidance=guidance)
    tokens = picture(n, d, seed, dtype)
    k = min(n, d)
    assert method.select(tokens, k).order.tolist() == by_the_paper(tokens, method, k)


@given(n=st.integers(1, 60), d=st.integers(1, 60), seed=st.integers(0, 999))
@settings(max_examples=40)
def test_equal_weights_are_column_pivoted_qr(n: int, d: int, seed: int) -> None:
    x = picture(n, d, seed, torch.float64).features
    k = min(n, d)
    _, r, pivots = scipy.linalg.qr(x.numpy().T, pivoting=True, mode="economic")
    selection = Spare(guidance="none").select(VisualTokens(x), k)
    assert selection.order.tolist() == pivots[:k].tolist()
    torch.testing.assert_close(selection.gain, torch.tensor(np.diag(r)[:k] ** 2))


def test_equal_weights_are_a_greedy_determinantal_point_process() -> None:
    x = picture(30, 20, 5, torch.float64).features
    expected = references.greedy_log_determinant((x @ x.T).numpy(), 12)
    assert Spare(guidance="none").select(VisualTokens(x), 12).order.tolist() == expected


def test_by_hand_without_text() -> None:
    x = torch.tensor([[3.0, 0.0], [2.9, 0.1], [0.0, 2.0], [1.0, 1.0]])
    selection = Spare(guidance="none").select(VisualTokens(x), 4)
    # The longest first; then what sticks out of its axis most: 4, 1 and 0.01. After two picks
    # the plane is full, and the longer of the two that are left comes first.
    assert selection.order.tolist() == [0, 2, 1, 3]
    assert selection.gain.tolist() == pytest.approx([9, 4, 0, 0])


def test_by_hand_with_text() -> None:
    # Cosines 0 and 1 to the question; the z-scores of the anti-relevance are 1 and -1.
    tokens = VisualTokens(
        torch.tensor([[2.0, 0.0], [0.0, 3.0]]),
        clip_image=torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
        clip_text=torch.tensor([[5.0, 0.0]]),
    )
    high, low = math.log(1 + math.e), math.log(1 + 1 / math.e)
    anti, normal = Spare().select(tokens, 2), Spare(guidance="normal").select(tokens, 2)
    assert anti.order.tolist() == [0, 1]  # 4 * 1.313 before 9 * 0.313
    assert anti.gain.tolist() == pytest.approx([4 * high, 9 * low])
    assert normal.order.tolist() == [1, 0]
    assert normal.gain.tolist() == pytest.approx([9 * high, 4 * low])
    weight = Spare().weight(tokens)
    assert weight.tolist() == pytest.approx([high, low])


def test_the_length_of_a_token_counts() -> None:
    tokens = picture(20, 8, 1, torch.float64)
    longer = tokens.features.clone()
    longer[13] *= 100
    assert int(Spare(guidance="none").select(VisualTokens(longer), 1).order) == 13


def test_constant_relevance_is_reconstruction_alone() -> None:
    tokens = picture(20, 8, 1, torch.float64)
    flat = VisualTokens(tokens.features, tokens.clip_image[:1].repeat(20, 1), tokens.clip_text)
    plain = Spare(guidance="none").select(tokens, 8)
    for method in (Spare(), Spare(squash="minmax"), Spare(guidance="normal")):
        assert torch.equal(method.select(flat, 8).order, plain.order)


def test_statistics_run_over_all_views_together() -> None:
    joint, split = (picture(20, 8, 1, view=view) for view in (None, torch.arange(20) % 2))
    assert torch.equal(Spare().weight(joint), Spare().weight(split))


@pytest.mark.parametrize("squash", ["softplus", "minmax"])
@pytest.mark.parametrize("aggregation", ["mean", "max"])
@given(seed=st.integers(0, 999), n=st.integers(3, 40), views=st.integers(1, 5))
@settings(max_examples=10)
def test_statistics_by_view_are_those_of_the_view_as_a_picture(
    aggregation, squash, seed: int, n: int, views: int
) -> None:
    g = torch.Generator().manual_seed(seed)
    which = torch.randint(0, views, (n,), generator=g)
    tokens = picture(n, 8, seed, torch.float64, which)
    method = Spare(aggregation=aggregation, squash=squash, statistics="view")
    weight = method.weight(tokens)
    assert weight.dtype == torch.float64
    score = -relevance(tokens, aggregation)
    expected = np.ones(n)
    for v in which.unique():
        inside = (which == v).numpy()
        if inside.sum() > 1:  # else its relevance is constant
            expected[inside] = SQUASH[squash](score[inside])
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-9)


def test_statistics_by_view_change_only_pictures_of_several_views() -> None:
    by_view = Spare(statistics="view")
    tokens = picture(30, 12, 2, torch.float64)
    assert by_view.select(tokens, 9).order.tolist() == Spare().select(tokens, 9).order.tolist()
    views = picture(30, 12, 2, torch.float64, torch.arange(30) // 10)
    assert not torch.equal(by_view.weight(views), Spare().weight(views))
    # Each view is ranked as if it were the whole picture, whatever is in the others.
    order = by_view.select(views, 9).order
    for v in range(3):
        part = slice(10 * v, 10 * v + 10)
        alone = VisualTokens(tokens.features[part], tokens.clip_image[part], tokens.clip_text)
        assert (order[order // 10 == v] - 10 * v).tolist() == Spare().select(
            alone, 3
        ).order.tolist()


def test_the_choices_that_the_paper_leaves_open_are_named() -> None:
    for words in ("--together", "--relevance-text", "--relevance-layer", "statistics=view"):
        assert words in Spare().deviations and words in Spare(guidance="normal").deviations
    plain = Spare(guidance="none").deviations
    assert "--together" in plain and "--relevance-text" not in plain


def test_the_guidance_names_the_method() -> None:
    assert Spare().name == Spare(aggregation="max").name == "spare"
    assert replace(Spare(), guidance="none").name == "spare-reconstruction"
    assert replace(Spare(), guidance="none").text_free is None
    assert Spare().text_free == Spare(guidance="normal").text_free == "spare-reconstruction"
