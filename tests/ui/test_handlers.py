"""What an event changes on the page, and what it leaves as it is."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import shutil
import zipfile
from collections.abc import Iterator
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import pytest
import torch
from gradio.blocks import postprocess_update_dict
from gradio.state_holder import SessionState
from pages import run_apart
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from visits import QUESTION, controls, finished_answers, merged, with_result

from spare_demo.analysis.cost import seconds_text
from spare_demo.images.load import file_digest
from spare_demo.models import LlavaModel, load_model
from spare_demo.render.base import number
from spare_demo.results.export import cite
from spare_demo.settings import Settings
from spare_demo.ui import build, open_visits, page, steps
from spare_demo.ui.api import Api
from spare_demo.ui.events import in_steps
from spare_demo.ui.examples import new_scene
from spare_demo.ui.handler_wrappers import with_page, with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.open_visits import OpenVisits, VisitKey
from spare_demo.ui.visit import Visit


def ask(handlers: Handlers, path: str | None, question: str = QUESTION, **other: Any) -> list[dict]:
    """All that pressing Ask changes, step by step, as the page gets it."""
    return list(with_refusals(handlers.ask)(**controls(path, question, **other)))


def half_way(visit: Visit) -> Visit:
    """As after one answer, had it been the shortest."""
    answers = {"unpruned": visit.result.answers["unpruned"]}
    return with_result(visit, answers=answers, partial_text={"A": "Y", "B": ""})


def test_pictures_come_before_any_answer(handlers, passes, photo_file) -> None:
    running = handlers.ask(**controls(photo_file, QUESTION))
    first = next(running)
    assert passes == ["look"]
    assert first["stage"]["picture"].startswith(b"\x89PNG")
    assert first["answers"].count("waiting for its turn") == 3
    running.close()


def test_at_the_end_every_part_is_there(handlers, shown) -> None:
    assert set(shown) == {
        "visit", "message", "notes", "truth", "headline", "stage", "answers", "cost", "own_answer",
        "enough", "carrier", "kl", "kl_words", "second", "rank", "many", "merged", "chips", "tried",
        "cost_fold", "kl_fold",
    }  # fmt: skip
    # The curve of errors comes afterwards, in an event that does not hold the model.
    curve = merged(handlers.draw_curve(5, shown["visit"]))
    assert set(curve) == {"curve", "curve_words", "rank", "lost_fold"}
    assert "tokens" in curve["curve_words"]
    # What the box holds by then may be no budget: that is said beside the box.
    assert list(handlers.draw_curve(None, shown["visit"])) == []
    assert shown["message"] == ""
    assert finished_answers(shown["answers"]) == 3
    assert shown["cost"].count("<th scope='col'") == 3


def test_titles_name_the_budget_that_their_figures_are_of(handlers, shown) -> None:
    curve = merged(handlers.draw_curve(5, shown["visit"]))
    assert curve["lost_fold"]["label"].startswith(
        "What is lost at 4 tokens, the nearest computed: error A "
    )
    curve = merged(handlers.draw_curve(4, shown["visit"]))
    assert curve["lost_fold"]["label"].startswith("What is lost with 4 tokens: error A ")
    curves = shown["visit"].exploration.curves
    error = number(curves.errors["A"][curves.budgets.index(4)])
    assert f"error A SPARE {error}, B " in curve["lost_fold"]["label"]
    random = number(float(curves.random.mean[curves.budgets.index(4)]))
    assert curve["lost_fold"]["label"].endswith(f"random picks {random}")
    measured = merged(handlers.studies.measure(5, shown["visit"]))  # at that very budget
    kl = measured["visit"].result.kl
    place = kl.budgets.index(5)
    figures = [number(each[place]) for each in (kl.series["A"], kl.series["B"], kl.random[0])]
    assert measured["kl_fold"]["label"].endswith(
        "KL A SPARE {}, B CDPruner {}, random picks {}".format(*figures)
    )
    assert measured["kl_fold"]["label"].startswith("What changes with 5 tokens: KL A ")
    assert "with 5 tokens" in measured["kl_words"]


def test_the_title_of_the_costs_has_the_prefill_of_each_answer(shown) -> None:
    answers = shown["visit"].result.answers
    times = [seconds_text(answers[label].prefill_seconds) for label in ("unpruned", "A", "B")]
    assert shown["cost_fold"]["label"] == (
        "What it costs: prefill all tokens {}, A SPARE {}, B CDPruner {}".format(*times)
    )


def test_a_first_word_that_ends_the_answer_is_said_in_words(handlers, finished) -> None:
    whole = finished.result.answers["unpruned"]
    logits = torch.zeros_like(whole.first_logits)
    logits[handlers.model.tokenizer.eos_token_id] = 9
    answers = {"unpruned": dataclasses.replace(whole, first_logits=logits)}
    html = handlers.steps.answers(with_result(finished, answers=answers), 5)
    assert "<th scope='row'>(end)</th>" in html


def test_first_words_wait_for_the_unpruned_answer(handlers, finished) -> None:
    whole, few = (finished.result.answers[label] for label in ("unpruned", "A"))
    early = with_result(finished, answers={"A": few}, partial_text={"unpruned": "", "B": ""})
    html = handlers.steps.answers(early, 5)
    assert "first-words" not in html and "verdict" not in html and f">{few.text}</p>" in html
    both = with_result(finished, answers={"unpruned": whole, "A": few}, partial_text={"B": ""})
    assert "first-words" in handlers.steps.answers(both, 5)


def test_old_costs_go_when_another_question_is_asked(handlers, photo_file, finished) -> None:
    first = ask(handlers, photo_file, "Is it green?", visit=finished)[0]
    assert "<table" not in first["cost"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"path": None}, "no picture yet"),
        ({"question": "x" * 10_000}, "10,000 characters"),
        ({"budget": 0}, "A budget of 0 visual tokens is not possible"),
        ({"budget": -3}, "from 1 to 16"),
        ({"budget": 17}, "from 1 to 16"),
        ({"budget": None}, "from 1 to 16"),
        ({"budget": "many"}, "from 1 to 16"),
        ({"budget": 2.5}, "from 1 to 16"),
        ({"budget": float("nan")}, "from 1 to 16"),
        ({"method_b": "sparse"}, "cdpruner"),
        ({"seed": -1}, "The seed must be a whole number"),
        ({"seed": 2**70}, "The seed must be a whole number"),
        ({"seed": float("inf")}, "The seed must be a whole number"),
    ],
)
def test_a_refusal_changes_nothing_but_the_message(
    handlers, photo_file, wrong: dict, sentence: str
) -> None:
    steps = ask(handlers, **({"path": photo_file} | wrong))
    assert [set(step) for step in steps] == [{"message"}]
    assert sentence in steps[0]["message"]
    assert photo_file not in steps[0]["message"]


def test_a_budget_may_come_as_the_text_of_a_number(handlers, photo_file) -> None:
    assert merged(ask(handlers, photo_file, budget="7"))["visit"].result.budget == 7


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("kernel failed at /root/secret", "ask again"),
        ("CUDA out of memory at /root/secret", "not enough memory"),
    ],
)
def test_what_nobody_foresaw_is_a_sentence_too_and_goes_to_the_log(
    handlers, photo_file, monkeypatch, caplog, error: str, sentence: str
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(handlers.model, "look", break_down)
    with caplog.at_level(logging.ERROR):
        steps = ask(handlers, photo_file)
    assert [set(step) for step in steps] == [{"message"}]
    assert sentence in steps[0]["message"]
    assert "secret" not in steps[0]["message"]
    assert error in caplog.text


def test_a_breakdown_in_mid_answer_leaves_what_was_shown(handlers, photo_file, monkeypatch) -> None:
    def break_down(view: object, selections: dict, *_: object) -> Iterator[dict[str, str]]:
        yield dict.fromkeys(selections, "a word ")
        raise RuntimeError("gone")

    monkeypatch.setattr(handlers.model, "stream_together", break_down)
    shown = merged(ask(handlers, photo_file))
    assert shown["stage"]["picture"]
    assert "ask again" in shown["message"]


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_asks_for_one_and_runs_nothing(
    handlers, passes, photo_file, question: str
) -> None:
    steps = ask(handlers, photo_file, question)
    assert [set(step) for step in steps] == [{"message"}]
    assert "Type a question, or choose an example." in steps[0]["message"]
    assert passes == []


def test_programs_may_ask_without_a_question(handlers, photo_file) -> None:
    result = Api(handlers.model, handlers.settings).compare(photo_file, "", budget=5)
    assert "Without a question" in str(result)


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        ("compare", {"method_a": "spar"}),
        ("compare", {"budget": "all"}),
        ("select", {"method": "spar"}),
        ("select", {"method": "fastv"}),
        ("select", {"budget": "all"}),
        ("select", {"seed": -1}),
        ("answer", {"tokens": "3, 17"}),
        ("answer", {"positions": "dense"}),
    ],
)
def test_what_no_picture_can_mend_is_refused_before_it_is_looked_at(
    handlers, passes, photo_file, operation: str, wrong: dict
) -> None:
    api = Api(handlers.model, handlers.settings)
    with pytest.raises(ValueError):
        getattr(api, operation)(photo_file, QUESTION, **wrong)
    assert passes == []


def test_answers_keep_the_picture_and_question_that_were_asked(handlers, photo_file) -> None:
    shown = merged(ask(handlers, photo_file))
    name = f'data-picture="{Path(photo_file).parent.name}"'
    assert name in shown["answers"] and f'data-question="{QUESTION}"' in shown["answers"]
    for event in (
        handlers.redraw(8, shown["visit"]),
        handlers.settle(9, shown["visit"]),
        handlers.stop(8, shown["visit"]),
        handlers.change_methods("spare", "uniform", 0, 5, shown["visit"]),
    ):
        assert name in merged(event)["answers"]


def test_past_the_rank_of_the_features_nothing_is_left_to_choose_by(handlers, photo_file) -> None:
    visit = merged(ask(handlers, photo_file))["visit"]
    picture = visit.exploration.view.picture
    shown = merged(handlers.redraw(8, visit))
    assert picture.rank == 16 and shown["rank"] == "" and "rank" not in shown["curve_words"]
    picture.__dict__["rank"] = 6  # as if some tokens were alike
    words = "have rank 6: 6 picks can rebuild all of them"
    for budget, hidden in ((6, True), (7, False)):
        shown = merged(handlers.redraw(budget, visit))
        assert words in shown["rank"] and words in shown["curve_words"]
        assert ("hidden" in shown["rank"]) == hidden


@pytest.mark.parametrize("together", [False, True])
def test_the_rank_of_all_views_says_nothing_of_picks_view_by_view(
    tiny_next: Any, small_settings: Settings, photo_file: str, together: bool
) -> None:
    handlers = Handlers(tiny_next, small_settings)
    visit = merged(ask(handlers, photo_file, aspect="any", together=together))["visit"]
    visit.exploration.view.picture.__dict__["rank"] = 6  # as if some tokens were alike
    assert bool(merged(handlers.redraw(8, visit))["rank"]) == together


@pytest.mark.parametrize("field", ["question", "method_b"])
def test_what_a_visitor_typed_stays_text(handlers, photo_file, field: str) -> None:
    shown = merged(ask(handlers, photo_file, **{field: "<script>alert(1)</script>"}))
    assert not any("<script>" in value for value in shown.values() if isinstance(value, str))


def test_redraw_runs_no_model(handlers, finished, passes) -> None:
    shown = merged(handlers.redraw(8, finished))
    assert passes == []
    assert "Answers are for budget 5." in shown["answers"]
    assert 'stale-note" hidden' not in shown["answers"]
    assert "from 8 tokens" in shown["curve_words"]
    assert "visit" not in shown


def test_redraw_back_at_the_answers_budget_shows_them_in_full(handlers, shown) -> None:
    again = merged(handlers.redraw(5, shown["visit"]))
    assert again["answers"] == shown["answers"]


@pytest.mark.parametrize("budget", [0, -1, 17, None, "x", 3.5])
def test_an_impossible_budget_is_told_beside_the_slider(handlers, finished, budget) -> None:
    for event in (handlers.redraw, handlers.settle):
        steps = list(event(budget, finished))
        assert [set(step) for step in steps] == [{"budget_message"}]
        assert "a whole number from 1 to 16." in steps[0]["budget_message"]
    assert merged(handlers.redraw(4, finished))["budget_message"] == ""


def test_a_slider_at_rest_asks_again(handlers, finished, passes) -> None:
    shown = merged(handlers.settle(9, finished))
    assert shown["visit"].result.budget == 9
    assert passes == ["answer", "answer"]
    assert 'stale-note" hidden' in shown["answers"]


def test_a_slow_model_is_not_asked_by_the_slider(handlers, finished, passes) -> None:
    answers = finished.result.answers
    slow = {name: dataclasses.replace(answers[name], decode_seconds=9.0) for name in answers}
    shown = merged(handlers.settle(9, with_result(finished, answers=slow)))
    assert passes == []
    assert "Answers are for budget 5" in shown["answers"]
    stopped = dataclasses.replace(with_result(finished, answers={}), stopped=True)
    merged(handlers.settle(9, stopped))
    assert passes == [], "stopped before its first answer, it may be as slow"


def test_another_method_redraws_and_answers_its_slot(handlers, finished, passes) -> None:
    shown = merged(handlers.change_methods("spare", "uniform", 0, 5, finished))
    assert passes == ["answer"]
    assert shown["visit"].titles["B"] in shown["stage"]["methods"]["B"]["label"]
    assert QUESTION in shown["answers"], "a question typed but not asked is still not asked"


def test_a_menu_that_was_only_passed_changes_nothing(handlers, finished, passes) -> None:
    assert not list(handlers.change_methods("spare", "cdpruner", 0, 5, finished))
    assert not passes
    assert list(handlers.change_methods("spare", "uniform", 0, 5, finished))


def test_another_seed_is_the_comparisons_where_no_method_draws(handlers, finished, passes) -> None:
    shown = merged(handlers.change_methods("spare", "cdpruner", 7, 5, finished))
    assert shown["visit"].request.seed == 7
    assert not passes


def test_stop_keeps_what_was_answered(handlers, finished) -> None:
    half = half_way(finished)
    shown = merged(handlers.stop(8, half))
    assert finished_answers(shown["answers"]) == 1
    assert shown["answers"].count("stopped") == 2
    assert "answering" not in shown["answers"] and "turn" not in shown["answers"]
    assert "<table" not in shown["cost"]
    curve = merged(handlers.draw_curve(8, shown["visit"]))
    assert "from 8 tokens" in curve["curve_words"]


def test_stop_sets_the_menus_to_the_methods_of_the_pictures(handlers, finished) -> None:
    shown = merged(handlers.stop(5, finished))
    assert (shown["method_a"]["value"], shown["method_b"]["value"]) == ("spare", "cdpruner")
    euclidean = "divprune:metric=euclidean"
    changed = merged(handlers.change_methods(euclidean, "uniform", 0, 5, finished))["visit"]
    shown = merged(handlers.stop(5, changed))
    assert (shown["method_a"]["value"], shown["method_b"]["value"]) == (euclidean, "uniform")
    assert euclidean in dict(map(reversed, shown["method_a"]["choices"]))


def test_answering_after_stop_goes_on_where_it_ended(handlers, passes, finished) -> None:
    half = half_way(finished)
    stopped = merged(handlers.stop(5, half))["visit"]
    shown = merged(handlers.settle(6, stopped))
    assert passes == ["answer", "answer"]
    assert "stopped" not in shown["answers"]


@pytest.mark.parametrize("methods", [("spare", "cdpruner"), ("fastv", "random")])
def test_a_slider_that_moves_takes_nothing_from_the_device(handlers, photo_file, methods) -> None:
    steps = ask(handlers, photo_file, method_a=methods[0], method_b=methods[1], budget=8)
    visit = merged(steps)["visit"]
    view = visit.exploration.view
    list(handlers.draw_curve(8, visit))
    gone = {}
    for holder in (view.tokens, view.picture):  # a tensor without data cannot be copied anywhere
        for field in dataclasses.fields(holder):
            value = getattr(holder, field.name)
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                gone[holder, field.name] = value
                object.__setattr__(holder, field.name, value.to("meta"))
    try:
        for k in (1, 5, 16):
            shown = merged(handlers.redraw(k, visit))
            assert shown["curve_words"] and "answers" in shown
    finally:
        for (holder, name), value in gone.items():
            object.__setattr__(holder, name, value)


def test_a_pictures_file_is_read_for_its_digest_once(
    handlers: Handlers, photo_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = handlers.offered[0]
    merged(handlers.ask(**handlers.first_controls(example.path, example.question)))  # is kept
    read: list[str] = []

    def digest(path: str) -> str:
        read.append(path)
        return file_digest(path)

    monkeypatch.setattr("spare_demo.ui.guide.file_digest", digest)
    merged(handlers.ask(**controls(photo_file, QUESTION)))
    assert read == [photo_file]


def test_a_kept_comparison_is_shown_as_of_the_file_that_is_asked_about(
    handlers: Handlers, tmp_path: Path
) -> None:
    example = handlers.offered[0]
    first = merged(handlers.ask(**handlers.first_controls(example.path, example.question)))
    copy = tmp_path / example.name
    shutil.copy(example.path, copy)
    again = merged(handlers.ask(**handlers.first_controls(str(copy), example.question)))
    assert again["visit"].result is first["visit"].result and again["visit"].ran == ()
    assert f'data-picture="{tmp_path.name}"' in again["answers"]


def test_the_truth_of_an_example_shows_with_its_own_questions_only(handlers) -> None:
    first, second = handlers.offered[:2]
    for question, answer in first.answers.items():
        own = merged(ask(handlers, first.path, question))
        assert f"<b>{answer}</b>" in own["truth"] and own["visit"].example == first.name
        assert merged(ask(handlers, first.path, f" {question} "))["visit"].truth == answer
    assert merged(ask(handlers, first.path, "Something else?"))["truth"] == ""
    assert merged(ask(handlers, second.path, first.question))["truth"] == ""


def test_a_new_scene_brings_picture_question_and_truth(handlers) -> None:
    path, question, example = handlers.new_scene()
    assert Path(path).parent == handlers.scenes
    shown = merged(ask(handlers, path, question, example=example))
    assert shown["visit"].truth == example.answers[example.question]
    assert f"<b>{example.answers[example.question]}</b>" in shown["truth"]
    assert handlers.new_scene()[0] != path


@pytest.mark.parametrize("endpoint", ["/compare", "/select"])
def test_programs_are_told_that_a_budget_may_be_a_share(tiny_model, endpoint: str) -> None:
    told = build(tiny_model, Settings(max_new_tokens=1)).get_api_info()["named_endpoints"]
    (budget,) = [p for p in told[endpoint]["parameters"] if p["parameter_name"] == "budget"]
    assert budget["type"]["anyOf"] == [{"type": "number"}, {"type": "string"}]
    assert budget["python_type"]["type"] == "float | str"
    assert budget["parameter_default"] == 64


def test_the_built_in_model_does_not_answer_about_pictures_it_was_not_made_for(
    tiny_model, photo_file, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(tiny_model, "name", "built-in")
    handlers = Handlers(tiny_model, Settings(max_new_tokens=2))
    scene = handlers.offered[0]
    changes = merged(ask(handlers, photo_file))
    before, noise = changes["answers"].split("<details", 1)
    assert "drawn scenes only" in before and "--model tiny-llava" in before
    assert "word" not in before and "card" not in before  # the answers are folded away
    assert "noise" in noise and 'class="card' in noise
    assert changes["stage"]["badge"] == "tokens of the built-in model"
    fresh = new_scene(tmp_path).path
    for path in (scene.path, fresh):
        changes = merged(ask(handlers, path, "Mine?"))
        assert "drawn scenes only" not in changes["answers"] and not changes["stage"]["badge"]
    # Its seed alone makes no scene: a picture that carries one has to be what is drawn from it.
    with Image.open(fresh) as image:
        info = PngInfo()
        info.add_text("spare-scene", image.info["spare-scene"])
        Image.new("RGB", (336, 336), "red").save(tmp_path / "forged.png", pnginfo=info)
    forged = merged(ask(handlers, str(tmp_path / "forged.png")))
    assert "drawn scenes only" in forged["answers"]
    assert "drawn scenes only" not in merged(ask(handlers, scene.path, "Mine?"))["answers"]
    visit = merged(ask(handlers, photo_file))["visit"]
    moved = merged(handlers.redraw(3, visit))
    assert "drawn scenes only" in moved["answers"], "the line stays when the slider moves"


def test_a_page_without_language_model_shows_all_but_answers(
    tiny_folder, photo_file, small_settings
) -> None:
    eyes = load_model(str(tiny_folder), "cpu", language_model=False)
    handlers = Handlers(eyes, small_settings)
    changes = merged(ask(handlers, photo_file))
    visit = changes["visit"]
    assert visit.result.finished and not visit.result.answers
    assert changes["stage"]["methods"]["A"]["order"] is not None
    assert "without its language model" in changes["answers"]
    for event in (
        handlers.studies.enough(visit),
        handlers.studies.measure(5, visit),
        handlers.ask_own("[1, 4]", visit),
    ):
        with pytest.raises(ValueError, match="without its language model"):
            list(event)
    with pytest.raises(
        ValueError, match=r"layer by layer\. It cannot run here: this model was loaded without its"
    ):
        Api(eyes, small_settings).select(photo_file, QUESTION, "fastv", 5)
    assert "order" in next(iter(handlers.replies.picks({"slot": "A", "budget": 3}, visit)))["reply"]
    moved = merged(handlers.settle(3, visit))["visit"]
    assert moved.result.budget == 3
    cited = cite(moved.result_to_cite(), ("kept", "comparison"))
    names = zipfile.ZipFile(io.BytesIO(cited)).namelist()
    assert "kept-spare.png" in names and "comparison.png" not in names


@pytest.mark.parametrize(("kind", "n"), [("tiny_qwen", 6), ("tiny_next", 64)])
def test_a_picture_with_fewer_tokens_than_the_slider_keeps_all(
    kind: str, n: int, request: pytest.FixtureRequest, small_settings: Settings, photo_file: str
) -> None:
    """Qwen2.5-VL and LLaVA-NeXT's own resolution make as many tokens as suit the photo."""
    model = request.getfixturevalue(kind)
    settings = dataclasses.replace(small_settings, methods=("random", "uniform"))
    handlers = Handlers(model, settings)
    assert handlers.model.most_tokens > n
    more = {"method_a": "random", "method_b": "uniform", "budget": handlers.model.most_tokens}
    shown = merged(ask(handlers, photo_file, aspect=list(model.aspects)[-1], **more))
    visit = shown["visit"]
    assert shown["message"] == "" and visit.result.budget == visit.exploration.n == n
    assert visit.result.answers["A"].visual_tokens == visit.result.answers["B"].visual_tokens == n
    assert shown["stage"]["shown"] == n
    for event in (handlers.redraw, handlers.settle):
        moved = merged(with_refusals(event)(handlers.model.most_tokens, visit))
        assert moved.get("budget_message", "") == ""
    studies, most = handlers.studies, handlers.model.most_tokens
    assert "Neither A nor B merges" in merged(handlers.merged(0, None, most, visit))["merged"]
    assert f"with {n} tokens" in merged(studies.measure(most, visit))["kl_fold"]["label"]
    assert f"at a budget of {n}." in merged(studies.all_methods(most, visit))["many"]
    assert merged(studies.second("Red?", most, visit))["second"]
    assert (
        merged(studies.carrier(most, visit))["carrier"]
        and merged(studies.film(most, visit))["file"]
    )


