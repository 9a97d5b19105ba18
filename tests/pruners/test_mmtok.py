"""MMTok against its definition, by hand, and without a question."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import mmtok
from references import as_array

from spare_demo import VisualTokens
from spare_demo.pruners.mmtok import MMTok


@given(
    seed=st.integers(0, 999),
    k=st.integers(1, 10),
    alpha=st.sampled_from([0.5, 2.0]),
    temperature=st.sampled_from([0.02, 0.2]),
)
@settings(max_examples=20)
def test_picks_are_the_definitions(seed: int, k: int, alpha: float, temperature: float) -> None:
    g = torch.Generator().manual_seed(seed)
    x, h, words = (
        torch.randn(*shape, generator=g, dtype=torch.float64)
        for shape in ((12, 6), (12, 5), (3, 6))
    )
    tokens = VisualTokens(x, states=h, words=lambda: words)
    arrays = [as_array(part) for part in (words, x, h)]
    selection = MMTok(alpha=alpha, temperature=temperature).select(tokens, k)
    assert selection.order.tolist() == mmtok(*arrays, alpha, temperature, k)


def words_along_the_axes(*, alpha: float) -> list[int]:
    x = torch.eye(6)
    h = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 2)
    tokens = VisualTokens(x, states=h, words=lambda: x[[4, 2]])
    return MMTok(alpha=alpha).select(tokens, 3).order.tolist()


def test_words_count_beside_the_picture_as_much_as_is_set() -> None:
    # Tokens 4 and 2 are the words' own; without them, one of the larger group of states first.
    assert set(words_along_the_axes(alpha=0.01)[:2]) == {2, 4}
    assert words_along_the_axes(alpha=8.0)[0] == 2
    assert MMTok(alpha=0.0).weight(
        VisualTokens(torch.eye(6), states=torch.eye(6), words=lambda: torch.eye(6)[[4, 2]])
    ).tolist() == pytest.approx([0, 0, 0.5, 0, 0.5, 0], abs=1e-9)


def test_the_weight_adds_up_to_one_in_each_view() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(12, 4, generator=g)
    tokens = VisualTokens(x, states=x, words=lambda: x[:3], view=torch.arange(12) % 3)
    weight = MMTok().weight(tokens)
    assert [float(weight[v::3].sum()) for v in range(3)] == pytest.approx([1.0] * 3)


def test_without_words_it_asks_for_a_question_and_clip_is_no_matter() -> None:
    x = torch.eye(4)
    silent = VisualTokens(x, x, x[:1], states=x)
    with pytest.raises(ValueError, match=r"'mmtok' needs text\. Ask a question"):
        MMTok().select(silent, 2)
    asked = dataclasses.replace(silent, clip_text=None, words=lambda: x[2:3])
    assert MMTok().select(asked, 2).order[0] == 2
