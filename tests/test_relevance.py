"""Raw cosine, its aggregation, and the two squashes, against values worked out by hand."""

from __future__ import annotations

import pytest
import references
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from spare_demo.relevance import (
    RelevanceOptions,
    aggregate,
    minmax_weight,
    patch_embeddings,
    raw_cosine,
    softplus_weight,
)


def test_cosine_keeps_its_sign() -> None:
    image = torch.tensor([[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0], [3.0, 4.0]])
    text = torch.tensor([[10.0, 0.0], [0.0, 0.1]])
    expected = torch.tensor([[1, 0], [0, 1], [-1, 0], [0.6, 0.8]])
    torch.testing.assert_close(raw_cosine(image, text).float(), expected)


def test_cosine_of_a_zero_vector_is_zero() -> None:
    cosine = raw_cosine(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 0.0], [1, 0]]))
    assert cosine.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_cosine_is_that_of_the_values_upcast(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    image = torch.randn(20, 7, generator=g).to(dtype)
    text = torch.randn(3, 7, generator=g).to(dtype)
    expected = references.cosines(references.as_array(image), references.as_array(text))
    cosine = raw_cosine(image, text)
    assert cosine.dtype == torch.float64
    torch.testing.assert_close(cosine, torch.tensor(expected), rtol=0, atol=1e-14)


def test_aggregation_over_text_pieces() -> None:
    cosine = torch.tensor([[0.2, 0.4], [-0.5, -0.1]])
    torch.testing.assert_close(aggregate(cosine), torch.tensor([0.3, -0.3]))
    torch.testing.assert_close(aggregate(cosine, "max"), torch.tensor([0.4, -0.1]))
    with pytest.raises(ValueError, match="mean, max"):
        aggregate(cosine, "median")


def test_softplus_weight_by_hand() -> None:
    # Over all five, the equal ones too: mean 1, population standard deviation 2.
    expected = torch.tensor([-0.5] * 4 + [2.0], dtype=torch.float64).exp().log1p()
    score = torch.tensor([0.0] * 4 + [5.0])
    torch.testing.assert_close(softplus_weight(score), expected)


def test_minmax_weight_by_hand() -> None:
    weight = minmax_weight(torch.tensor([-1.0, -0.5, 1.0]))
    expected = torch.tensor([1e-6 / 2, (0.5 + 1e-6) / 2, (2 + 1e-6) / 2], dtype=torch.float64)
    torch.testing.assert_close(weight, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("weigh", [softplus_weight, minmax_weight])
@pytest.mark.parametrize("score", [[0.25], [0.1, 0.1, 0.1], [0.0, 0.0], [1e-17, -1e-17, 0.0]])
def test_constant_relevance_weighs_every_token_one(weigh, score: list[float]) -> None:
    assert weigh(torch.tensor(score, dtype=torch.float64)).tolist() == [1.0] * len(score)


@pytest.mark.parametrize("length", range(2, 40))
def test_equal_scores_get_equal_weights(length: int) -> None:
    score = torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)[torch.arange(length) * 7 % 3]
    for weigh in (softplus_weight, minmax_weight):
        weight = weigh(score)
        for value in score.unique():
            assert len(weight[score == value].unique()) == 1


@given(st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=30))
def test_weights_are_positive_finite_and_keep_the_ranking(values: list[float]) -> None:
    score = torch.tensor(values, dtype=torch.float64)
    by_score = score.sort(stable=True).indices
    for weigh in (softplus_weight, minmax_weight):
        weight = weigh(score)
        assert torch.isfinite(weight).all()
        assert (weight > 0).all()
        assert (weight[by_score].diff() >= 0).all()


def test_softplus_weight_ignores_shift_and_scale_of_the_score() -> None:
    score = torch.randn(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(softplus_weight(score), softplus_weight(3 + 0.1 * score))


def test_patch_embeddings_normalise_then_project() -> None:
    norm = nn.LayerNorm(2)
    hidden = torch.tensor([[1.0, 3.0], [4.0, 0.0]])  # normalised to -1, 1 and 1, -1
    projection = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 5.0]])
    expected = torch.tensor([[-1.0, -1.0, 5.0], [1.0, 1.0, -5.0]])
    torch.testing.assert_close(
        patch_embeddings(hidden, norm, projection), expected, rtol=1e-4, atol=1e-4
    )


def test_patch_embeddings_of_a_half_precision_tower_are_computed_in_float32() -> None:
    torch.manual_seed(0)
    norm, projection = nn.LayerNorm(64).half(), torch.randn(64, 16).half() / 8
    hidden = torch.randn(9, 64).half()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = patch_embeddings(hidden, norm, projection)
    assert result.dtype == torch.float32
    upcast = norm.double()(hidden.double()) @ projection.double()
    torch.testing.assert_close(result, upcast.float(), rtol=1e-5, atol=1e-6)


def test_patch_embeddings_leave_the_tower_as_it_was() -> None:
    norm = nn.LayerNorm(4).half()
    patch_embeddings(torch.randn(2, 4).half(), norm, torch.eye(4))
    assert norm.weight.dtype == torch.float16


@pytest.mark.parametrize("layer", [0, 3, True, -1.0, "last"])
def test_layers_count_from_the_end(layer: object) -> None:
    with pytest.raises(ValueError, match="Count from the end"):
        RelevanceOptions(layer=layer)


def test_options_default_to_the_released_form() -> None:
    assert RelevanceOptions() == RelevanceOptions(layer=-2, text="stretches")
    with pytest.raises(ValueError, match="stretches, tokens"):
        RelevanceOptions(text="words")
