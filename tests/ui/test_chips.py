"""The questions below the question's box: those of the picture whose true answers are known."""

from __future__ import annotations

import pytest
from visits import controls

from spare_demo.scenes import sets
from spare_demo.ui.examples import draw_scene
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.panels import chips_html
from spare_demo.ui.replies import choose_chip
from spare_demo.ui.visit import Visit


def look(handlers: Handlers, path: str, question: str, **other) -> Visit:
    first = next(iter(handlers.ask(**controls(path, question, **other))))
    return first["visit"]


def test_a_new_scene_offers_its_questions_and_knows_the_answer_of_each(handlers: Handlers) -> None:
    path, first, example = handlers.new_scene()
    assert 1 <= len(example.answers) <= 4 and first == example.question
    for question, answer in example.answers.items():
        visit = look(handlers, path, question, example=example)
        assert visit.questions == tuple(example.answers) and visit.truth == answer


def test_an_example_offers_its_own_questions_and_an_upload_none(
    handlers: Handlers, photo_file: str
) -> None:
    photo = handlers.offered[0]
    assert look(handlers, photo.path, "Something else?").questions == tuple(photo.answers)
    _, _, scene = handlers.new_scene()
    changes = next(iter(handlers.ask(**controls(photo_file, "What?", example=scene))))
    assert changes["visit"].questions == () and changes["chips"] == ""


def test_a_scene_is_drawn_again_from_its_seed_with_the_same_questions(tmp_path) -> None:
    drawn = draw_scene("page", 7, tmp_path / "a"), draw_scene("page", 7, tmp_path / "b")
    assert drawn[0].answers == drawn[1].answers and drawn[0].key == drawn[1].key
    sample = sets.sample_of("page", 7)
    assert drawn[0].answers == {q.text: q.answer for q in sample.questions}
    assert sample.scene == sets.scene_of("page", 7)


def test_a_question_is_offered_with_the_article_people_write(handlers: Handlers, tmp_path) -> None:
    scene = draw_scene("page", 30, tmp_path)
    assert scene.answers["Is there an orange arrow?"] == "no"
    for asked in ("Is there an orange arrow?", "is there a orange arrow"):
        visit = look(handlers, scene.path, asked, example=scene)
        assert visit.questions == tuple(scene.answers) and visit.truth == "no"
        assert visit.asked is not None and visit.asked.answer == "no"


def test_a_scene_without_questions_is_refused(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "ask", lambda *_, **__: [])
    with pytest.raises(ValueError, match="Scene 7 of page has no question"):
        draw_scene("page", 7, tmp_path)


def test_chips_are_buttons_and_a_click_brings_the_question(handlers: Handlers) -> None:
    assert chips_html((), "x") == ""
    html = chips_html(("Is 1 < 2?", "Why?"), 'a"b')
    assert html.count("<button") == 2 and "Is 1 &lt; 2?" in html and "a&quot;b" in html
    photo = handlers.offered[0]
    visit = look(handlers, photo.path, photo.question)
    (chosen,) = choose_chip({"question": photo.question}, visit)
    assert chosen == {"question": photo.question}
    for other in ("Who?", None, 3):
        with pytest.raises(ValueError, match="another picture"):
            next(choose_chip({"question": other}, visit))
