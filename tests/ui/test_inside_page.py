"""The page with a method that chooses inside the language model, and so has no single set."""

from __future__ import annotations

import json

import pytest

from spare_demo.ui.panels import answers_html, layers_html
from spare_demo.ui.payload import leftover_mail, payload, picks_mail, why_mail
from spare_demo.ui.visit import Choices, Guide, Visit


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(photo_file, "What is <it>?", Choices("spare", "fastv"), None)


def test_the_browser_gets_no_set_to_draw(visit: Visit) -> None:
    method = json.loads(json.dumps(payload(visit, 8)))["methods"]["B"]
    assert method["inside"] and method["order"] is None and method["label"] == "B FastV"
    for mail in (picks_mail, leftover_mail):
        with pytest.raises(ValueError, match="B FastV has no single token set"):
            mail(visit, "B", 8)
    assert set(json.loads(why_mail(visit, 3, 8, "own"))["reasons"]) == {"A"}


def test_once_answered_every_layer_is_shown(guide: Guide, visit: Visit) -> None:
    assert layers_html(visit) == ""
    assert "B FastV · 8 on average" in answers_html(visit, 8)
    *_, done = guide.answer(visit, 8)
    plan = done.exploration.plan("B", 8)
    assert done.answers["B"].kept_per_layer == plan.per_layer
    shown = layers_html(done)
    assert "B FastV has no single token set" in shown
    assert ", ".join(map(str, plan.per_layer)) in shown
    assert f"{plan.average:.1f} on average and {plan.last} in the last" in shown
    assert shown.count("<figure>") == len(plan.stops)
    assert f"In layer 2 of 3 B FastV still has {plan.last} of 16 tokens" in shown


def test_a_budget_out_of_reach_is_said_and_nothing_is_lost(guide: Guide, visit: Visit) -> None:
    with pytest.raises(ValueError, match=r"FastV cannot meet a budget of 2.*from 6 to 16"):
        list(guide.answer(visit, 2))
    assert payload(visit, 2)["methods"]["A"]["order"] is not None
