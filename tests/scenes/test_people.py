"""Forty questions in people's words about the six examples, written before any was answered."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from spare_demo.evaluation.grading import grade
from spare_demo.models import LlavaModel
from spare_demo.models.loading.catalogue import ASSETS

QUESTIONS = json.loads(Path(__file__).with_name("people.json").read_text(encoding="utf-8"))


def test_there_are_forty_about_every_example() -> None:
    assert len({(row["picture"], row["question"]) for row in QUESTIONS}) == 40
    examples = json.loads((ASSETS / "examples" / "examples.json").read_text(encoding="utf-8"))
    assert {row["picture"] for row in QUESTIONS} == {row["picture"] for row in examples}


@pytest.mark.xfail(strict=True, reason="these weights answer 33 of 40, three too few")
def test_at_least_36_are_answered_right(built_in: LlavaModel) -> None:
    look = functools.cache(lambda name: built_in.look(ASSETS / "examples" / name))
    wrong = []
    for row in QUESTIONS:
        view = built_in.ask(look(row["picture"]), row["question"])
        answer = built_in.answer(view, max_new_tokens=32).text
        if not grade(answer, row["answer"]):
            wrong.append((row["picture"], row["question"], row["answer"], answer))
    assert len(wrong) <= 4, wrong
