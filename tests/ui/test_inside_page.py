"""The page with a method that chooses inside the language model, and so has no single set."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from visits import controls, page_reply, page_request, unpacked, with_result

from spare_demo.ui.answers import answers_html
from spare_demo.ui.cost_table import cost_html
from spare_demo.ui.guide import Guide
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.payload import identity, payload, per_layer, per_layer_reply
from spare_demo.ui.sources import merged_html
from spare_demo.ui.visit import Visit
from spare_demo.ui.wire import to_bytes, to_json


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    return guide.look(page_request(photo_file, "What is <it>?", "spare", "fastv"))


def bits(sent: dict[str, str] | np.ndarray) -> list[int]:
    """The patches that a packed set holds."""
    flags = np.unpackbits(np.array(unpacked(sent), dtype=np.uint8), bitorder="little")
    return flags.nonzero()[0].tolist()


def test_the_browser_gets_no_set_to_draw(handlers: Handlers, visit: Visit) -> None:
    sent = payload(visit, 8)
    assert to_bytes(sent)
    method = sent["methods"]["B"]
    assert method["inside"] and method["order"] is None and method["label"] == "B FastV"
    assert method["lowest"] == 6 and method["per_layer"] is None and sent["depth"] == 3
    for name in ("picks", "leftover"):  # asked of the method that stood there before
        reply = page_reply(handlers, name, visit, slot="B", budget=8)
        assert reply["kind"] == name and reply["of"] is None
    why = page_reply(handlers, "why", visit, patch=3, budget=8, step="own")
    assert set(why["reasons"]) == {"A"}


def test_once_answered_every_layer_is_sent(guide: Guide, visit: Visit) -> None:
    assert per_layer_reply(visit) is None and per_layer(visit, "A") is None
    assert "B FastV · 8 on average" in answers_html(visit, 8)
    *_, done = guide.answer(visit, 8)
    plan, answer = done.exploration.plans(8)[0]["B"], done.result.answers["B"]
    reply = json.loads(per_layer_reply(done) or "")
    assert reply["kind"] == "per-layer" and reply["of"] == payload(done, 8)["of"] == identity(visit)
    assert list(reply["slots"]) == ["B"]
    told = reply["slots"]["B"]
    sent = payload(done, 8)["methods"]["B"]["per_layer"]
    assert json.loads(to_json("", sent=sent))["sent"] == told
    assert told["budget"] == 8 and tuple(told["counts"]) == plan.per_layer
    for sent, found in zip(told["sets"], answer.layer_sets, strict=True):
        assert sent["layer"] == found.layer and sent["rows"] == 0 and sent["sources"] is None
        assert bits(sent["kept"]) == found.kept.tolist() and bits(sent["merged"]) == []
    assert told["sentence"] == (
        "B FastV has no single token set: it chooses inside the language model. Its layers got "
        f"{plan.average:.1f} visual tokens on average, the last one {plan.last}. Its paper counts "
        f"{plan.last:.1f}: tokens after layer K only."
    )
    cost = cost_html(done, lambda answer: None)
    assert f"The paper of B FastV counts {plan.last}.0 visual tokens, where the average" in cost
    assert f"over layers is {plan.average:.1f}: tokens after layer K only." in cost


def test_merged_rows_and_the_papers_way_of_counting_are_told(
    guide: Guide, visit: Visit, photo_file: str
) -> None:
    by_rank = guide.look(page_request(photo_file, "What?", "spare", "fastv:counting=rank"))
    *_, done = guide.answer(by_rank, 8)
    assert (per_layer(done, "B") or {})["sentence"].endswith(
        "Its paper counts 8.0: tokens after layer K only."
    )
    assert identity(by_rank) != identity(visit)


def test_merged_patches_are_sent_beside_the_kept_ones(guide: Guide, visit: Visit) -> None:
    import torch

    from spare_demo.pruners.plan import LayerSet

    *_, done = guide.answer(visit, 8)
    sources = torch.zeros(2, 16)
    sources[0, 3], sources[1, 15] = 1.0, 0.5
    merging = dataclasses.replace(
        done.result.answers["B"], layer_sets=(LayerSet(1, torch.tensor([0, 8]), sources),)
    )
    told = per_layer(with_result(done, answers={**done.result.answers, "B": merging}), "B")
    (found,) = (told or {})["sets"]
    assert bits(found["kept"]) == [0, 8] and bits(found["merged"]) == [3, 15]
    assert found["rows"] == 2
    assert unpacked(found["sources"]["counts"]) == [1, 1]
    assert unpacked(found["sources"]["patches"]) == [3, 15]
    assert unpacked(found["sources"]["shares"]) == [1.0, 0.5]


def test_of_what_enters_merged_each_layer_says_what_is_in_it(guide: Guide, photo_file: str) -> None:
    visit = guide.look(page_request(photo_file, "What is <it>?", "spare", "vscan-whole"))
    sent = payload(visit, 8)["methods"]["B"]
    assert sent["inside"] and sent["merges"] and sent["lowest"] == 1 and sent["order"] is None
    *_, done = guide.answer(visit, 8)
    found = per_layer(done, "B") or {}
    assert found["counts"] == [12, 6, 6]
    first, second = found["sets"]
    assert (first["layer"], second["layer"]) == (0, 1)
    picks = done.exploration.plans(8)[0]["B"].entering.kept.tolist()
    assert bits(first["kept"]) == picks and set(bits(second["kept"])) <= set(picks)
    assert len(bits(second["kept"])) == 6
    assert bits(first["merged"]) == [patch for patch in range(16) if patch not in picks]
    for sent in (first, second):
        assert sent["grown"] == (sent["rows"] > 0) and len(unpacked(sent["sources"]["counts"])) > 0
    assert len(unpacked(first["sources"]["patches"])) == first["rows"] + 4
    assert found["sentence"] == (
        "B VScan has no single token set: it chooses inside the language model, among 12 chosen "
        "before it. Its layers got 8.0 visual tokens on average, the last one 6."
    )
    shown = merged_html(done, 8, 0, 0)
    assert (
        f"B VScan still has 12 of 16 tokens, {first['rows']} of them mixed with 4 others" in shown
    )


def test_a_budget_out_of_reach_is_said_and_the_others_answer(guide: Guide, visit: Visit) -> None:
    *_, done = guide.answer(visit, 2)
    assert set(done.result.answers) == {"unpruned", "A"}
    assert "FastV cannot meet a budget of 2" in done.result.refused["B"]
    shown = answers_html(done, 2)
    assert "Choose a budget from 6 to 16." in shown
    assert '<button type="button" class="reach" data-k="6">Set the budget to 6</button>' in shown
    assert cost_html(done, lambda answer: None).count("<th scope='col'") == 2
    with pytest.raises(ValueError, match="FastV cannot meet"):
        done.result_to_cite()
    *_, back = guide.answer(done, 8)
    assert set(back.result.answers) == {"unpruned", "A", "B"} and not back.result.refused


def test_the_layers_come_with_the_finished_answers(handlers: Handlers, photo_file: str) -> None:
    steps = list(handlers.ask(**controls(photo_file, "What?", method_a="fastv", budget=8)))
    assert json.loads(steps[-1]["reply"])["slots"]["A"]["budget"] == 8
    assert all("reply" not in step for step in steps[:-1])
