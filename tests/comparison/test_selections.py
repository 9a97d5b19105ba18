"""What every method keeps of one picture and question, on a tiny real LLaVA: 16 visual tokens."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from PIL import Image

from spare_demo.comparison import selections
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.models import LlavaModel, View
from spare_demo.pruners import PRUNERS, LayerPruner, Pruner
from spare_demo.pruners.random import Random
from spare_demo.pruners.uniform import Uniform
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection, VisualTokens

N = 16
BEFORE = tuple(name for name, method in PRUNERS.items() if not isinstance(method, LayerPruner))


def test_every_budget_is_what_the_method_itself_selects(view: View) -> None:
    exploration = explore(view, choose(BEFORE))
    for budget in range(1, N + 1):
        for label, selection in exploration.selections(budget).items():
            alone = PRUNERS[label].select(view.tokens, budget)
            assert torch.equal(selection.order, alone.order), (label, budget)
            assert (selection.gain is None) == (alone.gain is None)


def test_words_as_guidance_are_noted_where_a_method_reads_them(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    by = RelevanceOptions(guidance_text="words")
    worded = tiny_model.encode(photo, "What?", relevance=by)
    assert explore(worded, choose(("uniform", "spare"))).notes == (selections.BY_WORDS,)
    assert explore(worded, choose("uniform")).notes == ()


@pytest.mark.parametrize(
    ("method", "budgets", "runs"), [(Random, (1, 7, N), [N]), (Uniform, (3, 5, 3), [3, 5])]
)
def test_a_nested_method_runs_once_and_another_once_per_budget(
    view: View, method: Any, budgets: tuple[int, ...], runs: list[int]
) -> None:
    calls = []

    class Counted(method):
        def select(self, tokens: VisualTokens, budget: int) -> Selection:
            calls.append(budget)
            return super().select(tokens, budget)

    exploration = explore(view, {"counted": Counted()})
    for budget in budgets:
        assert len(exploration.selections(budget)["counted"]) == budget
    assert calls == runs
    assert exploration.seconds_to_select("counted", budgets[-1]) > 0


class Longest(Pruner):
    """A method as it is first written: it says nothing of being nested, and is not."""

    name, title, summary = "longest", "Longest", "The longest tokens, in raster order."

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        return Selection(tokens.features.norm(dim=1).topk(k).indices.sort().values)


def test_a_method_of_ones_own_is_asked_at_each_budget_unless_it_says_that_it_is_nested(
    view: View,
) -> None:
    own = Longest()
    exploration = explore(view, {"own": own})
    for budget in (2, 5, N):
        picks = exploration.selections(budget)["own"]
        assert torch.equal(picks.order, own.select(view.tokens, budget).order)


def test_a_set_by_hand_beside_the_methods_runs_nothing_again(view: View) -> None:
    before = explore(view, {"spare": PRUNERS["spare"]})
    after = before.with_set("mine", Selection(order=[2, 7]))
    assert after.picks["spare"] is before.picks["spare"]
    assert after.selections(5)["mine"].order.tolist() == [2, 7]
    assert list(before.methods) == ["spare"] and list(after.methods) == ["spare", "mine"]


def test_only_as_many_picks_as_asked_for_are_made_until_more_are_needed(view: View) -> None:
    names = ("spare", "cdpruner", "uniform")
    few, all_picks = explore(view, choose(names), 4), explore(view, choose(names))
    assert {len(picks) for picks in few.picks.values()} == {4}
    for k in (2, 4, 9):
        for label, picks in few.selections(k).items():
            whole = all_picks.selections(k)[label]
            assert picks.order.tolist() == whole.order.tolist()
            assert (picks.gain is None) == (whole.gain is None)
            assert picks.gain is None or torch.equal(picks.gain, whole.gain)
    assert few.curves.errors == all_picks.curves.errors


def test_a_method_twice_with_other_settings(view: View) -> None:
    first = {"mean": PRUNERS["spare"], "min-max": replace(PRUNERS["spare"], squash="minmax")}  # type: ignore[type-var]
    assert list(explore(view, first).selections(4)) == ["mean", "min-max"]


def test_without_a_question_the_text_part_is_off_and_said_to_be(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    bare = tiny_model.encode(photo, " ")
    exploration = explore(bare, choose(("spare", "cdpruner", "uniform")))
    kept = exploration.selections(4)
    assert torch.equal(
        kept["spare"].order, PRUNERS["spare-reconstruction"].select(bare.tokens, 4).order
    )
    assert torch.equal(
        kept["cdpruner"].order, PRUNERS["cdpruner-diversity"].select(bare.tokens, 4).order
    )
    assert exploration.view.relevance is None
    assert exploration.weights == {"spare": None, "cdpruner": None, "uniform": None}
    assert len(exploration.notes) == 2
    title = PRUNERS["spare-reconstruction"].title
    assert exploration.notes[0] == (
        f"Without a question the text part of SPARE is off: {title} ran in its place."
    )


def test_a_method_that_is_nothing_without_a_question_says_so(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    with pytest.raises(ValueError, match="needs text"):
        explore(tiny_model.encode(photo, ""), choose(("normal-relevance",)))


def test_relevance_is_the_raw_cosine_and_weights_are_the_methods_own(view: View) -> None:
    exploration = explore(view, choose(("spare", "cdpruner", "random")))
    image = torch.nn.functional.normalize(view.tokens.image_and_text()[0].double(), dim=1)
    text = torch.nn.functional.normalize(view.tokens.image_and_text()[1].double(), dim=1)
    torch.testing.assert_close(exploration.view.relevance, (image @ text.T).mean(dim=1))
    for label in ("spare", "cdpruner"):
        pruner = PRUNERS[label]
        torch.testing.assert_close(exploration.weights[label], pruner.weight(view.tokens))
    assert exploration.weights["random"] is None


@pytest.fixture(scope="module")
def curves_of(view: View) -> Exploration:
    mine = Selection(torch.tensor([3, 1, 8]))
    return explore(view, choose(("spare", "uniform", "random"), seed=2)).with_set("mine", mine)


def test_curves_fall_to_nothing_and_keep_above_the_bound(curves_of: Exploration) -> None:
    curves = curves_of.curves
    assert curves.budgets == (1, 2, 4, 8, 16)
    for label in ("spare", "uniform", "random"):
        errors = curves.errors[label]
        assert errors[-1] == pytest.approx(0, abs=1e-6)
        for error, least in zip(errors, curves.bound.tolist(), strict=True):
            assert error >= least - 1e-9
    spread = curves.random
    assert bool((spread.low <= spread.mean).all() and (spread.mean <= spread.high).all())
    assert bool((spread.low < spread.high)[:-1].all())
    # Seed 2 is one of the control's own draws.
    for error, low, high in zip(
        curves.errors["random"], spread.low.tolist(), spread.high.tolist(), strict=True
    ):
        assert low - 1e-9 <= error <= high + 1e-9


def test_the_error_is_that_of_least_squares(curves_of: Exploration) -> None:
    x = curves_of.view.tokens.features.double()
    kept = x[curves_of.selections(4)["spare"].order]
    fitted = torch.linalg.lstsq(kept.T, x.T).solution
    left = torch.linalg.norm(x.T - kept.T @ fitted) / torch.linalg.norm(x)
    at = curves_of.curves.budgets.index(4)
    assert curves_of.curves.errors["spare"][at] == pytest.approx(float(left), abs=1e-6)


def test_a_set_made_by_hand_is_itself_at_every_budget(curves_of: Exploration) -> None:
    assert list(curves_of.curves.points) == ["mine"]
    assert curves_of.curves.points["mine"][0] == 3
    for budget in (1, 10):
        assert curves_of.selections(budget)["mine"].order.tolist() == [3, 1, 8]


def test_a_set_made_for_another_picture_is_refused(view: View) -> None:
    with pytest.raises(ValueError, match="Patch index 16 does not exist"):
        explore(view, choose({"mine": Selection(torch.tensor([1, 16]))}))


def test_a_selection_is_timed_once(view: View) -> None:
    exploration = explore(view, {"spare": PRUNERS["spare"], "grid": PRUNERS["uniform"]})
    assert exploration.seconds_to_select("grid", 4) is None
    exploration.selections(4)
    first = exploration.seconds_to_select("grid", 4)
    exploration.selections(4)
    assert first is not None and exploration.seconds_to_select("grid", 4) == first
    whole = exploration.select_seconds["spare"]
    assert all(exploration.seconds_to_select("spare", k) == whole for k in (1, 4))
    mine = explore(view, choose({"mine": exploration.selections(4)["grid"]}))
    assert mine.selections(4) and mine.seconds_to_select("mine", 4) is None


def test_few_budgets_stay_in_memory_and_all_their_times(view: View) -> None:
    """Who scrubs over the merged rows of every budget would fill a server's memory."""
    exploration = explore(view, choose(("visionzip", "vscan-whole")))
    made = [weakref.ref(kept) for k in range(6, N) for kept in exploration.kept(k).values()]
    assert sum(each() is not None for each in made) == 2 * selections._KEPT_BUDGETS
    times = [exploration.seconds_to_select("visionzip", k) for k in range(6, N)]
    assert all(times) and exploration.selections(6)["visionzip"].size == 6
