"""The search for the smallest sufficient budget: on answers known by hand, and on a real model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spare_demo.analysis.min_budget import Sufficiency, Trial, find_sufficient
from spare_demo.models import LlavaModel, View
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection


class Oracle:
    """Answers "seven" at the budgets it was told, else the budget itself."""

    def __init__(self, same: list[bool]) -> None:
        self.same, self.asked, self.most_at_once = same, [], 0

    def text(self, k: int) -> str:
        return "seven" if self.same[k - 1] else str(k)

    def stream_together(
        self, view: Any, asked: dict[Any, Selection], longest: int, positions: Any
    ) -> Iterator[dict[Any, Any]]:
        self.most_at_once = max(self.most_at_once, sum(map(len, asked.values())))
        for picks in asked.values():
            assert picks.order.tolist() == list(range(len(picks)))
        yield dict.fromkeys(asked, "a word")
        for label, picks in reversed(asked.items()):
            self.asked.append(len(picks))
            yield {label: SimpleNamespace(text=self.text(len(picks)))}


WHOLE: Any = SimpleNamespace(text="seven")


def search(same: list[bool], known: int | None = None) -> tuple[list[Sufficiency], Oracle]:
    """What is found, and who was asked. known: a budget whose answer is there already."""
    n = len(same)
    view: Any = SimpleNamespace(tokens=SimpleNamespace(n=n))
    oracle: Any = Oracle(same)
    here: Any = {} if known is None else {"A": {known: SimpleNamespace(text=oracle.text(known))}}
    orders = {"A": Selection(order=range(n))}
    found = list(find_sufficient(oracle, view, orders, WHOLE, 8, known_answers=here))
    return [step["A"] for step in found], oracle


@given(st.lists(st.booleans(), min_size=1, max_size=80), st.data())
def test_what_is_found_holds_over_the_budgets_tried_and_is_sharp(
    same: list[bool], data: st.DataObject
) -> None:
    same[-1] = True  # all tokens are the unpruned prompt
    known = data.draw(st.none() | st.integers(1, len(same)))
    found, oracle = search(same, known)
    last, asked = found[-1], oracle.asked
    assert last.done and not any(step.done for step in found if step.trials != last.trials)
    assert oracle.most_at_once < len(same)
    assert len(asked) == len(set(asked)) and known not in asked
    tried = {trial.budget: trial for trial in last.trials}
    assert tried.keys() == {*asked, len(same)} | ({known} - {None})
    assert tried.keys() >= {2**e for e in range(7) if 2**e < len(same)}
    for k, trial in tried.items():
        assert trial.same == same[k - 1]
        assert trial.text == ("seven" if same[k - 1] else str(k))
        if k >= last.smallest:
            assert trial.same
    if last.smallest > 1:
        assert not tried[last.smallest - 1].same
    assert set(last.returns) == {k for k in tried if k < last.smallest and same[k - 1]}
    grown = [len(now.trials) for now in found]
    first = len({len(same), known} - {None})
    assert sorted(set(grown)) == grown[:1] + list(range(first + 1, first + len(asked) + 1))
    assert grown == sorted(grown) and grown[0] == first


@given(n=st.integers(1, 700), data=st.data())
def test_where_the_answer_changes_once_the_budget_is_exact(n: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, n))
    found, oracle = search([k >= first for k in range(1, n + 1)])
    assert found[-1].smallest == first
    assert found[-1].returns == ()
    assert len(oracle.asked) <= 2 * n.bit_length()


@given(st.integers(1, 300), st.data())
def test_two_orders_are_searched_as_each_by_itself(n: int, data: st.DataObject) -> None:
    view: Any = SimpleNamespace(tokens=SimpleNamespace(n=n))
    first, other = data.draw(st.integers(1, n)), data.draw(st.integers(1, n))
    oracle: Any = Oracle([])
    oracle.text = lambda k: "seven" if k >= first else str(k)
    orders = {"A": Selection(order=range(n)), "B": Selection(order=range(n))}
    *_, both = find_sufficient(oracle, view, orders, WHOLE, 8)
    assert both["A"] == both["B"] == search([k >= first for k in range(1, n + 1)])[0][-1]
    # An order whose answers are all known runs beside one that goes on.
    done: Any = {k: SimpleNamespace(text="seven" if k >= other else "") for k in range(1, n + 1)}
    *_, both = find_sufficient(oracle, view, orders, WHOLE, 8, known_answers={"B": done})
    assert (both["A"].smallest, both["B"].smallest) == (first, other)
    assert all(result.done for result in both.values())


def test_the_sentence_says_what_was_tried_and_no_more() -> None:
    trials = (*(Trial(k, "7", True) for k in (2, 4, 16)), Trial(23, "1", False))
    known = Sufficiency((*trials, Trial(24, "7", True), Trial(576, "7", True)))
    assert known.sentence("SPARE") == (
        "SPARE: with 24 or more of 576 tokens the answer stays “7”, as with all tokens, at each of "
        "the 2 budgets tried; with 23 it is “1”. Below that it returns at 2, 4 and 16. Budgets "
        "that were not tried may differ."
    )
    once = Sufficiency(known.trials[2:])
    assert "Below that it returns at 16. Budgets" in once.sentence("SPARE")
    whole = Sufficiency((Trial(15, "A cat.", False), Trial(16, "Two cats.", True)))
    assert whole.sentence("SPARE") == (
        "SPARE: the answer is “Two cats.” only with all 16 tokens; with 15 it is “A cat.” Budgets "
        "that were not tried may differ."
    )
    last = Sufficiency((Trial(24, "7", True), Trial(575, "1", False), Trial(576, "7", True)))
    returns = (
        "the answer is “7” with all 576 tokens; with 575 it is “1”. Below that it returns at 24."
    )
    assert last.sentence("SPARE").startswith(f"SPARE: {returns}")
    always = Sufficiency((Trial(1, "", True), Trial(576, "", True)))
    assert always.sentence("SPARE") == (
        "SPARE: with 1 or more of 576 tokens the answer stays empty, as with all tokens, at each "
        "of the 2 budgets tried."
    )
    assert always.done
    searching = Sufficiency(known.trials, left=2)
    assert not searching.done
    assert searching.sentence("SPARE") == "SPARE: 6 budgets tried, 2 more under way …"
    far = Sufficiency((Trial(8, "1", False), Trial(576, "7", True)))
    assert far.sentence("SPARE") == "SPARE: 2 budgets tried …"
    first = Sufficiency(far.trials[1:], left=9)
    assert first.sentence("SPARE") == "SPARE: 1 budget tried, 9 more under way …"


def test_on_a_real_model_every_trial_is_its_own_answer(tiny_model: LlavaModel, view: View) -> None:
    picks = PRUNERS["spare"].select(view.tokens, 16)
    whole = tiny_model.answer(view, None, 2)
    other = PRUNERS["divprune"].select(view.tokens, 16)
    orders = {"A": picks, "B": other}
    *_, found = find_sufficient(tiny_model, view, orders, whole, 2)
    for label, order in orders.items():
        last = found[label]
        assert last.done
        assert last.trials[-1] == Trial(16, whole.text, True)
        for trial in last.trials:
            answer = tiny_model.answer(view, order.prefix(trial.budget), 2)
            assert trial == Trial(trial.budget, answer.text, answer.text == whole.text)
        assert dataclasses.asdict(last)["trials"][0]["budget"] == last.trials[0].budget
