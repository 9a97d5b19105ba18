"""Which kept token carries the answer, on the page: words, buttons and the message of the map."""

from __future__ import annotations

import json
import math

import pytest
from visits import merged, unpacked

from spare_demo.analysis.leave_one_out import LeaveOneOut, Removal, leave_one_out
from spare_demo.ui.guide import methods_by_slot
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.studies_html import carrier_html, carrier_reply


@pytest.mark.parametrize("budget", [5, 12])
def test_both_methods_are_measured_at_the_sliders_budget(handlers, finished, budget: int) -> None:
    steps = list(handlers.studies.carrier(budget, finished))
    assert "A SPARE: one answer took" in steps[0]["carrier"] and "Stop" in steps[0]["carrier"]
    assert "reply" not in merged(steps[:-1])
    last, reply = merged(steps), json.loads(steps[-1]["reply"])
    assert "took" not in last["carrier"] and last["carrier"].count("<section") == 2
    assert reply["kind"] == "carrier" and reply["budget"] == budget and reply["refused"] == {}
    view = finished.exploration.view
    for slot, selection in finished.exploration.selections(budget).items():
        answer = handlers.model.answer(view, selection, 3)
        *_, alone = leave_one_out(handlers.model, view, selection, answer, 3)
        assert alone.sentence(finished.titles[slot], finished.canvas.where).split(" (")[0] in (
            last["carrier"].replace("&#x27;", "'")
        )
        sent = reply["slots"][slot]
        assert unpacked(sent["tokens"]) == selection.kept.tolist()
        losses = [removal.log_loss for removal in alone.removals]
        assert unpacked(sent["losses"]) == pytest.approx(losses, abs=1e-5)
        others = [r.token for r in alone.removals if r.token != alone.carrier.token]
        assert f'data-others="{others}"' in last["carrier"]


def test_one_token_and_methods_inside_are_passed_over_with_a_sentence(handlers, finished) -> None:
    steps = list(handlers.studies.carrier(1, finished))
    assert steps[-1]["carrier"].count("budget of 2 or more") == 2
    assert "reply" not in merged(steps)
    other = handlers.guide.change_methods(finished, methods_by_slot("spare", "dart", 0), 0)
    last = merged(handlers.studies.carrier(12, other))
    assert "inside the language model" in last["carrier"] and "<section" in last["carrier"]
    reply = json.loads(last["reply"])
    assert set(reply["slots"]) == {"A"} and set(reply["refused"]) == {"B"}


def test_a_merged_method_is_drawn_at_its_largest_parts_without_a_button(handlers, finished) -> None:
    other = handlers.guide.change_methods(finished, methods_by_slot("visionzip", "spare", 0), 0)
    last = merged(handlers.studies.carrier(6, other))
    words = last["carrier"].split("</section>")[0]
    assert "merged rows" in words and "<button" not in words
    sources = other.exploration.selections(6)["A"].sources
    largest = {int(row.argmax()) for row in sources if row.any()}
    tokens = unpacked(json.loads(last["reply"])["slots"]["A"]["tokens"])
    assert set(tokens) == largest and len(tokens) == len(largest)


def test_of_two_rows_of_one_patch_the_map_has_the_larger_loss(finished) -> None:
    removals = (Removal(4, 0.5, "x"), Removal(None, 9.0, "x"), Removal(4, 2.0, "x"))
    result = LeaveOneOut("x", math.log(0.5), 3, True, removals)
    sent = json.loads(carrier_reply(finished, 5, {"B": result}, {}))["slots"]["B"]
    assert (unpacked(sent["tokens"]), unpacked(sent["losses"])) == ([4], [2.0])


def test_what_the_model_says_is_escaped(finished) -> None:
    removals = (Removal(4, 2.0, "<i>"), Removal(5, 0.0, "<b>"))
    result = LeaveOneOut("<b>", math.log(0.5), 2, False, removals)
    html = carrier_html(finished, {"A": result}, {"B": "<u>"})
    assert "&lt;b&gt;" in html and not any(tag in html for tag in ("<b>", "<i>", "<u>"))
    assert "Remove that token" in html
    stays = LeaveOneOut("<b>", math.log(0.5), 2, False, removals[1:] * 2)
    assert "Remove the token with the largest loss" in carrier_html(finished, {"A": stays}, {})


def test_a_budget_that_is_none_is_a_sentence(handlers, finished) -> None:
    (step,) = with_refusals(handlers.studies.carrier, "carrier")("many", finished)
    assert 'role="alert"' in step["carrier"]


def test_other_picks_clear_what_was_measured(handlers, finished) -> None:
    assert merged(handlers.change_methods("spare", "uniform", 0, 5, finished))["carrier"] == ""
