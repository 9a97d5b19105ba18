"""Visitors at once, as benchmarks/load.py brings many more: each gets answers of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import load
import pytest
from pages import run_apart
from questions import Question, draw_questions
from visitors import Page, Run, connections, visiting

VISITORS, QUESTIONS = 3, 2
PATIENCE = 500  # on a machine that is busy


@pytest.fixture(scope="module")
def questions(served, tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    folder = tmp_path_factory.mktemp("scenes")
    return list(draw_questions(served.model, VISITORS * QUESTIONS, folder))


def run_patiently(work: Coroutine[Any, Any, Any]) -> Any:
    return run_apart(asyncio.wait_for(work, PATIENCE))


def test_visitors_at_once_get_the_answers_and_picks_that_are_theirs(served, questions) -> None:
    own = [questions[i::VISITORS] for i in range(VISITORS)]
    asked = [question for each in own for question in each]
    assert len({question.expected for question in asked}) == len(asked)
    runs, _, watch = run_patiently(load.ask_at_once(served.url, own))
    assert [run.refused for run in runs] == [""] * len(asked)
    assert load.find_wrong(runs, asked) == []
    assert load.find_wrong(runs[1:], asked[:-1]) != []  # it can tell them apart
    assert any(place > 0 for run in runs for place in run.places)  # who waits is told so
    # Each waits for one answer at a time; between two turns all of them do.
    assert watch.seconds and 0 < watch.most_waiting <= VISITORS


def test_what_a_visitor_who_left_asked_is_dropped(served, questions) -> None:
    assert run_patiently(load.leave_one(served.url, questions[0])) > 0
    assert run_patiently(load.leave_at_once(served.url, 4, questions)) > 0

    async def ask_again() -> tuple[list[Run], bool]:
        async with connections() as http:
            page = await Page.open(served.url, http)
            runs = await load.visit(page, http, questions[:1])
            return runs, load.is_idle(await load.health(served.url, http))

    runs, idle = run_patiently(ask_again())
    assert load.find_wrong(runs, questions[:1]) == [] and idle


def test_a_turned_away_visitor_is_told_why(served, questions) -> None:
    async def ask_without_a_picture() -> Run:
        async with connections() as http:
            page = await Page.open(served.url, http)
            async with visiting(page, http) as visitor:
                visitor.set(picture=None, question="Is it red?")
                return await visitor.do("ask", "click")

    run = run_patiently(ask_without_a_picture())
    assert "There is no picture" in run.shown["message"]
    assert load.read_comparison(run) is None
