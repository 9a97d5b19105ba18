"""Why a patch was kept or lost: against least squares in float64, and against the picks' gains."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import references
import torch
from drawn_tokens import picture
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from spare_demo import measures
from spare_demo.analysis.why import STAND_INS, stand_ins, weigh, why
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.models import View
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

GREEDY = ["spare", "spare-reconstruction", "cdpruner", "cdpruner-paper", "cdpruner-diversity"]


def novelty(x: references.Array, kept: list[int]) -> references.Array:
    """Squared sine of every row to the kept ones, by least squares."""
    if not kept:
        return np.ones(len(x))
    rest = x - (np.linalg.lstsq(x[kept].T, x.T, rcond=None)[0].T @ x[kept])
    return (rest**2).sum(axis=1) / (x**2).sum(axis=1)


@pytest.mark.parametrize("name", GREEDY)
@given(n=st.integers(2, 30), d=st.integers(2, 40), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=15)
def test_the_pick_has_the_largest_product_and_that_is_its_gain(
    name: str, n: int, d: int, seed: int, data: st.DataObject
) -> None:
    tokens, method = picture(n, d, seed, torch.float64), PRUNERS[name]
    picks = method.select(tokens, n)
    step = data.draw(st.integers(0, min(n, d) - 1))
    weighed = weigh(method, tokens, picks.order, step)
    pick = int(picks.order[step])
    assert weighed.picked == pick
    assert float(weighed.value[pick]) == pytest.approx(float(picks.gain[step]), rel=1e-9)
    assert float(weighed.value.max()) <= float(weighed.value[pick]) * (1 + 1e-9)
    expected = novelty(references.as_array(tokens.features), picks.order[:step].tolist())
    np.testing.assert_allclose(weighed.novelty.numpy(), expected, atol=1e-9)


def test_the_factors_are_the_papers() -> None:
    tokens = picture(20, 8, 1, torch.float64)
    x = references.as_array(tokens.features)
    cosine = references.token_cosines(tokens).mean(axis=1)
    spare = weigh(PRUNERS["spare"], tokens, [], 0)
    cdpruner = weigh(PRUNERS["cdpruner"], tokens, [], 0)
    np.testing.assert_allclose(spare.magnitude.numpy(), (x**2).sum(axis=1))
    np.testing.assert_allclose(spare.text.numpy(), references.softplus_weight(-cosine))
    np.testing.assert_array_equal(cdpruner.magnitude.numpy(), np.ones(20))
    np.testing.assert_allclose(cdpruner.text.numpy(), references.minmax_weight(-cosine) ** 2)
    assert spare.picked is None  # no pick was told


def test_with_several_views_novelty_is_to_the_picks_of_the_own_view() -> None:
    view = torch.arange(24) // 8
    tokens, method = picture(24, 6, 3, torch.float64, view), PRUNERS["spare"]
    picks = method.select(tokens, 9)
    for step in range(9):
        weighed = weigh(method, tokens, picks.order, step)
        pick = int(picks.order[step])
        assert float(weighed.value[pick]) == pytest.approx(float(picks.gain[step]))
        own = view == view[pick]
        assert float(weighed.value[own].max()) <= float(weighed.value[pick]) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["random", "uniform", "anti-relevance"])
def test_other_methods_have_no_factors(name: str) -> None:
    tokens = picture(16, 4, 0, torch.float64)
    assert PRUNERS[name].factors(tokens) is None
    assert weigh(PRUNERS[name], tokens, [1, 2], 1) is None


@given(n=st.integers(3, 30), d=st.integers(2, 40), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=30)
def test_stand_ins_are_the_projection_largest_first(
    n: int, d: int, seed: int, data: st.DataObject
) -> None:
    x = picture(n, d, seed, torch.float64).features
    kept = data.draw(st.permutations(range(1, n)))[: data.draw(st.integers(1, min(n - 1, d)))]
    found = stand_ins(x, kept, 0)
    rows = references.as_array(x)
    expected = np.linalg.lstsq(rows[kept].T, rows[0], rcond=None)[0]
    ranked = sorted(range(len(kept)), key=lambda i: -abs(expected[i]))
    assert set(found.tokens) <= set(kept)
    assert found.tokens == tuple(kept[i] for i in ranked)[: len(found.tokens)]
    np.testing.assert_allclose(
        found.coefficients, expected[ranked][: len(found.tokens)], rtol=1e-6, atol=1e-9
    )
    lengths = np.linalg.norm(rows, axis=1)
    for token, coefficient, share in zip(
        found.tokens, found.coefficients, found.shares, strict=True
    ):
        assert share == pytest.approx(abs(coefficient) * lengths[token] / lengths[0])
    assert found.leftover == pytest.approx(novelty(rows, kept)[0], abs=1e-9)


def test_copies_share_the_standing_in_and_an_own_copy_leaves_nothing() -> None:
    x = torch.eye(4, 6).double()
    x = torch.cat([x, x[:1], 2 * x[1:2]])  # 4 is 0 again, 5 is twice 1
    both = stand_ins(x, [0, 4, 1], 5)
    assert both.tokens == (1,)
    assert both.coefficients == pytest.approx((2.0,))
    assert both.shares == pytest.approx((1.0,))
    assert both.leftover == pytest.approx(0, abs=1e-15)
    halves = stand_ins(x, [0, 4], 0)
    assert sorted(halves.tokens) == [0, 4]
    assert halves.coefficients == pytest.approx((0.5, 0.5))
    nothing = stand_ins(x, [2, 3], 5)
    assert nothing.tokens == ()
    assert nothing.leftover == 1


def test_zero_tokens_stand_for_nothing_and_need_nobody() -> None:
    x = torch.eye(3, 5).double()
    x[2] = 0
    assert stand_ins(x, [0, 1], 2).leftover == 0
    assert stand_ins(x, [2], 0) == stand_ins(x, [1], 0)
    assert stand_ins(x, [2], 0).leftover == 1


def test_no_more_stand_ins_than_asked_for() -> None:
    x = picture(20, 30, 5, torch.float64).features
    assert len(stand_ins(x, range(1, 20), 0).tokens) == STAND_INS


@pytest.fixture(scope="module")
def exploration(view: View) -> Exploration:
    methods = choose(("spare", "cdpruner", "random", "uniform", "visionzip"))
    return explore(view, methods).with_set("mine", Selection(order=[7, 2, 11]))


def test_leftover_of_a_merging_selection_is_not_defined(exploration: Exploration) -> None:
    features = exploration.view.tokens.features
    plain = exploration.leftover(Selection(order=[3, 4]))
    expected = novelty(references.as_array(features), [3, 4])
    np.testing.assert_allclose(plain.numpy(), expected, atol=1e-12)
    sources = torch.ones(1, len(features))
    assert exploration.leftover(Selection([3, 4], features=features[:1], sources=sources)) is None
    told = why(exploration, "visionzip", 0, 3)
    assert told.leftover is None and told.stand_ins is None


@pytest.mark.parametrize("label", ["spare", "cdpruner"])
def test_why_a_patch_was_kept_or_lost(exploration: Exploration, label: str) -> None:
    order = exploration.picks[label].order.tolist()
    gain = exploration.picks[label].gain
    kept = why(exploration, label, order[2], 5)
    assert (kept.rank, kept.step, kept.winner) == (3, 2, order[2])
    assert kept.factors == kept.winning
    assert kept.factors.value == pytest.approx(float(gain[2]), rel=1e-6)
    assert kept.leftover == 0
    assert kept.stand_ins is None
    for step, number in (("first", 0), ("last", 4)):
        other = why(exploration, label, order[2], 5, step)
        assert (other.rank, other.step, other.winner) == (3, number, order[number])

    lost = why(exploration, label, order[9], 5)
    assert (lost.rank, lost.step, lost.winner) == (None, 4, order[4])
    assert lost.factors.value < lost.winning.value
    assert set(lost.stand_ins.tokens) <= set(order[:5])
    assert lost.leftover == lost.stand_ins.leftover
    left = exploration.leftover(exploration.selections(5)[label])
    assert lost.leftover == pytest.approx(float(left[order[9]]), abs=1e-9)
    assert lost.cosine == pytest.approx(float(exploration.view.relevance[order[9]]))


@pytest.mark.parametrize("together", [False, True])
def test_a_patch_loses_to_one_that_it_was_weighed_with(
    tiny_next: Any, photo: Image.Image, together: bool
) -> None:
    view = tiny_next.encode(photo, "Is it red?", together=together)
    explored = explore(view, choose(("spare", "cdpruner")))
    of = view.tokens.view
    for label, selection in explored.selections(7).items():
        for patch in set(range(view.tokens.n)) - set(selection.order.tolist()):
            reason = why(explored, label, patch, 7)
            assert reason.factors.value <= reason.winning.value
            if together:
                assert reason.step == 6
            else:
                assert of[reason.winner] == of[patch]
            own = [n for n, p in enumerate(selection.order) if together or of[p] == of[patch]]
            for step, number in (("first", own[0]), ("last", own[-1])):
                assert why(explored, label, patch, 7, step).step == number
    assert why(explored, "spare", view.tokens.n - 1, 1).step == 0  # no pick is in its view


@pytest.mark.parametrize("label", ["random", "uniform", "mine"])
def test_why_without_factors_gives_the_rest(exploration: Exploration, label: str) -> None:
    kept = exploration.selections(3)[label].order.tolist()
    reason = why(exploration, label, kept[1], 3)
    assert (reason.rank, reason.factors, reason.winner, reason.winning) == (2, None, None, None)
    lost = next(patch for patch in range(16) if patch not in kept)
    reason = why(exploration, label, lost, 3)
    assert reason.rank is None
    assert reason.stand_ins is not None
    assert 0 <= reason.leftover <= 1


def test_a_reason_does_not_make_the_rows_shorter_anew(
    exploration: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact, asked = measures.compact, []
    once = exploration.view.picture.compact_features
    monkeypatch.setattr(measures, "compact", lambda rows: asked.append(rows) or compact(rows))
    kept = exploration.selections(3)["random"].order.tolist()
    why(exploration, "random", next(i for i in range(16) if i not in kept), 3)
    assert [rows is once for rows in asked] == [True]


def test_a_reason_is_plain_numbers(exploration: Exploration) -> None:
    told = dataclasses.asdict(why(exploration, "spare", 0, 4))
    assert json.loads(json.dumps(told, allow_nan=False))["patch"] == 0


@pytest.mark.parametrize("patch", [-1, 16])
def test_a_patch_that_is_not_there_is_refused(exploration: Exploration, patch: int) -> None:
    with pytest.raises(ValueError, match="Choose one from 0 to 15"):
        why(exploration, "spare", patch, 4)
