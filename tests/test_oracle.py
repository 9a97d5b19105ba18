"""The search for the tokens that an answer needs, on a model of 16 tokens."""

from __future__ import annotations

import math

import oracle
import pytest
import torch

from spare_demo.models import LlavaModel, View
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection

N = 16


def kl(model: LlavaModel, view: View, kept: list[int]) -> float:
    """From the definition, a prefill at a time."""
    full, pruned = (
        model.answer(view, selection, 1).first_logits.double().log_softmax(dim=-1).tolist()
        for selection in (None, Selection(torch.tensor(kept)))
    )
    return math.fsum(math.exp(p) * (p - q) for p, q in zip(full, pruned, strict=True))


def test_the_divergence_is_its_definition(tiny_model: LlavaModel, view: View) -> None:
    sets = [[0], [3, 5], list(range(N)), list(range(1, N))]
    found = oracle.first_token_kl(tiny_model, view, [Selection(kept) for kept in sets])
    assert found == pytest.approx([kl(tiny_model, view, kept) for kept in sets], rel=1e-4, abs=1e-7)
    assert abs(found[2]) < 1e-6


def test_each_token_dropped_is_the_one_missed_least(tiny_model: LlavaModel, view: View) -> None:
    order = oracle.search(tiny_model, view).order.tolist()
    assert sorted(order) == list(range(N))
    for k in range(1, N):  # of the first k + 1 the last was dropped
        left = order[: k + 1]
        losses = {out: kl(tiny_model, view, [i for i in left if i != out]) for out in left}
        assert losses[order[k]] <= min(losses.values()) * (1 + 1e-3) + 1e-7


def test_a_share_at_a_time_drops_those_missed_least_together(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "ONE_BY_ONE", 8)
    alone = {out: kl(tiny_model, view, [i for i in range(N) if i != out]) for out in range(N)}
    order = oracle.search(tiny_model, view).order.tolist()
    # A quarter of 16 at first: the four whose single loss costs least, the least missed last.
    assert order[12:] == sorted(alone, key=alone.__getitem__)[:4][::-1]
    rounds: list[int] = []
    trials = oracle.first_token_kl

    def count(model: LlavaModel, view: View, sets: list[Selection]) -> list[float]:
        rounds.append(len(sets))
        return trials(model, view, sets)

    monkeypatch.setattr(oracle, "first_token_kl", count)
    oracle.search(tiny_model, view)
    assert rounds == [16, 12, 9, 8, 7, 6, 5, 4, 3, 2]


def test_of_equal_losses_the_higher_index_goes_first(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "first_token_kl", lambda model, view, sets: [0.5] * len(sets))
    assert oracle.search(tiny_model, view).order.tolist() == list(range(N))


@pytest.mark.parametrize("k", [1, 3, 8, N])
def test_no_given_set_comes_below_the_bound(tiny_model: LlavaModel, view: View, k: int) -> None:
    able = [m for m in PRUNERS.values() if not m.inside and not tiny_model.reason_against(m)]
    sets = [method.select(view.tokens, k) for method in able]
    assert k == 1 or any(each.merged for each in sets)
    losses = oracle.first_token_kl(tiny_model, view, sets)
    kept, least = oracle.bound(tiny_model, view, sets, losses)
    assert least <= min(losses)
    assert oracle.first_token_kl(tiny_model, view, [kept]) == pytest.approx([least], abs=1e-6)
    if not kept.merged:
        assert kept.size == k
        assert kl(tiny_model, view, kept.order.tolist()) == pytest.approx(least, rel=1e-3, abs=1e-6)


def test_the_bound_of_one_token_is_the_best_of_all(tiny_model: LlavaModel, view: View) -> None:
    """Where the exchange can try every set, it finds the best, wherever it starts."""
    every = [kl(tiny_model, view, [i]) for i in range(N)]
    worst = every.index(max(every))
    kept, least = oracle.bound(tiny_model, view, [Selection(torch.tensor([worst]))], [every[worst]])
    assert kept.order.tolist() == [every.index(min(every))]
    assert least == pytest.approx(min(every), rel=1e-3, abs=1e-6)


def test_an_exchange_that_loses_is_not_made(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "first_token_kl", lambda model, view, sets: [0.5] * len(sets))
    start = Selection(torch.tensor([3, 5]))
    assert oracle.bound(tiny_model, view, [start], [0.25]) == (start, 0.25)
    with pytest.raises(ValueError, match="Give at least one"):
        oracle.bound(tiny_model, view, [], [])
