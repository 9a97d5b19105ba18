"""Every study asks the model at the positions that its comparison was made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from spare_demo.analysis.answer_shift import kl_curves, measure_change
from spare_demo.analysis.disagreement import find_split
from spare_demo.analysis.growth import grow
from spare_demo.analysis.leave_one_out import leave_one_out
from spare_demo.analysis.min_budget import find_sufficient
from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.request import QuestionOptions, choose
from spare_demo.comparison.selections import explore
from spare_demo.models import LlavaModel, View
from spare_demo.tokens import Positions, Selection

QUESTION = "What colour is the circle?"
FEW = Selection([3, 0, 15, 7])


def change(model: LlavaModel, view: Any, whole: Any, positions: Positions) -> None:
    measure_change(model, view, FEW, whole, positions)


def curves(model: LlavaModel, view: Any, whole: Any, positions: Positions) -> None:
    list(kl_curves(model, explore(view, choose(["spare"])), whole, 4, positions))


def enough(model: LlavaModel, view: Any, whole: Any, positions: Positions) -> None:
    orders = {"A": Selection(range(16))}
    list(find_sufficient(model, view, orders, whole, 2, positions))


def carrier(model: LlavaModel, view: Any, whole: Any, positions: Positions) -> None:
    answer = model.answer(view, FEW, 2, positions)
    list(leave_one_out(model, view, FEW, answer, 2, positions))


def growth(model: LlavaModel, view: Any, whole: Any, positions: Positions) -> None:
    list(grow(model, explore(view, choose(["spare"])), ["spare"], (1, 4), 2, positions))


def split(model: LlavaModel, view: Any, whole: Any, positions: Positions) -> None:
    options = QuestionOptions(max_new_tokens=2, positions=positions)
    find_split(model, view.picture, [QUESTION], choose(["spare", "random"]), 4, options)


@pytest.mark.parametrize("study", [change, curves, enough, carrier, growth, split])
def test_a_study_asks_at_its_positions(
    tiny_model: LlavaModel, view: View, study: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tiny_model.answer(view, None, 2)
    asked: list[Positions | None] = []
    option = tiny_model.position_option

    def note(wanted: Positions | None) -> Positions:
        asked.append(wanted)
        return option(wanted)

    monkeypatch.setattr(tiny_model, "position_option", note)
    study(tiny_model, view, whole, "original")
    assert set(asked) == {"original"}


def test_a_comparison_answers_at_the_positions_it_was_asked_with(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    few = {"few": FEW}
    for positions in ("compact", "original"):
        result = compare(tiny_model, photo, QUESTION, few, 4, 2, positions=positions)
        alone = tiny_model.answer(result.view, FEW, 2, positions)
        assert result.settings.positions == result.request.positions == positions
        assert result.answers["few"].token_ids == alone.token_ids
        assert result.answers["few"].log_probabilities == pytest.approx(
            alone.log_probabilities, abs=1e-4
        )
    assert compare(tiny_model, photo, QUESTION, few, 4, 2).settings.positions == "compact"
