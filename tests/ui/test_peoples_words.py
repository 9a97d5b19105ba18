"""What a visitor reads who asks the built-in model in words of their own."""

from __future__ import annotations

import dataclasses

import pytest
from visits import controls, headline_text, merged

from spare_demo.models import LlavaModel
from spare_demo.scenes.practice import MADE_FOR
from spare_demo.scenes.sets import scene_of
from spare_demo.settings import Settings
from spare_demo.ui.examples import draw_scene
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.visit import Visit


@pytest.fixture(scope="module")
def handlers(built_in: LlavaModel) -> Handlers:
    return Handlers(built_in, Settings())


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> str:
    return draw_scene("page", 1001, tmp_path_factory.mktemp("scenes")).path


def ask(handlers: Handlers, path: str, question: str) -> tuple[dict, Visit]:
    """All that pressing Ask changes."""
    shown = merged(handlers.ask(**controls(path, question, budget=16)))
    return shown, shown["visit"]


@pytest.mark.parametrize(
    "question", ["Is there a star?", "is there a star", "Please tell me: do you see a star?"]
)
def test_other_words_get_the_answer(handlers, scene, question: str) -> None:
    assert any(thing.shape == "star" for thing in scene_of("page", 1001).things)
    shown, visit = ask(handlers, scene, question)
    assert visit.result.answers["unpruned"].text == "yes"
    assert MADE_FOR not in shown["answers"]


def test_off_topic_it_says_what_it_is_for(handlers, scene) -> None:
    shown, visit = ask(handlers, scene, "Who is the president?")
    assert visit.result.answers["unpruned"].text == MADE_FOR and not visit.unknown
    assert f"<h3>{MADE_FOR}</h3>" in shown["answers"]
    # What fewer tokens make of that sentence is folded away, and the headline does not weigh it.
    instead, folded = shown["answers"].split('<details class="noise">')
    assert 'class="card' not in instead and folded.count('class="card') == 3
    head = headline_text(shown["headline"])
    assert head.endswith("in common.") and "differs" not in head


@pytest.mark.parametrize("question", ["Welche Farbe hat der Kreis?", "圆是什么颜色?", "12?", "?"])
def test_what_is_not_said_in_its_words_is_off_topic(handlers, scene, question: str) -> None:
    shown, _ = ask(handlers, scene, question)
    instead, _ = shown["answers"].split('<details class="noise">')
    assert MADE_FOR in instead and "Ask in English" in instead


def test_the_true_answer_stands_beside_one_that_took_it_for_off_topic(handlers, scene) -> None:
    _, visit = ask(handlers, scene, "Who is the president?")
    known = dataclasses.replace(visit, truth="yes")
    shown = handlers.steps.finished(known, 16)
    assert "true answer: yes" in shown["answers"] and "noise" not in shown["answers"]
    assert "in common" not in headline_text(shown["headline"])


def test_of_a_photo_the_picture_is_what_it_says(handlers, photo_file) -> None:
    for question in ("Is there a star?", "Who is the president?"):
        shown, _ = ask(handlers, photo_file, question)
        assert "knows drawn scenes only" in shown["answers"]
