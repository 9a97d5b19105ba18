"""What the page opens on by default, and the headline that changes with it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import gradio as gr
import pytest
from gradio_client import Client
from pages import serving
from visits import controls, finished_answers, headline_text, merged, page_request, with_result

from spare_demo.models import load_model
from spare_demo.settings import Settings
from spare_demo.ui import build
from spare_demo.ui.examples import choose_opening, load_examples, new_scene
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.panels import headline_html
from spare_demo.ui.saved_page import save_visit
from spare_demo.ui.visit import Visit

PHOTOS, SCENES = load_examples("llava-1.5-7b"), load_examples("built-in")


def test_only_the_built_in_model_as_it_starts_opens_on_the_chosen_case() -> None:
    usual = Settings()
    chosen = choose_opening("built-in", SCENES, usual)
    assert chosen.question in chosen.example.answers and chosen.budget < usual.budget
    said = Settings.__dataclass_fields__["budget"].metadata["help"]
    assert "chosen case with a budget of its own" in said  # also where 64 is asked for
    for settings in (Settings(budget=63), Settings(methods=("spare", "random"))):
        first = choose_opening("built-in", SCENES, settings)
        assert (first.example, first.budget) == (SCENES[0], settings.budget)
    first = choose_opening("llava-1.5-7b", PHOTOS, usual)
    assert (first.example, first.question) == (PHOTOS[0], PHOTOS[0].question)


def test_the_page_opens_on_the_chosen_case_with_its_headline(built_in, unused_port: int) -> None:
    settings = Settings(model="built-in", device="cpu", port=unused_port)
    with serving(built_in, settings) as page:  # what a browser is sent is the same
        parts = {p["props"].get("elem_id"): p["props"] for p in page.demo.config["components"]}
        config = Client(page.url, verbose=False).config["components"]
    (served,) = (p["props"] for p in config if p["props"].get("elem_id") == "headline")
    assert served["value"] == parts["headline"]["value"]
    opening = choose_opening("built-in", SCENES, settings)
    assert parts["picture"]["value"]["orig_name"] == Path(opening.example.path).name
    assert parts["question"]["value"] == opening.question
    assert parts["budget"]["value"] == opening.budget
    words = headline_text(parts["headline"]["value"])
    assert words.startswith(
        f"With {opening.budget} of 576 tokens, no kept patch shows a letter of "
    )
    assert "CDPruner still answers FOX; SPARE answers “" in words
    assert finished_answers(parts["answers"]["value"]) == 3
    assert f'data-budget="{opening.budget}"' in parts["answers"]["value"]


@pytest.mark.parametrize("answers", [True, False])
def test_what_needs_answers_is_offered_where_the_model_gives_them(
    built_in, small_settings, answers: bool
) -> None:
    model = built_in if answers else load_model("built-in", "cpu", language_model=False)
    blocks = build(model, small_settings).blocks.values()
    parts = {getattr(part, "elem_id", None): part for part in blocks}
    shown = {"find-enough", "find-carrier", "find-disagreement", "changes", "price", "truth"}
    assert {parts[name].visible for name in shown} == {answers}
    assert ("Surprising cases" in {getattr(part, "label", None) for part in blocks}) is answers
    tabs = {part.id: part.visible for part in blocks if isinstance(part, gr.Tab)}
    assert tabs == {"compare": True, "lab": answers}


def test_it_says_what_is_kept_at_first_and_what_came_of_it_at_the_end(built_in) -> None:
    handlers = Handlers(built_in, Settings())
    opening = handlers.opening
    asked = controls(opening.example.path, opening.question, budget=opening.budget)
    first, *rest = handlers.ask(**asked)
    pattern = r"SPARE and CDPruner keep \d+ of their 24 tokens in common\."
    assert re.fullmatch(pattern, headline_text(first["headline"]))
    shown = merged(rest)
    assert "no kept patch shows" in headline_text(shown["headline"])
    visit = shown["visit"]
    # The slider elsewhere: the answers are not of what the picture shows there.
    moved = merged(handlers.redraw(100, visit))
    assert "of their 100 tokens in common" in headline_text(moved["headline"])
    changed = merged(handlers.change_methods("uniform", "cdpruner", 0, 24, visit))
    assert "Uniform" in headline_text(changed["headline"])


def test_stopped_it_says_what_is_kept(handlers: Handlers, finished: Visit) -> None:
    alone = {"unpruned": finished.result.answers["unpruned"]}
    shown = merged(handlers.stop(5, with_result(finished, answers=alone)))
    assert "of their 5 tokens in common." in headline_text(shown["headline"])


def test_of_noise_it_says_what_is_kept_alone(finished: Visit) -> None:
    assert " answer" in headline_text(headline_html(finished, 5))
    unknown = dataclasses.replace(finished, unknown=True)
    assert "in common." in headline_text(headline_html(unknown, 5))


def test_a_new_scene_brings_its_truth_and_its_places(built_in, tmp_path: Path) -> None:
    handlers = Handlers(built_in, Settings())
    scene = new_scene(tmp_path)
    request = page_request(scene.path, scene.question, budget=16)
    visit = handlers._look(request, None, None)  # another visitor's page does not know the scene
    assert visit.truth == scene.answers[scene.question] and not visit.unknown
    assert visit.asked is not None and visit.asked.answer == visit.truth


def test_the_saved_page_has_it_above_its_viewer(finished: Visit) -> None:
    page = save_visit(finished)
    words = headline_text(page)
    assert words == headline_text(headline_html(finished, 5))
    assert page.index('class="headline"') < page.index('class="viewer"')


def test_words_of_answers_are_text_on_the_page(finished: Visit) -> None:
    whole = finished.result.answers["unpruned"]
    odd = {
        label: dataclasses.replace(answer, text="<b>x</b>" if answer is not whole else "y")
        for label, answer in finished.result.answers.items()
    }
    html = headline_html(dataclasses.replace(with_result(finished, answers=odd), truth="y"), 5)
    assert "&lt;b&gt;" in html and "<b>" not in html
