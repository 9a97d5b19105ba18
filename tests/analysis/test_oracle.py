"""The search for the tokens that an answer needs, on a model of 16 tokens."""

from __future__ import annotations

import math

import pytest
import torch
from PIL import Image

from spare_demo.analysis import oracle
from spare_demo.models import LlavaModel, View
from spare_demo.tokens import Selection

N = 16


@pytest.fixture(scope="module")
def view(tiny_model: LlavaModel, photo: Image.Image) -> View:
    return tiny_model.encode(photo, "What is it?")


def kl(model: LlavaModel, view: View, kept: list[int]) -> float:
    """From the definition, a prefill at a time."""
    full, pruned = (
        model.answer(view, selection, 1).first_logits.double().log_softmax(dim=-1).tolist()
        for selection in (None, Selection(torch.tensor(kept)))
    )
    return math.fsum(math.exp(p) * (p - q) for p, q in zip(full, pruned, strict=True))


def test_the_divergence_is_its_definition(tiny_model: LlavaModel, view: View) -> None:
    sets = [[0], [3, 5], list(range(N)), list(range(1, N))]
    found = oracle.first_token_kl(tiny_model, view, sets)
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

    def count(model: LlavaModel, view: View, sets: list[list[int]]) -> list[float]:
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
