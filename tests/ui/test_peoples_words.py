"""What a visitor reads who asks the built-in model in words of their own."""

from __future__ import annotations

import pytest
from visits import controls

from spare_demo.models import load_model
from spare_demo.scenes.off_topic import MADE_FOR
from spare_demo.scenes.signature import scene_of
from spare_demo.settings import Settings
from spare_demo.ui.examples import draw_scene
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.visit import Visit


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
    assert MADE_FOR in shown["answers"]


def test_of_a_photo_the_picture_is_what_it_says(handlers, photo_file) -> None:
    for question in ("Is there a star?", "Who is the president?"):
        shown, _ = ask(handlers, photo_file, question)
        assert "knows drawn scenes only" in shown["answers"]