@pytest.fixture
def of_qwen(tiny_qwen: Any, small_settings: Settings) -> Handlers:
    """Of a model without CLIP's text side, whose pictures have tokens as many as suit them."""
    return Handlers(tiny_qwen, small_settings)


def test_words_of_the_language_model_let_text_methods_run_without_clip(
    of_qwen: Handlers, photo_file: str
) -> None:

    def choices(menus: list[Any]) -> dict[str, str]:
        return {value: label for label, value in menus[0]["choices"]}

    menus = of_qwen.menus("words", "spare", "random")
    assert [menu["value"] for menu in menus] == ["spare", "random"]
    assert choices(menus)["spare"] == "SPARE"
    assert of_qwen.story_methods("words")[0] == "spare"
    assert of_qwen.story_methods("clip")[0] == "spare-reconstruction"
    back = of_qwen.menus("clip", "spare", "random")
    assert [menu["value"] for menu in back] == ["spare-reconstruction", "random"]
    assert "guidance_text=words" in choices(back)["spare"]

    shown = merged(ask(of_qwen, photo_file, aspect="native", guidance_text="words"))
    visit = shown["visit"]
    assert visit.titles["A"] == "A SPARE by words"
    assert "not CLIP" in shown["notes"] and "by=words" in shown["stage"]["link"]
    assert merged(of_qwen.stop(5, visit))["method_a"]["value"] == "spare"
    reply = merged(of_qwen.studies.words({}, visit))["reply"]
    assert "".join(visit.exploration.view.text_words) == "".join(json.loads(reply)["words"])
    many = merged(of_qwen.studies.all_methods(3, visit))["many"]
    assert "SPARE by words" in many and "TRIM by words" not in many
    link = {"query": {"a": "spare", "b": "random", "by": "words"}}
    opened = merged(of_qwen.reopen(link, visit))
    assert opened["guidance_text"] == "words" and opened["method_a"]["value"] == "spare"
    assert choices([opened["method_a"]])["spare"] == "SPARE"
    api = Api(of_qwen.model, of_qwen.settings)
    told = api.compare(photo_file, QUESTION, guidance_text="words", budget=3)
    assert told["methods"]["spare"]["title"] == "SPARE by words"
    assert told["relevance"] == api.relevance(photo_file, QUESTION, False, "words")["cosine"]
    with pytest.raises(ValueError, match="guidance_text=words"):
        api.relevance(photo_file, QUESTION)
    with pytest.raises(ValueError, match="Choose one of: clip, words"):
        api.select(photo_file, QUESTION, budget=3, guidance_text="bert")  # type: ignore[arg-type]


