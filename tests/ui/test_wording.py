"""What a visitor reads who asks the built-in model in words that it was not taught."""

from __future__ import annotations

import pytest
from visits import controls

from spare_demo.models import load_model
from spare_demo.scenes.off_topic import MADE_FOR
from spare_demo.scenes.signature import questions_of, scene_of
from spare_demo.scenes.taught import wording
from spare_demo.settings import Settings
from spare_demo.ui.examples import draw_scene
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.visit import Visit

GUESSES = "its answers are guesses"


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return Handlers(load_model("built-in", "cpu"), Settings())


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> str:
    return draw_scene("page", 1001, tmp_path_factory.mktemp("scenes")).path


def ask(handlers: Handlers, path: str, question: str) -> tuple[dict, Visit]:
    """All that pressing Ask changes."""
    shown: dict = {}
    for step in handlers.ask(**controls(path, question, budget=16)):
        shown |= step
    return shown, shown["visit"]


def test_a_question_in_its_own_words_is_answered_without_a_word_about_it(handlers, scene) -> None:
    shown, visit = ask(handlers, scene, "What colour is the star?")
    assert visit.wording == "taught"
    assert GUESSES not in shown["notes"] and MADE_FOR not in shown["answers"]


def test_other_words_are_said_to_be_answered_by_guessing(handlers, scene) -> None:
    assert any(thing.shape == "star" for thing in scene_of("page", 1001).things)
    shown, visit = ask(handlers, scene, "Is there a star?")
    assert GUESSES in shown["notes"]
    assert MADE_FOR not in shown["answers"]
    assert len(visit.questions) == 3 and "star" in visit.questions[0]
    assert shown["chips"].count('class="chip"') == 3
    # What is offered is taught, and its true answer known.
    for question in visit.questions:
        _, asked = ask(handlers, scene, question)
        answers = {q.text: q.answer for q in questions_of("page", 1001)}
        assert asked.wording == "taught" and asked.truth == answers[question]


def test_off_topic_it_says_what_it_is_for_and_folds_its_answers_away(handlers, scene) -> None:
    shown, visit = ask(handlers, scene, "Who is the president?")
    assert visit.is_noise and not visit.unknown
    before, noise = shown["answers"].split('<details class="noise">')
    assert MADE_FOR in before
    assert visit.result.answers["unpruned"].text in noise
    assert "in common." in shown["headline"]  # what is kept, and no verdict
    assert GUESSES not in shown["notes"]


def test_of_a_photo_the_picture_is_what_it_says(handlers, photo_file) -> None:
    for question in ("Is there a star?", "Who is the president?"):
        shown, _ = ask(handlers, photo_file, question)
        assert "knows drawn scenes only" in shown["answers"]
        assert MADE_FOR not in shown["answers"] and GUESSES not in shown["notes"]


def test_nothing_is_offered_that_was_not_taught(handlers, tmp_path) -> None:
    scene = draw_scene("held-out-wordings", 3, tmp_path)
    shown, visit = ask(handlers, scene.path, scene.question)
    assert visit.truth == scene.answers[scene.question]
    assert visit.wording != "taught"
    taught = {q.text for q in questions_of("held-out-wordings", 3) if wording(q.text) == "taught"}
    assert set(visit.questions) <= taught
    said = shown["notes"] + shown["answers"]
    assert ("under the question" in said) == bool(visit.questions)
