"""The steps of a film: budgets, what is kept at each, and what the model answers there."""

from __future__ import annotations

import pytest
from PIL import Image

from spare_demo.analysis.growth import grow, growing_budgets, labels_with_order
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.models import LlavaModel
from spare_demo.tokens import Selection

QUESTION = "Which number is written on the small triangle?"


def exploration_of(model: LlavaModel, photo: Image.Image, *methods: str) -> Exploration:
    return explore(model.encode(photo, QUESTION), choose(methods))


@pytest.mark.parametrize(
    ("budget", "marks", "budgets"),
    [
        (64, (), (1, 2, 4, 8, 16, 32, 64)),
        (100, (32, 48, 192), (1, 2, 4, 8, 16, 32, 48, 64, 100)),
        (3, (3, 2), (1, 2, 3)),
        (1, (32,), (1,)),
    ],
)
def test_budgets_double_and_stop_at_marks_up_to_the_budget(budget, marks, budgets) -> None:
    assert growing_budgets(budget, marks) == budgets


def test_each_step_has_the_models_own_answer(tiny_model: LlavaModel, photo: Image.Image) -> None:
    exploration = exploration_of(tiny_model, photo, "spare", "cdpruner")
    steps = list(grow(tiny_model, exploration, ["spare", "cdpruner"], (1, 4, 16), 5))
    assert [step.budget for step in steps] == [1, 4, 16]
    for step in steps:
        for label, kept in step.kept.items():
            assert len(kept) == step.budget
            answer = tiny_model.answer(exploration.view, kept, 5)
            assert step.answers[label] == answer.text
    whole = tiny_model.answer(exploration.view, None, 5)
    assert steps[-1].answers == {"spare": whole.text, "cdpruner": whole.text}


def test_without_a_model_nothing_is_asked(tiny_model: LlavaModel, photo: Image.Image) -> None:
    exploration = exploration_of(tiny_model, photo, "spare")
    (step,) = grow(None, exploration, ["spare"], (2,), 5)
    assert step.answers == {} and len(step.kept["spare"]) == 2


def test_methods_without_a_pick_order_are_left_out_or_refused() -> None:
    assert labels_with_order(choose(("fastv", "spare"))) == ["spare"]
    with pytest.raises(ValueError, match=r"no pick order.*inside the language.*such as SPARE\.$"):
        labels_with_order(choose(("fastv", "dart")))
    with pytest.raises(ValueError, match="a set made by hand"):
        labels_with_order(choose({"mine": Selection(order=[1, 2])}))