def test_a_link_with_a_method_that_cannot_run_here_says_so(of_qwen: Handlers) -> None:
    (opened,) = of_qwen.reopen({"query": {"a": "spare", "b": "random", "k": "5"}}, None)  # type: ignore[arg-type]
    assert "method_a" not in opened and opened["method_b"] == "random"
    assert "A: SPARE cannot run on this model; the page" in opened["notice"]


def test_what_an_earlier_model_was_asked_comes_back_where_this_one_can(of_qwen: Handlers) -> None:
    asked = {"a": "uniform", "q": "Is it red?", "k": "576", "fit": "pad", "positions": "compact"}
    link = {"query": {**asked, "b": "random", "seed": "3", "lost": "1", "model": "built-in@0123"}}
    (opened,) = of_qwen.reopen(link, None)  # type: ignore[arg-type]
    notice = opened.pop("notice")
    methods = {"method_a": "uniform", "method_b": "random"}
    assert opened == methods | {"question": "Is it red?", "seed": 3, "image": None}
    assert ">Press Ask to see your comparison with this model.<" in notice


def test_what_a_page_showed_before_a_reload_comes_back_whole(handlers: Handlers) -> None:
    model = f"{handlers.model.name}@{handlers.model.revision}"
    link = {"query": {"k": "3", "fit": "pad", "lost": "1", "model": model}}
    (opened,) = handlers.reopen(link, None)  # type: ignore[arg-type]
    notice = opened.pop("notice")
    assert opened == {"budget": 3, "aspect": "pad", "image": None}
    assert ">The page was reloaded. Press Ask to see your comparison again.<" in notice


