"""The page's table of costs, read back from its HTML."""

from __future__ import annotations

import dataclasses
import re

from visits import answered, page_request, with_result

from spare_demo.analysis.cost import bytes_text, operations_text, seconds_text
from spare_demo.ui.cost_table import cost_html
from spare_demo.ui.guide import Guide
from spare_demo.ui.visit import Visit


def lines(html: str) -> dict[str, list[str]]:
    """Each line's cells by its heading; the heads of the columns under ""."""
    found = {}
    for row in re.findall("<tr>(.*?)</tr>", html):
        head, *cells = re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row)
        found[head] = cells
    return found


def test_a_column_says_what_was_measured_of_an_answer(visit: Visit) -> None:
    html = cost_html(visit, lambda answer: answer.prefill_seconds / 2)
    found = lines(html)
    assert [head[:3] for head in found[""]] == ["All", "A S", "B C"]
    assert "class='a'>A SPARE" in html and "class='b'>B CDPruner" in html
    for i, label in enumerate(("unpruned", "A", "B")):
        answer = visit.result.answers[label]
        said = {name: cells[i] for name, cells in found.items() if len(cells) == 3}
        assert said["tokens in"] == str(answer.prompt_tokens)
        assert said["visual tokens in"] == str(answer.visual_tokens)
        assert said["prefill"] == seconds_text(answer.prefill_seconds)
        assert said["prefill floor"] == seconds_text(answer.prefill_seconds / 2)
        assert said["prefill operations"] == operations_text(answer.prefill_operations)
        assert said["decode"] == seconds_text(answer.decode_seconds)
        assert said["tokens out"] == str(len(answer.token_ids))
        assert said["KV cache"] == bytes_text(answer.kv_cache_bytes)


def test_a_floor_above_what_was_measured_is_none(visit: Visit) -> None:
    html = cost_html(visit, lambda answer: 2 * answer.prefill_seconds)
    assert lines(html)["prefill floor"] == ["not known"] * 3
    assert "Floor:" not in html


def test_stages_stand_in_the_order_of_the_run(visit: Visit) -> None:
    html = cost_html(visit, lambda answer: None)
    stages = ["encode", "relevance", "select", "prefill", "decode"]
    assert [name for name in lines(html) if name in stages] == stages
    found = lines(html)
    assert found["encode"] == [
        f"{seconds_text(visit.exploration.view.picture.encode_seconds)}, once for this picture"
    ]
    once = seconds_text(visit.exploration.view.relevance_seconds)
    assert found["relevance"] == [f"{once}, once for this question"]
    together = seconds_text(visit.exploration.select_seconds["A"])
    assert found["select"] == ["–", f"{together} together"]
    n = visit.exploration.n
    assert f"Select, A and B: all {n} tokens are put in order once" in html


def test_each_selection_has_its_time_where_methods_run_apart(guide: Guide, photo_file: str) -> None:
    looked = guide.look(page_request(photo_file, "What is it?", "visionzip", "fastv"))
    visit = answered(guide, looked, 12)
    seconds = visit.exploration.seconds_to_select("A", 12)
    assert seconds is not None and seconds > 0
    html = cost_html(visit, lambda answer: None)
    assert lines(html)["select"] == ["–", seconds_text(seconds), "–"]
    assert "put in order once" not in html
    untimed = cost_html(with_result(visit, select_seconds={}), lambda answer: None)
    assert lines(untimed)["select"] == ["–"] * 3


def test_methods_whose_picks_are_prefixes_are_named_in_order(guide: Guide, photo_file: str) -> None:
    # SPARE is run after the others.
    looked = guide.look(page_request(photo_file, "What is it?", "spare", "anti-relevance"))
    assert "Select, A and B:" in cost_html(answered(guide, looked), lambda answer: None)


def test_what_enters_under_a_plan_has_its_time(guide: Guide, photo_file: str) -> None:
    looked = guide.look(page_request(photo_file, "What is it?", "fastv", "vscan-whole"))
    visit = answered(guide, looked, 8)
    seconds = visit.exploration.seconds_to_select("B", 8)
    assert seconds is not None and seconds > 0
    found = lines(cost_html(visit, lambda answer: None))
    assert found["select"] == ["–", "–", seconds_text(seconds)]
    assert found["visual tokens in"][2] == "8.0 a layer, 6 in the last"
    assert found["tokens in"][2] == str(visit.result.answers["unpruned"].prompt_tokens - 4)


def test_no_gain_is_said_plainly(visit: Visit) -> None:
    whole = dataclasses.replace(visit.result.answers["unpruned"], newline_tokens=24)
    same = dict.fromkeys(("unpruned", "A", "B"), whole)
    html = cost_html(with_result(visit, answers=same), lambda answer: None)
    assert "not known" in html and "Floor:" not in html
    assert html.count("no gain in prefill time") == 2 and "24 newline tokens go in" in html


def test_what_was_set_aside_is_told_apart_from_the_cache(visit: Visit) -> None:
    own = {
        label: dataclasses.replace(answer, allocated_bytes=answer.kv_cache_bytes * (label == "B"))
        for label, answer in visit.result.answers.items()
    }
    visit = with_result(visit, answers=own)
    assert "allocated" not in cost_html(visit, lambda answer: None).lower()
    answer = dataclasses.replace(
        visit.result.answers["A"], kv_cache_bytes=2048, allocated_bytes=5120
    )
    roomy = with_result(visit, answers={**visit.result.answers, "A": answer})
    html = cost_html(roomy, lambda answer: None)
    found = lines(html)
    assert (found["KV cache"][1], found["allocated"][1]) == ("2.0 KiB", "5.0 KiB")
    assert found["allocated"][0] == found["KV cache"][0]
    assert "Allocated includes room" in html


def test_a_method_that_cannot_meet_the_budget_has_no_column(visit: Visit) -> None:
    answers = {label: visit.result.answers[label] for label in ("unpruned", "B")}
    refused = with_result(visit, answers=answers, refused={"A": "It cannot."})
    found = lines(cost_html(refused, lambda answer: None))
    assert [head[:1] for head in found[""]] == ["A", "B"]
    seconds = seconds_text(visit.exploration.select_seconds["B"])
    assert len(found["prefill"]) == 2 and found["select"] == ["–", seconds]


def test_costs_wait_for_all_three_answers(visit: Visit) -> None:
    part = with_result(visit, answers={"unpruned": visit.result.answers["unpruned"]})
    assert "<table" not in cost_html(part, lambda answer: None)
