"""Schedules and rules of the methods inside the language model, without one."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from layer_references import density_peaks
from torch import Tensor

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners import LayerPruner
from spare_demo.pruners.base import largest
from spare_demo.pruners.dart import spread_out
from spare_demo.pruners.inside.base import choose_rows
from spare_demo.pruners.inside.dart import Dart
from spare_demo.pruners.inside.fastv import FastV
from spare_demo.pruners.inside.pyramiddrop import PyramidDrop
from spare_demo.pruners.inside.sparsevlm import SparseVLM, cluster, ones_rotated, raters
from spare_demo.pruners.inside.v2drop import V2Drop
from spare_demo.pruners.plan import Choice, LayerPlan, LayerSet, Stop

METHODS = [method for method in PRUNERS.values() if isinstance(method, LayerPruner)]
every_method = pytest.mark.parametrize("method", METHODS, ids=[m.name for m in METHODS])


def asked(n: int = 576, depth: int = 32) -> Any:
    flat = torch.full((1, n), 1 / (n + 1))
    tokens = VisualTokens(torch.ones(n, 2), cls_attention=lambda block, joined=False: flat)
    return SimpleNamespace(tokens=tokens, layers=depth)


def kept(plan: LayerPlan) -> list[int]:
    return [stop.keep for stop in plan.stops]


def test_the_table_has_them() -> None:
    names = {"fastv", "pyramiddrop", "sparsevlm", "sparsevlm-plus", "dart", "v2drop", "vscan-whole"}
    assert names <= {method.name for method in METHODS}
    assert all(PRUNERS[method.name] is method for method in METHODS)


@every_method
def test_a_method_describes_itself(method: LayerPruner) -> None:
    assert method.title and method.summary.endswith(".") and method.link.startswith("https://")
    assert not method.nested and not method.needs_text
    for field in dataclasses.fields(method):
        assert field.metadata["label"] and field.metadata["help"]
        for choice in field.metadata["choices"]:
            changed = dataclasses.replace(method, **{field.name: choice})
            assert changed.plan(asked(), 300).per_layer
        with pytest.raises(ValueError, match="Choose"):
            dataclasses.replace(method, **{field.name: "nonsense"})


@every_method
def test_there_is_nothing_to_select(method: LayerPruner) -> None:
    with pytest.raises(ValueError, match=r"needs the language model.*plan\(view, budget\)"):
        method.select(asked().tokens, 64)


@every_method
@pytest.mark.parametrize("view", [asked().tokens, None])
def test_a_plan_needs_a_view(method: LayerPruner, view: Any) -> None:
    kind = type(view).__name__
    with pytest.raises(ValueError, match=rf"Pass the view of model\.encode, not {kind}\."):
        method.plan(view, 64)


@every_method
@pytest.mark.parametrize(("n", "depth"), [(576, 32), (576, 40), (2880, 32), (2880, 5), (16, 6)])
def test_any_budget_from_the_lowest_is_met(method: LayerPruner, n: int, depth: int) -> None:
    low = method.lowest(n, depth)
    assert 1 <= low < n
    for budget in {low, low + 1, (low + n) // 2, n - 1, n}:
        plan = method.plan(asked(n, depth), budget)
        assert len(plan.per_layer) == depth
        # Never more than before, at least one row, and the budget as it is meant.
        assert list(plan.per_layer) == sorted(plan.per_layer, reverse=True)
        assert plan.per_layer[0] == plan.enters and plan.last >= 1
        whole = method.name != "vscan-whole" or 3 * budget // 2 >= n
        assert (plan.enters == n) == whole and (plan.entering is None) == whole
        met = plan.average if method.budget_is_average else plan.counted
        assert abs(met - budget) <= 0.5
        assert [stop.layer for stop in plan.stops] == sorted({stop.layer for stop in plan.stops})
        assert plan.average == sum(plan.per_layer) / depth
    assert method.plan(asked(n, depth), n).stops == ()
    if low > 1:
        with pytest.raises(ValueError, match=rf"Choose a budget from {low} to {n}\."):
            method.plan(asked(n, depth), low - 1)
    for wrong in (0, n + 1, 2.5):
        with pytest.raises(ValueError, match=f"whole number from 1 to {n}"):
            method.plan(asked(n, depth), wrong)


class Late(V2Drop):
    stop_layers = (8, 30, 31)


def test_places_are_the_same_share_of_the_way() -> None:
    assert PyramidDrop().places(32) == (8, 16, 24)
    assert PyramidDrop().places(40) == (10, 20, 30)
    assert PyramidDrop().places(28) == (7, 14, 21)
    assert SparseVLM().places(5) == (1, 2, 3)  # crowded, never the same
    assert FastV().places(40) == (2,) and FastV().places(28) == (2,)
    assert FastV().places(2) == (1,)
    assert FastV(layer=31).places(5) == (4,)  # a layer is left to act in
    assert Late().places(5) == (1, 3, 4)
    problem = "SparseVLM needs .* more than 3 layers, and this one has 3"
    with pytest.raises(ValueError, match=problem):
        SparseVLM().places(3)


def test_fastv_keeps_what_the_arithmetic_leaves() -> None:
    plan = FastV().plan(asked(), 192)
    assert plan.stops == (Stop(2, 166),) and plan.per_layer == (576,) * 2 + (166,) * 30
    assert [kept(FastV().plan(asked(), b)) for b in (128, 64, 306)] == [[98], [30], [288]]
    with pytest.raises(ValueError, match=r"FastV cannot meet a budget of 32.*from 37 to 576"):
        FastV().plan(asked(), 32)
    by_rank = FastV(counting="rank").plan(asked(), 64)
    assert kept(by_rank) == [64] and by_rank.counted == 64 and by_rank.average == 96
    assert by_rank.method.lowest(576, 32) == 1
    assert plan.counted == 166 and plan.average == pytest.approx(192, abs=0.5)
    assert plan.method.budget_is_average and not by_rank.method.budget_is_average
    assert plan.method.counting_note == by_rank.method.counting_note == "tokens after layer K only"
    assert FastV(layer=3).plan(asked(), 192).stops[0].layer == 3


def test_pyramiddrop_as_released_and_below() -> None:
    plan = PyramidDrop().plan(asked(), 270)
    assert plan.stops == (Stop(8, 288), Stop(16, 144), Stop(24, 72))
    assert plan.average == plan.counted == 270 and plan.last == 72
    assert kept(PyramidDrop().plan(asked(2880), 1350)) == [1440, 720, 360]
    with pytest.raises(ValueError, match="from 145 to 576"):
        PyramidDrop().plan(asked(), 128)
    lowest = PyramidDrop().plan(asked(), 145)
    assert kept(lowest) == [2, 1, 1] and lowest.average == 145
    early = PyramidDrop(schedule="early").plan(asked(), 64)
    assert [stop.layer for stop in early.stops] == [2, 4, 8]
    assert abs(early.average - 64) < 0.5


@pytest.mark.parametrize(
    ("budget", "lists", "rows", "booked", "processed"),
    [
        (192, [300, 200, 110], [309, 204, 113], 192.0, 206.5),
        (128, [303, 110, 36], [312, 117, 39], 128.6, 145.4),
        (64, [66, 30, 17], [82, 32, 18], 64.8, 82.3),
    ],
)
def test_sparsevlm_has_the_lists_of_the_code(
    budget: int, lists: list[int], rows: list[int], booked: float, processed: float
) -> None:
    plan = SparseVLM().plan(asked(), budget)
    assert [stop.layer for stop in plan.stops] == [3, 7, 16] and kept(plan) == lists
    assert [stop.keep + stop.merged for stop in plan.stops] == rows
    assert plan.counted == pytest.approx(booked, abs=0.06)
    assert plan.average == pytest.approx(processed, abs=0.06)
    assert plan.method.counting_note and not plan.method.budget_is_average


def test_sparsevlm_plus_has_its_own_lists_and_merges_nothing() -> None:
    lists = {192: [300, 200, 118], 128: [238, 108, 60], 96: [246, 54, 28], 64: [66, 34, 20]}
    for budget, expected in lists.items():
        plan = SparseVLM(version="2.0").plan(asked(), budget)
        assert kept(plan) == expected and not any(stop.merged for stop in plan.stops)
    assert kept(SparseVLM().plan(asked(), 96)) == [238, 48, 26]


def test_between_the_lists_sparsevlm_mixes_them() -> None:
    low, high = SparseVLM().plan(asked(), 64), SparseVLM().plan(asked(), 96)
    between = kept(SparseVLM().plan(asked(), 80))
    assert all(a < x < b for a, x, b in zip(kept(low), between, kept(high), strict=True))


def test_dart_by_average_and_as_released() -> None:
    plan = Dart().plan(asked(), 128)
    assert plan.stops == (Stop(2, 98),) and plan.counted == 98
    assert Dart(counting="released").counting_note == f"nominal {Dart().counting_note}"
    for nominal, real in ((128, 132), (64, 68), (32, 36), (192, 196)):
        plan = Dart(counting="released").plan(asked(), nominal)
        assert plan.stops == (Stop(2, real),) and plan.counted == nominal
    assert round(Dart(counting="released").plan(asked(), 64).average, 1) == 99.8
    whole = Dart(counting="released").plan(asked(16, 6), 15)
    assert whole.last == 12 and whole.average < 16


def test_v2drop_as_released_below_and_above() -> None:
    plan = V2Drop().plan(asked(), 203)
    assert plan.stops == (Stop(3, 288), Stop(17, 144), Stop(22, 1))
    assert plan.average == (3 * 576 + 14 * 288 + 5 * 144 + 10) / 32
    few = V2Drop().plan(asked(), 128)
    assert [stop.layer for stop in few.stops] == [3, 17, 22] and few.last == 1
    first, second, _ = kept(few)
    assert abs(second - first**2 / 576) <= 1  # the same share twice
    assert kept(V2Drop().plan(asked(), 64)) == [22, 1]  # the second step leaves the third nothing
    with pytest.raises(ValueError, match="from 55 to 576"):
        V2Drop().plan(asked(), 54)
    # Beyond all tokens before layer 22 and 1 after it, an average of 396.3.
    assert kept(V2Drop().plan(asked(), 396))[-1] == 1
    assert V2Drop().plan(asked(), 486).stops == (Stop(22, 288),)


def test_a_set_counts_its_rows() -> None:
    plain = LayerSet(2, torch.tensor([1, 4]))
    assert len(plain) == 2 and plain.merged_rows == 0 and plain.merged.tolist() == []
    mixed = LayerSet(2, torch.tensor([1]), torch.tensor([[0.0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0]]))
    assert len(mixed) == 3 and mixed.merged_rows == 2 and mixed.merged.tolist() == [0, 2, 3]


# The rules, on inputs made by hand.


def reading(attention: Tensor, visual: list[int], **more: Any) -> Any:
    """What a method reads, with (heads, T, T) attention given whole."""

    def rows_of(rows: list[int], ahead: bool = False) -> Tensor:
        assert ahead == more.get("ahead", False)
        return attention[:, rows]

    size = attention.shape[1]
    return SimpleNamespace(
        hidden=more.get("hidden", torch.zeros(size, 2)),
        visual=torch.tensor(visual),
        text=slice(visual[-1] + 1, size),
        attention=rows_of,
        **{key: value for key, value in more.items() if key not in ("hidden", "ahead")},
    )


@pytest.mark.parametrize(("method", "ahead"), [(FastV(), False), (PyramidDrop(), True)])
def test_the_last_token_of_the_prompt_decides(method: LayerPruner, ahead: bool) -> None:
    attention = torch.zeros(2, 6, 6)
    attention[0, 5] = torch.tensor([0.9, 0.0, 0.4, 0.2, 0.2, 0.0])
    attention[1, 5] = torch.tensor([0.0, 0.2, 0.0, 0.2, 0.1, 0.9])
    attention[:, :5] = 7  # other rows are nobody's business
    # Means over heads of patches 0..3, rows 1..4: 0.1, 0.2, 0.2, 0.15; a tie goes to the lower.
    choice = method.choose(reading(attention, [1, 2, 3, 4], ahead=ahead), Stop(1, 3))
    assert choice.kept.tolist() == [1, 2, 3] and choice.merge is None


def test_what_the_layer_before_changed_most_stays() -> None:
    before = torch.tensor([[0.0, 0], [9, 9], [1, 1], [2, 0], [0, 5], [0, 0]])
    hidden = torch.tensor([[90.0, 0], [9, 9], [4, 5], [2, -5], [0, 1], [70, 0]])
    # Moved by 0, 5, 5 and 4: the tie goes to the lower, and other rows are nobody's business.
    given = SimpleNamespace(hidden=hidden, before=before, visual=torch.tensor([1, 2, 3, 4]))
    assert V2Drop().choose(given, Stop(1, 3)).kept.tolist() == [1, 2, 3]
    assert V2Drop().choose(given, Stop(1, 1)).kept.tolist() == [1]


def test_best_breaks_ties_by_index() -> None:
    assert largest(torch.tensor([1.0, 3.0, 1.0, 3.0]), 3).tolist() == [1, 3, 0]


def test_pivots_take_what_is_least_like_them_in_turn() -> None:
    likeness = torch.tensor([[1.0, 0.2, 0.1, 0.1, 0.9], [0.0, 1.0, 0.5, 0.6, 0.7]])

    def added(kept: list[int], k: int) -> list[int]:
        return spread_out(likeness, torch.tensor(kept), k)[0].tolist()

    assert added([0], 3) == [0, 2, 3]
    # Three to share between two pivots: the first takes two, and nothing is taken twice.
    assert added([0], 4) == [0, 2, 3, 4]
    assert sorted(added([0], 5)) == [0, 1, 2, 3, 4]
    assert added([3, 1], 2) == [3, 1]


def test_dart_by_hand() -> None:
    keys = torch.tensor([[9.0, 9], [1, 0], [0, -5], [2, 0], [1, 1], [0, 3], [0, 1]])
    states = torch.tensor([[1.0, 0], [1, 0], [0, 2], [1, 1], [-3, 0], [0, 1], [0, 1]])
    given = SimpleNamespace(
        visual=torch.tensor([1, 2, 3, 4]),
        text=slice(5, 7),
        keys=lambda: keys,
        normed=lambda: states,
    )
    one_each = Dart(image_pivots=1, text_pivots=1)
    # Visual pivot: row 2 (norm 5). Text pivot: row 5. Least like row 2 (0, 1): rows 1 and 4 with
    # cosine 0, row 1 first; then for the text pivot, with the same direction, row 4.
    assert one_each.choose(given, Stop(1, 3)).kept.tolist() == [1, 0, 3]
    assert one_each.choose(given, Stop(1, 1)).kept.tolist() == [1]


def test_raters_are_words_that_the_picture_resembles() -> None:
    image = torch.tensor([[4.0, 0], [4, 0]])
    text = torch.tensor([[0.0, 1], [3, 0], [0, 0], [2.9, 0]])
    assert raters(image, text) == [1, 3]
    assert raters(image, torch.zeros(3, 2)) == [0, 1, 2]  # none stands out


def test_rotation_of_ones_is_a_sum_of_cosines() -> None:
    speeds = torch.tensor([1.0, 0.1, 0.01])
    angle = torch.arange(7.0)[:, None] * torch.cat([speeds, speeds])
    got = ones_rotated(angle.cos(), angle.sin(), [6, 2])
    for row, i in zip(got, (6, 2), strict=True):
        for j in range(7):
            exact = 2 * sum(math.cos((i - j) * float(s)) for s in speeds) / math.sqrt(6)
            assert math.isclose(float(row[j]), exact, abs_tol=1e-5)


def test_clusters_are_the_groups_there_are() -> None:
    states = torch.tensor([[0.0, 0], [0.1, 0], [0, 0.1], [5, 5], [5.1, 5], [5, 5.2]])
    shares = cluster(states, 2)
    groups = {tuple(row.nonzero().flatten().tolist()) for row in shares}
    assert groups == {(0, 1, 2), (3, 4, 5)}
    assert torch.allclose(shares[shares > 0], torch.tensor(1 / 3), atol=1e-5)
    assert torch.allclose(cluster(states, 1), torch.full((1, 6), 1 / 6), atol=1e-5)
    same = cluster(torch.ones(4, 2), 2)  # ties everywhere: the first index is the densest
    assert same.sum(dim=1).allclose(torch.ones(2), atol=1e-5) and (same > 0).sum() == 4


@pytest.mark.parametrize("scale", [1.0, 300.0, 1000.0])
@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_the_references_at_any_scale(seed: int, scale: float) -> None:
    """At 300 the density exp(-mean d^2) of every state is 0 in float64."""
    states = scale * torch.randn(25, 6, generator=torch.Generator().manual_seed(seed))
    members = [row.nonzero().flatten().tolist() for row in cluster(states, 4)]
    assert members == density_peaks(states.double(), 4)
    if scale == 1000:
        assert members != density_peaks(states.double() / 1000, 4)  # exp(-d^2) has a unit


def test_sparsevlm_asks_only_the_raters_and_merges_the_best_of_the_rest() -> None:
    attention = torch.zeros(2, 9, 9)
    attention[:, 7, 1:6] = torch.tensor([0.1, 0.5, 0.2, 0.4, 0.3])  # the rater's row
    attention[:, 8, 1:6] = 9.0  # not asked
    given = reading(
        attention,
        [1, 2, 3, 4, 5],
        image_inputs=torch.tensor([[4.0, 0]] * 5),
        text_inputs=torch.tensor([[0.0, 0], [4, 0], [0, 0]]),
        hidden=torch.arange(18.0).view(9, 2),
    )
    choice = SparseVLM().choose(given, Stop(1, 2, 1))
    assert choice.kept.tolist() == [1, 3]
    # Of the three dropped int(0.9) + 1 = 1 is merged, the best: patch 4.
    torch.testing.assert_close(choice.merge, torch.tensor([[0.0, 0, 0, 0, 1]]), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("heads", "heard"), [(40, 14), (32, 14), (28, 14), (27, 14), (8, 4)])
def test_sparsevlm_plus_listens_to_fourteen_of_many_heads(heads: int, heard: int) -> None:
    attention = torch.zeros(heads, 4, 4)
    attention[: heard - 1, 3, 1:3] = 0.5  # undecided: without the next head the first patch stays
    attention[heard - 1, 3, 1:3] = torch.tensor([0.2, 0.7])
    attention[heard, 3, 1:3] = torch.tensor([0.85, 0.0])  # one head too many, for the first patch
    inputs = {"image_inputs": torch.tensor([[4.0, 0]]), "text_inputs": torch.tensor([[4.0, 0]])}
    given = reading(attention, [1, 2], **inputs, cos=torch.ones(4, 2), sin=torch.zeros(4, 2))
    assert SparseVLM(version="2.0").choose(given, Stop(1, 1)).kept.tolist() == [1]


def test_sparsevlm_plus_listens_to_half_of_few_heads() -> None:
    attention = torch.zeros(3, 8, 8)
    attention[0, 7, 1:4] = torch.tensor([0.1, 0.0, 0.0])  # the head that looks least
    attention[1, 7, 1:4] = torch.tensor([0.0, 0.3, 0.2])
    attention[2, 7, 1:4] = torch.tensor([0.0, 0.2, 0.4])
    still = {"cos": torch.ones(8, 2), "sin": torch.zeros(8, 2)}  # no rotation: divides by sqrt 2
    image, text = torch.tensor([[4.0, 0]]), torch.tensor([[0.0, 0], [0, 0], [0, 0], [4, 0]])
    given = reading(attention, [1, 2, 3], image_inputs=image, text_inputs=text, **still)
    choice = SparseVLM(version="2.0").choose(given, Stop(1, 2))
    assert choice.kept.tolist() == [2, 1] and choice.merge is None


class Own(LayerPruner):
    """A method of someone's own."""

    name, title, summary = "own", "Own", "Whatever it is told."

    def __init__(self, stops: tuple[Stop, ...] = (), returned: Any = None) -> None:
        self.told, self.returned = stops, returned

    def stops(self, n: int, depth: int, k: int) -> tuple[Stop, ...]:
        return self.told

    def choose(self, reading: Any, stop: Stop) -> Choice:
        return self.returned(stop.keep)


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (lambda k: Choice(torch.arange(k - 1)), r"kept 7\. Let its choose keep 8"),
        (lambda k: Choice(torch.arange(k + 1)), "kept 9"),
        (lambda k: Choice(torch.zeros(k)), "failed: "),
        (lambda k: Choice(torch.zeros(k, dtype=torch.long)), "failed: .*more than once"),
        (lambda k: Choice(torch.arange(k) - 1), "failed: .*negative"),
        (lambda k: Choice(torch.arange(k) + 9), "failed: Patch index 16 does not exist"),
        (lambda k: torch.arange(k), "failed: its choose returned no Choice"),
        (lambda k: int("x"), r"failed in line \d+ of .*test_base: invalid literal"),
    ],
)
def test_what_is_not_the_rows_of_the_stop_is_refused(returned: Any, problem: str) -> None:
    near: Any = SimpleNamespace(visual=torch.arange(3, 19))
    with pytest.raises(ValueError, match=f"'own' was asked for 8 rows before layer 2.*{problem}"):
        choose_rows(Own(returned=returned), near, Stop(2, 8))


@pytest.mark.parametrize(
    "stops",
    [
        *((Stop(0, 9),), (Stop(32, 9),), (Stop(2, 0, 9),), (Stop(2, 577),)),
        *((Stop(3, 9), Stop(3, 8)), (Stop(3, 9), Stop(2, 8)), (Stop(2, 8), Stop(3, 7, 2))),
    ],
)
def test_stops_that_no_run_can_follow_are_refused(stops: tuple[Stop, ...]) -> None:
    with pytest.raises(ValueError, match="'own' cannot leave"):
        Own(stops).plan(asked(), 300)


def test_a_schedule_without_a_stop_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'own' lets all 576 .* budget of 300\. Let its stops"):
        Own(()).plan(asked(), 300)
