"""Every method of the table on every family of models: it answers, or it says why it cannot."""

from __future__ import annotations

import pytest
from PIL import Image
from tiny_families import FAMILIES

from spare_demo.comparison.selections import explore
from spare_demo.models import Model, View
from spare_demo.pruners import PRUNERS, LayerPruner, Method


@pytest.mark.parametrize("family", FAMILIES)
def test_each_method_answers_or_says_why_not(
    family: str, photo: Image.Image, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(family)
    for aspect in model.aspects:
        view = model.encode(photo, "What colour is the circle?", aspect)
        for name, method in PRUNERS.items():
            answers_or_says_why_not(model, view, name, method)


def answers_or_says_why_not(model: Model, view: View, name: str, method: Method) -> None:
    budget = view.tokens.n // 2
    if reason := model.reason_against(method):
        assert "this model" in reason
        with pytest.raises(ValueError, match=r"needs text|cannot run here|deeper model"):
            if isinstance(method, LayerPruner):
                explore(view, {name: method})
            method.select(view.tokens, budget)
        return
    if isinstance(method, LayerPruner):
        least = method.lowest(view.tokens.n, view.layers)
        answer = model.answer(view, method.plan(view, least), max_new_tokens=1)
        assert round(answer.average_visual_tokens) <= least, name
        return
    selection = method.select(view.tokens, budget)
    answer = model.answer(view, selection, max_new_tokens=1)
    assert selection.size == answer.visual_tokens == budget, name
    if selection.features is not None:
        assert selection.features.dtype == view.tokens.features.dtype


def test_without_a_class_token_what_reads_it_is_off(request: pytest.FixtureRequest) -> None:
    model: Model = request.getfixturevalue("tiny_qwen")
    off = {name: model.reason_against(method) for name, method in PRUNERS.items()}
    for name in ("prumerge", "prumerge-plus", "visionzip"):
        assert "class token" in (off[name] or "")
    assert "CLIP text side" in (off["trim"] or "") and "CLIP text side" in (off["spare"] or "")
    for name in ("spare-reconstruction", "cdpruner-diversity", "divprune", "dart-diversity"):
        assert off[name] is None