def test_a_link_brings_a_method_with_settings_into_its_menu(handlers: Handlers) -> None:
    method = "divprune:metric=euclidean"
    (opened,) = handlers.reopen({"query": {"a": method}}, None)  # type: ignore[arg-type]
    assert opened["method_a"]["value"] == method
    assert method in [value for _, value in opened["method_a"]["choices"]]


def test_one_budget_for_all_views_picks_otherwise_and_travels(
    tiny_next: Any, small_settings: Settings, photo_file: str
) -> None:
    handlers = Handlers(tiny_next, small_settings)
    found = {}
    for views in ("shares", "together"):
        together = views == "together"
        shown = merged(ask(handlers, photo_file, aspect="any", together=together))
        found[views] = shown["visit"]
        assert f"views={views}" in shown["stage"]["link"]
        assert shown["visit"].result_to_cite().request.together == together
    shares, together = (found[views].exploration.selections(5)["A"] for views in found)
    assert shares.order.tolist() != together.order.tolist()
    # Other methods on the same picture go by the same way of sharing.
    moved = merged(handlers.change_methods("random", "spare", 0, 5, found["together"]))
    again = moved["visit"].exploration.selections(5)["B"]
    assert again.order.tolist() == together.order.tolist()
    opened = merged(handlers.reopen({"query": {"views": "together"}}, found["shares"]))
    assert opened["together"] is True and opened["notice"] == ""


