"""VisPruner and FasterVLM: the released rounds, by hand, and what the two have in common."""

from __future__ import annotations

import torch
from drawn_tokens import tower_tokens
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import vispruner
from references import as_array

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.vispruner import VisPruner


@given(seed=st.integers(0, 999), n=st.integers(1, 60), data=st.data())
@settings(max_examples=30)
def test_picks_are_the_definitions(seed: int, n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    share = data.draw(st.sampled_from([0.0, 0.3, 0.5, 1.0]))
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(n, 5, generator=g, dtype=torch.float64)
    attention = torch.rand(3, n, generator=g, dtype=torch.float64)
    expected = vispruner(as_array(h), as_array(attention), int(k * share), k)
    selection = VisPruner(important=share).select(tower_tokens(h, attention), k)
    assert selection.order.tolist() == expected


def test_by_hand() -> None:
    """Falling attention. 0 is important; of the others 1 and 3 are even, 2 and 4 odd places."""
    h = torch.tensor([[1.0, 0], [1, 0], [0, 1], [-1, 0], [1, 0.1]])
    attention = torch.tensor([[5.0, 4, 3, 2, 1]])
    order = VisPruner().select(tower_tokens(h, attention), 3).order.tolist()
    # 1 is like 4 and 3 is like nothing; one round drops both even places, as two are too many.
    assert order == [0, 2, 4]
    # With room for one more only the more similar of the two goes, and the even ones come first.
    assert VisPruner(important=0.25).select(tower_tokens(h, attention), 4).order.tolist() == [
        0, 3, 2, 4,
    ]  # fmt: skip


def test_fastervlm_is_the_order_of_attention_and_reads_no_states() -> None:
    attention = torch.rand(4, 50, generator=torch.Generator().manual_seed(0))
    tokens = VisualTokens(torch.ones(50, 1), cls_attention=lambda block, joined=False: attention)
    order = PRUNERS["fastervlm"].select(tokens, 50).order
    assert order.tolist() == attention.mean(dim=0).argsort(descending=True).tolist()
    assert PRUNERS["fastervlm"].nested and not PRUNERS["vispruner"].nested


def test_equal_tokens_go_by_the_lower_index() -> None:
    flat = tower_tokens(torch.ones(20, 3), torch.ones(1, 20))
    assert PRUNERS["fastervlm"].select(flat, 20).order.tolist() == list(range(20))
    # Of all alike, the first even places of the list are dropped.
    assert VisPruner(important=0.0).select(flat, 12).order.tolist() == [
        16, 18, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
    ]  # fmt: skip
