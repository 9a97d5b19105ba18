"""All methods at one budget on the page: the sets first, then the answers, sorted by KL."""

from __future__ import annotations

import dataclasses
import re

import pytest
from visits import answered, page_request, with_result

from spare_demo.comparison.request import able_methods
from spare_demo.models.loading.catalogue import BUILT_IN
from spare_demo.pruners import PRUNERS
from spare_demo.ui import studies
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.visit import Visit


@pytest.fixture
def visit(handlers: Handlers, photo_file: str) -> Visit:
    """A finished comparison at budget 8."""
    request = page_request(photo_file, "What is it?", budget=8)
    return answered(handlers.guide, handlers.guide.look(request), 8)


def titles(html: str) -> list[str]:
    return re.findall(r"<figcaption><b>([^<]+)</b>", html)


def figures(html: str, name: str) -> list[float]:
    return [float(value) for value in re.findall(rf"{name} ([\d.e-]+)", html)]


def test_sets_come_first_and_answers_in_the_order_of_kl(handlers, visit, monkeypatch) -> None:
    monkeypatch.setattr(studies, "_REDRAW_SECONDS", 0.0)
    begun, *steps = [step["many"] for step in handlers.studies.all_methods(8, visit)]
    names, _ = able_methods(handlers.model, 16, 8, with_text=True)
    assert len(steps) > 3 and f"Choosing tokens with {len(names)} methods" in begun
    expected = {PRUNERS[name].title for name in names}
    for html in steps:
        assert len(titles(html)) == len(names) and set(titles(html)) == expected
    first, last = steps[0], steps[-1]
    assert first.count("<q>") == 2, "the page has the answers of two methods"
    assert "The answers follow …" in first and "inside the language model</p>" in first
    assert last.count("<q>") == len(names)
    order = figures(last[: last.index("What ")].replace("&lt;", ""), "KL")
    assert order == sorted(order) and len(order) == len(names)
    assert first.count("<img") < last.count("<img") == len(names) + 1
    before = [name for name in names if not PRUNERS[name].inside]
    assert f"by all {len(before)}</b>" in first and "kept by none" in first
    assert "kept by all" in first
    assert re.search(r'alt="FastV keeps \d+ of 16 tokens in the last layer\."', last)
    assert re.search(r'alt="SPARE keeps 8 of 16 tokens\."', last)
    for html in steps[1:-1]:
        assert f" {html.count('<q>')} of {len(names)} answers are there …" in html
    counts = [int(n) for html in steps for n in re.findall(r"(\d+) of \d+ answers are there", html)]
    assert counts == sorted(counts) and counts


def test_what_is_there_is_not_asked_again(handlers, visit, passes) -> None:
    passes.clear()
    names, _ = able_methods(handlers.model, 16, 8, with_text=True)
    list(handlers.studies.all_methods(8, visit))
    before = [name for name in names if not PRUNERS[name].inside]  # the others are not counted
    assert passes.answers() == len(before) - 2 and passes.looks() == 0
    passes.clear()
    names, reasons = able_methods(handlers.model, 16, 4, with_text=True)
    *_, last = handlers.studies.all_methods(4, visit)
    assert [name for name in names if PRUNERS[name].inside] == ["vscan-whole"]
    assert passes.answers() == len(names) - 1 and "VScan" in titles(last["many"])
    assert "FastV" not in titles(last["many"]) and f"FastV: {reasons['fastv']}" in last["many"]


@pytest.mark.parametrize(("method", "known"), [("random", 2), ("divprune:metric=euclidean", 1)])
def test_only_answers_of_the_same_settings_and_seed_are_taken_over(
    handlers, photo_file: str, method: str, known: int
) -> None:
    request = page_request(photo_file, "What is it?", "spare", method, seed=7, budget=8)
    visit = answered(handlers.guide, handlers.guide.look(request), 8)
    _, step, *_ = handlers.studies.all_methods(8, visit)
    assert step["many"].count("<q>") == known


def test_without_answers_there_are_sets_and_errors(handlers, visit, passes) -> None:
    passes.clear()
    unknown = dataclasses.replace(visit, unknown=True)
    off_topic = with_result(visit, model=BUILT_IN.name, question="Welche Farbe hat der Kreis?")
    for not_answered in (unknown, off_topic):
        _, step = handlers.studies.all_methods(visit.result.budget, not_answered)
        assert passes == [] and "error 0." in step["many"] and "answer" not in step["many"]


def test_words_of_the_model_are_no_markup(handlers, visit) -> None:
    answers = {
        label: dataclasses.replace(answer, text="<b>7</b>")
        for label, answer in visit.result.answers.items()
    }
    result = dataclasses.replace(visit.result, answers=answers)
    _, step, *_ = handlers.studies.all_methods(8, dataclasses.replace(visit, result=result))
    assert "&lt;b&gt;7&lt;/b&gt;" in step["many"] and "<b>7" not in step["many"]


def test_answers_are_marked_where_the_truth_is_known(handlers, visit) -> None:
    texts = {"unpruned": "red", "A": "red", "B": "blue"}
    answers = {x: dataclasses.replace(visit.result.answers[x], text=texts[x]) for x in texts}
    known = dataclasses.replace(with_result(visit, answers=answers), truth="red")
    _, step, *_ = handlers.studies.all_methods(8, known)
    marks = re.findall(r'aria-label="(\w+)" role="img">(.)</span> <q>(\w+)', step["many"])
    assert sorted(marks) == [("right", "✓", "red"), ("wrong", "✗", "blue")]
    assert re.findall(r"(\w+)</q> <i>another answer", step["many"]) == ["blue"]


def test_a_budget_that_is_none_is_a_sentence(handlers, visit) -> None:
    (step,) = with_refusals(handlers.studies.all_methods, "many")(99, visit)
    assert "from 1 to 16" in step["many"]