def test_a_model_of_one_view_has_nothing_to_share(handlers, photo_file: str) -> None:
    shown = merged(ask(handlers, photo_file))
    assert "views" not in shown["stage"]["link"]
    opened = merged(handlers.reopen({"query": {"views": "together"}}, shown["visit"]))
    assert "together" not in opened and "cannot be shared" in opened["notice"]


def test_positions_change_the_answers_alone_and_travel(handlers: Handlers, photo_file: str) -> None:
    shown = {
        positions: merged(ask(handlers, photo_file, positions=positions))
        for positions in ("compact", "original")
    }
    compact, original = (shown[positions]["visit"] for positions in shown)
    for slot in ("A", "B"):
        one, two = (v.exploration.selections(5)[slot] for v in (compact, original))
        assert one.order.tolist() == two.order.tolist()
    view, kept = original.exploration.view, original.exploration.selections(5)["A"]
    for visit, positions in ((compact, "compact"), (original, "original")):
        alone = handlers.model.answer(view, kept, 3, positions)  # type: ignore[arg-type]
        assert visit.result.answers["A"].log_probabilities == pytest.approx(
            alone.log_probabilities, abs=1e-4
        )
        assert f"positions={positions}" in shown[positions]["stage"]["link"]
        assert visit.result_to_cite().request.positions == positions
    # Other methods, and a set made by hand, on the same picture: at the same positions.
    moved = merged(handlers.change_methods("random", "uniform", 0, 5, original))["visit"]
    assert moved.result.settings.positions == "original"
    own = merged(handlers.ask_own("[3, 0, 15, 7]", original))["visit"].own
    expected = handlers.model.answer(view, own[0], 3, "original")
    assert torch.equal(own[1].first_logits, expected.first_logits)
    opened = merged(handlers.reopen({"query": {"positions": "original"}}, compact))
    assert opened["positions"] == "original" and opened["notice"] == ""


