"""A visit in files: the same as the package's own result of the same request."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.results.citation import command_line
from spare_demo.results.export import result_text
from spare_demo.ui.cited import result_of
from spare_demo.ui.session import Choices, Guide, Visit

QUESTION = "What is red?"


def visited(guide: Guide, path: str, *methods: str) -> Visit:
    visit = guide.look(path, QUESTION, Choices(*methods), None)
    for now in guide.answer(visit, 5):
        visit = now
    return visit


def without_times(result: Result) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(result_text(result))
    del data["cost"], data["encode_seconds"], data["relevance_seconds"]
    for item in data["selections"].values():
        del item["select_seconds"]
    for item in data["answers"].values():
        del item["prefill_seconds"], item["decode_seconds"]
    return data


def test_a_visit_is_filed_as_the_result_of_its_request(guide: Guide, photo_file: str) -> None:
    longest = guide.settings.max_new_tokens
    same = compare(guide.model, photo_file, QUESTION, budget=5, max_new_tokens=longest)
    visit = visited(guide, photo_file, "spare", "cdpruner")
    result = result_of(visit, guide.model, guide.settings)
    assert list(result.selections) == ["spare", "cdpruner"] and result.finished
    assert command_line(result) == command_line(same)
    assert without_times(result) == without_times(same)


def test_a_method_twice_gets_two_names(guide: Guide, photo_file: str) -> None:
    visit = visited(guide, photo_file, "spare", "spare")
    result = result_of(visit, guide.model, guide.settings)
    assert list(result.answers) == ["unpruned", "spare", "spare (2)"]


def test_nothing_is_filed_before_every_answer_is_there(guide: Guide, photo_file: str) -> None:
    visit = visited(guide, photo_file, "spare", "cdpruner")
    unfinished = dataclasses.replace(visit, answers={"A": visit.answers["A"]})
    with pytest.raises(ValueError, match="Not every answer is there yet"):
        result_of(unfinished, guide.model, guide.settings)
