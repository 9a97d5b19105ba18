"""Which question two methods answer differently: on a model whose answers are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from spare_demo.analysis.disagreement import find_split
from spare_demo.comparison.request import QuestionOptions, choose
from spare_demo.models import LlavaModel
from spare_demo.pruners import LayerPlan
from spare_demo.relevance import RelevanceOptions

OPTIONS = QuestionOptions(max_new_tokens=2, relevance=RelevanceOptions(text="tokens"))
QUESTIONS = ("What?", "Where?", "Why?")


class Scripted:
    """The tiny model's picks, with answers as they are given."""

    def __init__(self, model: LlavaModel, *texts: str) -> None:
        self.ask, self.texts = model.ask, texts
        self.requests: list[Any] = []

    def answer_many(self, requests: list[Any], longest: int, positions: Any) -> list[Any]:
        assert longest == OPTIONS.max_new_tokens
        self.requests = requests
        return [SimpleNamespace(text=text) for text in self.texts]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("red", "red", "up", "down", "a", "b"), "Where?"),
        (("red", "red ", "up", "up", "a", "a b"), "Why?"),
        (("red", "red", "up", "up", "a", "a"), None),
    ],
)
def test_the_first_question_with_another_word(
    tiny_model: LlavaModel, photo: Image.Image, texts: tuple[str, ...], found: str | None
) -> None:
    model: Any = Scripted(tiny_model, *texts)
    picture = tiny_model.look(photo)
    methods = choose(("spare", "uniform"))
    assert find_split(model, picture, QUESTIONS, methods, 5, OPTIONS) == found
    for i, (view, kept) in enumerate(model.requests):
        assert QUESTIONS[i // 2] in view.prompt and view.text_words and len(kept) == 5
    uniform = model.requests[1][1].order.tolist()
    assert uniform == methods["uniform"].select(model.requests[1][0].tokens, 5).order.tolist()


def test_schedules_are_asked_with_and_refused_where_they_cannot_be(
    deep_model: LlavaModel, photo: Image.Image
) -> None:
    model: Any = Scripted(deep_model, "x", "y")
    picture, methods = deep_model.look(photo), choose(("fastv", "spare"))
    assert find_split(model, picture, ["What?"], methods, 12, OPTIONS) == "What?"
    assert isinstance(model.requests[0][1], LayerPlan)
    with pytest.raises(ValueError, match="cannot meet a budget of 1"):
        find_split(model, picture, ["What?"], methods, 1, OPTIONS)