def test_a_model_with_one_kind_of_positions_says_so_of_a_link(
    of_qwen: Handlers, photo_file: str
) -> None:
    shown = merged(ask(of_qwen, photo_file, aspect="native", positions="original"))
    assert shown["visit"].result.settings.positions == "original"
    opened = merged(of_qwen.reopen({"query": {"positions": "compact"}}, shown["visit"]))
    assert "positions" not in opened and "cannot have" in opened["notice"]


def test_a_percentage_is_of_the_pictures_own_tokens(of_qwen: Handlers, photo_file: str) -> None:
    visit = merged(ask(of_qwen, photo_file, aspect="native"))["visit"]
    assert (visit.exploration.n, of_qwen.model.most_tokens) == (6, 60)
    assert [of_qwen.marked(mark, visit) for mark in ("50%", "1%", "100%", 8)] == [3, 1, 6, 8]
    api = Api(of_qwen.model, of_qwen.settings)
    told = api.compare(photo_file, QUESTION, "spare-reconstruction", "divprune", "50%")
    assert told["settings"]["budget"] == 3
    assert all(len(item["order"]) == 3 for item in told["selections"].values())


@pytest.mark.parametrize(
    ("kind", "views", "percent"),
    [("tiny_model", False, False), ("tiny_next", True, True), ("tiny_qwen", False, True)],
)
def test_the_page_offers_what_means_something_on_its_model(
    kind: str, views: bool, percent: bool, small_settings: Settings, request: Any
) -> None:
    demo = build(request.getfixturevalue(kind), small_settings)
    parts = [component["props"] for component in demo.config["components"]]
    assert [p["visible"] for p in parts if p.get("elem_id") == "views"] == [views]
    of_clip = [p for p in parts if str(p.get("label")).startswith("Relevance ")]
    assert [p["visible"] for p in of_clip] == [kind != "tiny_qwen"] * 2
    (positions,) = (p for p in parts if p.get("elem_id") == "positions")
    own_axes = kind == "tiny_qwen"
    assert positions["interactive"] == (not own_axes)
    assert positions["value"] == ("original" if own_axes else "compact")
    assert ("say the row and the column" in (positions.get("info") or "")) == own_axes
    assert any(p.get("value") == "10 %" for p in parts) == percent
    assert any(p.get("value") == "8" for p in parts)  # one of the settings' own marks


