"""Find a disagreement: where it stops, what it shows there, and what it says when it gives up."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from PIL import Image
from visits import controls

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.ui import build, find, page
from spare_demo.ui.find import READ, find_disagreement
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.open_visits import OpenVisits, VisitKey
from spare_demo.ui.visit import Visit
from spare_demo.ui.wiring import until_asked


def asked(**other: Any) -> dict[str, Any]:
    """What the controls say that the search reads."""
    said = controls(None, "", **other)
    return {name: said[name] for name in READ}


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether the answers about each scene differ, in turn."""
    turns: list[bool] = []

    def find_split(model: Any, picture: Any, questions: list[str], *rest: Any) -> str | None:
        return questions[-1] if turns.pop(0) else None

    monkeypatch.setattr(find, "find_split", find_split)
    yield turns


def test_it_stops_at_the_first_scene_that_splits_a_and_b(
    handlers: Handlers, splits: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    splits += [False, False, True]
    monkeypatch.setattr(find, "first_difference", lambda *texts: True)
    steps = list(find_disagreement(handlers, **asked()))
    assert [step["tried"].split(">")[1].split("<")[0] for step in steps] == [
        "Drawing the first scene …",
        "Asking about the first scene …",
        "Tried 1 scene: A and B agreed on each.",
        "Tried 2 scenes: A and B agreed on each.",
        "Tried 3 scenes: here A and B answer differently.",
    ]
    last = steps[-1]
    example, visit = last["example"], last["visit"]
    assert last["question"] == [*example.answers][-1] == visit.request.question
    assert visit.truth == example.answers[last["question"]]
    assert visit.questions == tuple(example.answers)
    assert visit.result.finished and visit.result.budget == 5
    assert visit.result.refused == {} and {"stage", "answers", "cost", "chips"} <= set(last)
    assert Image.open(last["image"]).size == (336, 336)


def test_answers_that_agree_after_all_are_passed_over(
    handlers: Handlers, splits: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    splits += [True, True]
    verdicts = [False, True]
    monkeypatch.setattr(find, "first_difference", lambda *texts: verdicts.pop(0))
    steps = list(find_disagreement(handlers, **asked()))
    assert "visit" not in steps[2] and "Tried 1 scene: A and B agreed" in steps[2]["tried"]
    assert "Tried 2 scenes: here" in steps[3]["tried"]


@pytest.mark.parametrize(("budget", "where"), [(7, "at 7 tokens."), (1, "at 1 token.")])
def test_without_one_it_says_how_many_were_tried_and_what_to_do(
    handlers: Handlers, splits: list[bool], budget: int, where: str
) -> None:
    splits += [False] * find.MOST_SCENES
    *_, last = find_disagreement(handlers, **asked(budget=budget))
    assert f"Tried {find.MOST_SCENES} scenes" in last["tried"] and where in last["tried"]
    assert ("smaller budget" in last["tried"]) == (budget > 1) and splits == []


@pytest.mark.parametrize(
    ("other", "sentence"),
    [({"method_b": "spare"}, "the same method"), ({"budget": 17}, "from 1 to 16")],
)
def test_what_can_never_differ_is_refused_at_once(
    handlers: Handlers, other: dict[str, Any], sentence: str
) -> None:
    (step,) = with_refusals(find_disagreement, "tried")(handlers, **asked(**other))
    assert sentence in step["tried"] and not list(Path(handlers.scenes).iterdir())


def test_a_real_search_ends_on_answers_that_differ(handlers: Handlers) -> None:
    """The tiny model's answers are noise, which differ soon."""
    *_, last = find_disagreement(handlers, **asked(budget=2))
    answers = last["visit"].result.answers
    assert answers["A"].text.split() != answers["B"].text.split()


def test_it_ends_once_something_else_is_asked(
    tiny_model: LlavaModel,
    small_settings: Settings,
    splits: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visits = OpenVisits(8)
    monkeypatch.setattr(page, "OpenVisits", lambda *_, **__: visits)
    monkeypatch.setattr(find, "first_difference", lambda *texts: True)
    demo = build(tiny_model, small_settings)
    (opening,) = (b.value for b in demo.blocks.values() if isinstance(b, gr.State)
                  and isinstance(b.value, VisitKey))  # fmt: skip
    (search,) = (f for f in demo.fns.values() if len(f.inputs) == len(READ) and f.outputs
                 and isgeneratorfunction(f.fn))  # fmt: skip

    def words(step: dict[Any, Any]) -> list[str]:
        return [value for part, value in step.items() if part.elem_id == "tried"]

    splits += [False, True]
    steps = search.fn(*asked().values())
    steps = list(steps)
    assert "here A and B answer differently" in str([words(step) for step in steps])
    shown = [{part.elem_id: value for part, value in step.items()} for step in steps]
    # Taken back in the next step, the picture would lose its file where the page is slow.
    found = shown[-2]["picture"]
    assert Path(found).is_file() and shown[-1]["picture"] == found
    splits += [True]
    steps = search.fn(*asked().values())
    found = next(step for step in steps if "differently" in str(words(step)))
    visits.put(visits.get(opening))
    (last,) = steps
    assert "something else was asked" in str(words(last))
    (picture,) = (part for part in found if part.elem_id == "picture")
    assert last[picture] == found[picture]
    splits += [False, True]
    steps = search.fn(*asked().values())
    seen = [words(next(steps)) for _ in range(3)]  # drawing, asking, tried one
    assert "Tried 1 scene" in str(seen[-1])
    visits.put(visits.get(opening))
    (last,) = steps
    assert "something else was asked" in str(words(last))
    assert {part.elem_id for part in last} == {"tried"}


def test_what_was_asked_before_it_does_not_end_it(finished: Visit) -> None:
    """The answer of New scene may still come word by word when the search begins."""
    visits = OpenVisits(8)
    steps: Iterator[dict[str, Any]] = ({"tried": word} for word in ("one", "two", "three"))
    search = until_asked(steps, visits, asked=100.0)
    assert next(search) == {"tried": "one"}
    visits.put(finished, asked=99.0)
    assert next(search) == {"tried": "two"}
    visits.put(finished, asked=101.0)
    (last,) = search
    assert "something else was asked" in last["tried"]
