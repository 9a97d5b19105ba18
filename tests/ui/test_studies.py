"""What can be measured beyond one comparison, on the tiny model."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import re
import zipfile
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from PIL import Image
from visits import (
    QUESTION,
    answered,
    controls,
    finished_answers,
    merged,
    page_request,
    unpacked,
    with_result,
)

from spare_demo.analysis.answer_shift import KL_BUDGETS, KL_SEEDS, word_maps
from spare_demo.analysis.min_budget import Sufficiency, Trial
from spare_demo.relevance import RelevanceOptions
from spare_demo.render.base import data_address, number
from spare_demo.render.colours import cividis
from spare_demo.render.maps import relevance_change_map
from spare_demo.render.overlay import question_difference
from spare_demo.ui import wiring
from spare_demo.ui.examples import load_examples
from spare_demo.ui.guide import methods_by_slot
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.panels import KL_WORDS
from spare_demo.ui.studies_html import change_key_html, enough_html


def test_an_own_set_is_answered_and_compared(handlers, passes, visit) -> None:
    steps = list(handlers.ask_own(json.dumps([1, 4, 9]), visit))
    assert "answering" in steps[0]["own_answer"]
    last = steps[-1]["own_answer"]
    assert "Your set · 3" in last and "KL of the first word" in last
    assert "Probability of the unpruned answer" in last


def test_an_own_set_is_graded_where_the_truth_is_known(handlers, visit) -> None:
    known = dataclasses.replace(visit, truth="red")
    marked = merged(handlers.ask_own("[1, 4, 9]", known))["own_answer"]
    assert marked != merged(handlers.ask_own("[1, 4, 9]", visit))["own_answer"]
    assert 'class="grade wrong"' in marked


def test_an_own_set_of_all_tokens_changes_nothing(handlers, visit) -> None:
    last = merged(handlers.ask_own(json.dumps(list(range(16))), visit))["own_answer"]
    assert "same as all tokens" in last and "KL of the first word: 0" in last


@pytest.mark.parametrize(
    ("picks", "sentence"),
    [("[]", "Keep at least one"), ("", "Keep at least one"), ("[16]", "numbered 0 to 15"),
     ("[1, 1]", "more than once"), ('["x"]', "whole numbers"), ("<b>", "whole numbers")],
)  # fmt: skip
def test_a_set_that_cannot_be_is_a_sentence(handlers, passes, visit, picks, sentence) -> None:
    passes.clear()
    (step,) = with_refusals(handlers.ask_own, "own_answer")(picks, visit)
    assert sentence in step["own_answer"] and "<b>" not in step["own_answer"]
    assert passes == []


def test_enough_is_searched_for_both_and_marked(handlers, visit) -> None:
    steps = list(handlers.studies.enough(visit))
    marks = json.loads(steps[-1]["reply"])
    assert marks["kind"] == "marks" and set(marks["marks"]) == {"A", "B"}
    k = marks["marks"]["A"]
    whole = visit.result.answers["unpruned"].text
    kept = visit.exploration.picks["A"].prefix(k)
    longest = handlers.settings.max_new_tokens
    assert handlers.model.answer(visit.exploration.view, kept, longest).text == whole
    assert steps[-1]["enough"].count("<table") == 2
    assert json.loads(steps[0]["reply"])["marks"] == {} or len(steps) == 2


def test_enough_counts_the_answers_that_the_page_shows(handlers, visit) -> None:
    *_, last = handlers.studies.enough(visit)
    budgets = re.findall(r"<th[^>]*>([\d, ]+)</th>", last["enough"])
    each = ", ".join(budgets).split(", ")
    assert each.count(str(visit.result.budget)) == 2  # once for each method


def test_budgets_with_one_answer_share_a_row(visit) -> None:
    texts = {1: "a cat", 2: "a cat", 4: "two cats", 8: "a cat", 12: "two cats", 16: "two cats"}
    trials = tuple(Trial(k, text, text == "two cats") for k, text in texts.items())
    html = enough_html(visit, {"A": Sufficiency(trials)})
    rows = [re.findall(r">([^<]+)</t", row) for row in re.findall(r"<tr>.*?</tr>", html)]
    assert rows[1:] == [
        ["1, 2", "a cat", "another"],
        ["4", "two cats", "same"],
        ["8", "a cat", "another"],
        ["12, 16", "two cats", "same"],
    ]
    assert "6 budgets tried" in html


def test_enough_needs_a_nested_method_and_a_finished_answer(handlers, visit, photo_file) -> None:
    unasked = handlers.guide.look(page_request(photo_file, "What is it?"))
    (step,) = with_refusals(handlers.studies.enough)(unasked)
    assert "Ask first" in step["message"]
    other = handlers.guide.change_methods(visit, methods_by_slot("uniform", "uniform", 0), 0)
    (step,) = with_refusals(handlers.studies.enough)(other)
    assert "anew at every budget" in step["message"]


def test_enough_says_which_method_is_not_searched(handlers, photo_file) -> None:
    request = page_request(photo_file, "What is it?", "spare", "uniform")
    *_, last = handlers.studies.enough(answered(handlers.guide, handlers.guide.look(request)))
    assert last["enough"].count("<table") == 1
    assert "B Uniform grid chooses anew at every budget" in last["enough"]


def test_kl_is_drawn_for_both_methods_and_random(handlers, visit) -> None:
    shown = merged(handlers.studies.measure(5, visit))
    names = {trace.name for trace in shown["kl"]["value"].data if trace.name}
    assert names >= {"A SPARE", "B CDPruner", "random"}
    assert "A SPARE" in shown["kl_words"]
    assert shown["visit"].result.kl.done == 1
    assert set(shown["visit"].result_to_cite().kl.series) == {"spare", "cdpruner"}
    own = merged(handlers.ask_own("[1, 4]", shown["visit"]))["visit"]
    assert own.result_to_cite().kl is not None
    other = merged(handlers.change_methods("spare", "uniform", 0, 5, shown["visit"]))
    assert other["visit"].result.kl is None and other["kl"]["visible"] is False


@pytest.mark.parametrize(
    ("study", "asked"),
    [("enough", ()), ("carrier", (12,)), ("measure", (5,)), ("second", ("Is it red?", 5)),
     ("film", (4,)), ("all_methods", (5,))],
)  # fmt: skip
def test_a_study_asks_at_the_positions_of_the_page(
    handlers, visit, study: str, asked: tuple, monkeypatch
) -> None:
    request = dataclasses.replace(visit.request, positions="original")
    wanted, option = [], handlers.model.position_option
    monkeypatch.setattr(
        handlers.model, "position_option", lambda each: wanted.append(each) or option(each)
    )
    list(getattr(handlers.studies, study)(*asked, dataclasses.replace(visit, request=request)))
    assert set(wanted) == {"original"}


def test_words_share_one_reply(handlers, visit) -> None:
    request = dataclasses.replace(visit.request, relevance=RelevanceOptions(-1))
    (step,) = handlers.studies.words({}, dataclasses.replace(visit, request=request))
    reply, view = json.loads(step["reply"]), visit.exploration.view
    options = RelevanceOptions(-1, "tokens")
    words, maps = word_maps(handlers.model.ask(view.picture, view.question, options))
    assert reply["kind"] == "words" and reply["words"] == [*words]
    assert unpacked(reply["values"]) == pytest.approx(maps.T.flatten().tolist(), abs=1e-6)


def test_a_second_question_gives_three_pictures(handlers, visit) -> None:
    html = merged(handlers.studies.second("Is it <red>?", 5, visit))["second"]
    assert html.count("<img") == html.count("<figcaption>") == 3
    assert "have a correlation of" in html
    assert html.count("only for the second") == 2 and html.count("nearer the first") == 1
    drawn = [
        Image.open(io.BytesIO(base64.b64decode(data)))
        for data in re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    ]
    assert [picture.size for picture in drawn] == [visit.canvas.size] * 3
    for none in (" ", f"{visit.request.question} "):
        (step,) = with_refusals(handlers.studies.second)(none, 5, visit)
        assert "This compares two questions" in step["message"]


def test_a_second_question_explains_padding_where_there_is_some(handlers, wide_picture) -> None:
    visit = handlers.guide.look(page_request(str(wide_picture), "What is it?"))
    assert "key padding" in merged(handlers.studies.second("Is it red?", 5, visit))["second"]


def test_a_second_question_is_asked_as_the_first_was(handlers, photo_file) -> None:
    first, second = (
        answered(
            handlers.guide, handlers.guide.look(page_request(photo_file, text, relevance=last))
        )
        for last in [RelevanceOptions(-1)]
        for text in (QUESTION, "Is it red?")
    )
    html = merged(handlers.studies.second("Is it red?", 5, first))["second"]
    for slot, title in first.titles.items():
        kept = (visit.exploration.selections(5)[slot].kept for visit in (first, second))
        picture = question_difference(first.canvas, *kept, title).image
        whole = picture.crop((0, 0, *first.canvas.size))
        assert data_address(whole, compress_level=3) in html
    change = second.exploration.view.relevance - first.exploration.view.relevance
    assert relevance_change_map(first.canvas, change).sentence in unescape(html)
    assert change_key_html(float(change.abs().max())) in html
    assert "key padding" not in html
    said = [answer.text for visit in (first, second) for answer in visit.result.answers.values()]
    assert [unescape(text) for text in re.findall("<td>(.*?)</td>", html)] == said
    # Answers of another budget, or without all three, are held against none.
    part = with_result(first, answers={"unpruned": first.result.answers["unpruned"]})
    for budget, visit in ((6, first), (5, part)):
        assert "<td>" not in merged(handlers.studies.second("Is it red?", budget, visit))["second"]


def test_the_colours_of_a_change_go_from_the_first_question_to_the_second() -> None:
    html = change_key_html(0.5)
    low, high = (f"rgb{tuple(map(int, colour))}" for colour in cividis(np.array([0.0, 1.0])))
    parts = [
        f"<b>-{number(0.5)}: nearer the first",
        low,
        high,
        f"+{number(0.5)}: nearer the second",
    ]
    places = [html.index(part) for part in parts]
    assert places == sorted(places)


def test_a_link_fills_the_controls_and_says_what_it_cannot(handlers, visit) -> None:
    second = handlers.offered[1]
    said = {"scene": Path(second.path).name, "a": "random", "k": "99", "show": "order"}
    said["depth"] = "4"  # of a language model of 3 layers
    (shown,) = handlers.reopen({"query": said}, visit)
    assert (shown["image"], shown["question"]) == (second.path, second.question)
    assert shown["method_a"] == "random" and "budget" not in shown
    assert "99" in shown["notice"] and "no layer &#x27;4&#x27;" in shown["notice"]
    # An example of another model's list: no picture, and the notice says why.
    scene = load_examples("built-in")[0]
    query = {"scene": Path(scene.path).name, "q": scene.question, "model": "built-in@1"}
    (shown,) = handlers.reopen({"query": query}, visit)
    assert shown["image"] is None and shown["question"] == scene.question
    assert "not among those for this model" in shown["notice"]
    assert "made with the model" in shown["notice"] and "no picture" not in shown["notice"]
    (shown,) = handlers.reopen({"query": {"q": "Red?"}}, visit)
    assert shown["image"] is None and "carries no picture" in shown["notice"]
    for nonsense in ({}, {"query": None}, {"query": "a=1"}):
        (shown,) = handlers.reopen(nonsense, visit)
        assert shown == {"notice": ""}


def test_the_link_of_a_comparison_opens_it_again(handlers) -> None:
    example = handlers.offered[1]
    _, second = example.answers
    asked = controls(
        example.path, second, method_a="random", method_b="uniform", seed=7,
        relevance_layer=-1, relevance_text="tokens",
    )  # fmt: skip
    sent = merged(handlers.ask(**asked))
    (shown,) = handlers.reopen({"query": dict(parse_qsl(sent["stage"]["link"]))}, sent["visit"])
    # The page adds the one, here is one view only, and CLIP goes without saying.
    del asked["budget"], asked["together"], asked["guidance_text"]
    assert shown == asked | {"positions": "compact", "notice": ""}


def test_prepared_examples_need_no_pass_and_are_nobodys_own(handlers, passes, photo_file) -> None:
    handlers.prepare()
    passes.clear()
    example = handlers.offered[2]
    for question in example.answers:
        shown = merged(handlers.ask(**controls(example.path, question)))
        assert passes == []
        assert finished_answers(shown["answers"]) == 3
        assert f"scene={example.name}" in shown["stage"]["link"]
    merged(handlers.ask(**controls(photo_file, example.question)))
    assert passes.looks() == 1, "the same question of another picture is asked anew"


def test_the_zip_holds_what_was_found_and_how_to_repeat_it(handlers, visit) -> None:
    own = merged(handlers.ask_own("[1, 4, 9]", visit))["visit"]
    asked = {"panels": ["kept", "difference"], "link": "http://here/?a=spare"}
    made = merged(handlers.replies.cite(asked, own))["file"]
    with zipfile.ZipFile(io.BytesIO(made.content)) as zipped:
        result = json.loads(zipped.read("result.json"))
        readme = zipped.read("README.txt").decode()
        names = zipped.namelist()
    assert set(result["selections"]) == {"spare", "cdpruner", "mine"}
    assert result["selections"]["mine"]["order"] == [1, 4, 9]
    assert result["settings"]["budget"] == 5
    assert "http://here/?a=spare" in readme and "picture.png" in names
    assert {"difference.png", "difference.svg"} <= set(names)


def test_nothing_unfinished_is_cited(handlers, photo_file) -> None:
    unasked = handlers.guide.look(page_request(photo_file, "What is it?"))
    (step,) = with_refusals(handlers.replies.cite, "file")({"panels": ["kept"]}, unasked)
    assert "let all of them end" in json.loads(step["reply"])["sentence"]


def test_the_page_says_how_often_measuring_kl_runs_the_model() -> None:
    assert (2 + len(KL_SEEDS)) * (len(KL_BUDGETS) + 1) == 60 and "about sixty times" in KL_WORDS


def test_kl_with_a_method_inside_the_language_model(handlers: Handlers, photo_file: str) -> None:
    request = page_request(photo_file, "What is it?", "fastv")
    visit = answered(handlers.guide, handlers.guide.look(request), 8)
    shown = merged(handlers.studies.measure(8, visit))
    lines = {trace.name: list(trace.y) for trace in shown["kl"]["value"].data if trace.name}
    assert lines["A FastV"][:3] == [None, None, None] and None not in lines["B CDPruner"]
    assert "below 6 it has no schedule" in shown["kl_words"]
    assert "A FastV has no error of one set" in handlers.steps.curve(visit, 8)["curve_words"]


def test_a_film_is_asked_step_by_step_and_handed_over(handlers, passes, visit) -> None:
    passes.clear()
    *made, last = handlers.studies.film(budget=5, visit=visit)  # by name, as the page does
    replies = [json.loads(step["reply"]) for step in made]
    steps = [(reply["done"], reply["of"]) for reply in replies]
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]  # 1, 2, 4 and 5 tokens
    assert passes.looks() == 0
    assert (last["file"].name, last["file"].media_type) == ("spare-picks.webp", "image/webp")
    with Image.open(io.BytesIO(last["file"].content)) as film:
        assert (film.format, film.n_frames) == ("WEBP", 4)


def test_a_picture_that_the_model_does_not_know_is_filmed_without_answers(
    handlers, passes, visit
) -> None:
    passes.clear()
    *_, last = handlers.studies.film(5, dataclasses.replace(visit, unknown=True))
    assert last["file"].name == "spare-picks.webp"
    assert passes == []


def test_why_there_is_no_film_is_said_beside_its_button(handlers, visit) -> None:
    inside = handlers.guide.change_methods(visit, methods_by_slot("fastv", "dart", 0), 0)
    film = with_refusals(handlers.studies.film, place="file")
    (step,) = film(5, inside)
    reply = json.loads(step["reply"])
    assert reply["kind"] == "refused" and "inside the language model" in reply["sentence"]
    (step,) = film(None, visit)
    assert json.loads(step["reply"])["sentence"] == "Type a whole number from 1 to 16."


def test_a_study_whose_time_is_over_ends_only_where_another_request_waits(monkeypatch) -> None:
    steps: list[dict[str, Any]] = [{"enough": str(i)} for i in range(3)]
    assert list(wiring.until_awaited(iter(steps))) == steps  # within its time
    monkeypatch.setattr(wiring, "STUDY_SECONDS", 0.0)
    assert list(wiring.until_awaited(iter(steps))) == steps  # nobody waits
    monkeypatch.setattr(wiring, "is_awaited", lambda turn: turn == "model")
    (only,) = wiring.until_awaited(iter(steps))
    assert only["enough"] == "0" and "Others are waiting" in only["message"]