def test_a_visit_that_was_closed_says_so_and_ask_brings_it_back(
    handlers: Handlers, photo_file: str, finished: Visit
) -> None:
    visits = OpenVisits(1)
    lost, kept = visits.put(finished), visits.put(finished)
    answer_now = with_page(handlers.answer_now, visits.get)
    (step,) = answer_now(budget=7, visit=lost)
    assert set(step) == {"message"} and "Press Ask to see it again." in step["message"]
    assert merged(answer_now(budget=7, visit=kept))["visit"].result.budget == 7
    asked = with_page(handlers.ask, visits.find)
    again = merged(asked(**controls(photo_file, QUESTION, visit=lost)))["visit"]
    assert again.result.answers.keys() == finished.result.answers.keys()


def test_whoever_lost_their_visit_gets_no_other_in_its_place(
    finished: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradio starts a session over with what the page opens on, where it dropped its state."""
    here = "a"
    monkeypatch.setattr(open_visits, "current_session", lambda: here)
    visits, opening = OpenVisits(8), VisitKey(finished)
    assert visits.get(opening) is finished
    visits.put(finished)
    assert visits.find(opening) is None
    with pytest.raises(ValueError, match=r"connection was lost.* Press Ask"):
        visits.get(opening)
    here = "b"
    assert visits.get(opening) is finished


def test_sessions_that_asked_are_remembered_by_the_thousand(
    finished: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_visits, "MOST_ASKING", 2)
    here = ["a"]
    monkeypatch.setattr(open_visits, "current_session", lambda: here[0])
    visits, opening = OpenVisits(8), VisitKey(finished)
    for here[0] in "abac":  # of "a" and "b" it is "a" that asked last
        visits.put(finished)
    for here[0], found in (("a", None), ("b", finished), ("c", None)):
        assert visits.find(opening) is found


class Built(NamedTuple):
    """The page, where one visit beside the first stays open: lost was closed for kept."""

    demo: gr.Blocks
    visits: OpenVisits
    state: Any
    lost: VisitKey
    kept: VisitKey


@pytest.fixture
def built(
    tiny_model: LlavaModel, small_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Built:
    visits = OpenVisits(1)
    monkeypatch.setattr(page, "OpenVisits", lambda *_, **__: visits)
    demo = build(tiny_model, small_settings)
    (state,) = (b for b in demo.blocks.values() if isinstance(getattr(b, "value", 0), VisitKey))
    shown = visits.get(state.value)
    return Built(demo, visits, state, visits.put(shown), visits.put(shown))


def test_the_events_of_the_page_go_through_the_open_visits(built: Built) -> None:
    demo, visits, state, lost, kept = built
    shown = visits.get(state.value)
    assert isinstance(shown, Visit)
    events = [f for f in demo.fns.values() if state in f.inputs]

    def event(name: str, inputs: int, streams: bool) -> Any:
        """The first event of so many inputs whose function has this name."""
        return next(
            f.fn
            for f in events
            if (getattr(f.fn, "__name__", ""), len(f.inputs)) == (name, inputs)
            and isgeneratorfunction(f.fn) == streams
        )

    redraw, pressed, drawn = event("run", 2, False), event("run", 14, True), event("run", 4, False)
    assert "was closed" in str(redraw(5, lost)) and "was closed" not in str(redraw(5, kept))
    steps = list(pressed(None, QUESTION, "spare", "cdpruner", 0, "pad", -2, "stretches", "clip",
                         False, "compact", 5, None, lost))  # fmt: skip
    assert "There is no picture yet" in str(steps) and "was closed" not in str(steps)
    for key in (lost, kept):
        assert ("was closed" in str(drawn(0, None, 5, key))) == (key is lost)
    # What the page opens on stays, however many came since. Of a dataclass in its place Gradio
    # would copy every tensor whenever somebody opens the page.
    assert visits.get(state.value) is shown and not dataclasses.is_dataclass(state.value)


def test_a_curve_that_cannot_be_drawn_is_no_fault(built: Built) -> None:
    demo, _, state, lost, kept = built
    curve = next(
        f
        for f in demo.fns.values()
        if state in f.inputs and f.outputs and getattr(f.outputs[0], "elem_id", "") == "curve"
    )

    def shown(budget: object, key: VisitKey) -> list[Any]:
        values = curve.fn(budget, key)
        return run_apart(demo.postprocess_data(curve, values, SessionState(demo)))

    assert "tokens" in str(shown(5, kept))
    assert all("value" not in part for part in shown(-3, kept))  # the box is being typed in
    assert "was closed" in str(shown(5, lost))


def test_a_bad_upload_is_refused_as_ask_would_and_changes_nothing_else(
    handlers, passes, photo_file, tmp_path
) -> None:
    check = with_refusals(handlers.check_upload)
    assert list(check(photo_file)) == list(check(None)) == [{"message": ""}]
    large, damaged = tmp_path / "large.png", tmp_path / "damaged.png"
    Image.new("RGB", (600, 501)).save(large)
    damaged.write_bytes(Path(photo_file).read_bytes()[:100])
    for path in (str(large), str(damaged), str(tmp_path / "gone.png")):
        (refused,) = check(path)
        (asked,) = ask(handlers, path)
        assert refused == {"message": asked["message"]} and refused["message"]
    assert passes == []


def test_a_title_calls_nothing_what_is_left_to_rounding() -> None:
    title = steps._title("What is lost", "error", {"A": 1.13e-15, "B": 0.0214, "C": None}, 0.0)
    assert title == "What is lost: error A 0, B 0.0214, random picks 0"


def test_the_last_step_brings_a_figure_whose_value_gradio_took_out_of_its_update() -> None:
    sent = in_steps([{"kl": gr.update(value="drawn", visible=True)}], ("kl",))
    for values in sent:
        if "kl" in values:
            shown = postprocess_update_dict(gr.Textbox(render=False), values["kl"])
            assert shown["value"] == "drawn" and shown["visible"]
    assert set(values) == {"kl"}


def test_a_run_without_steps_has_one_that_changes_nothing() -> None:
    """Else Gradio would empty all parts of the page."""
    assert list(in_steps([], ("kl",))) == [{}]
