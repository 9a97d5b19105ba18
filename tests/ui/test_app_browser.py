"""The real app in headless Chromium: what a visitor does and sees."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browsing
import pytest
from gradio_client.utils import encode_file_path
from pages import serving

from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings

Visitor, expect = browsing.Visitor, browsing.expect

pytestmark = browsing.MARKS


def test_it_opens_on_a_finished_comparison(reader) -> None:
    reader.expect_answers(576, 64, 64)
    reader.unfold("price")
    expect(reader.find("#cost th[scope=col]")).to_have_count(3)
    reader.curve()
    expect(reader.find("#truth")).to_contain_text("True answer")
    assert "of their 64 tokens in common" in reader.sentence()
    expect(reader.find("#stop")).to_be_hidden()


def test_enter_asks_and_what_is_folded_away_is_loaded_when_it_is_opened(visitor) -> None:
    before = visitor.picture(1).tobytes()
    visitor.find("#question textarea").fill("How many arrows are there?")
    visitor.find("#question textarea").press("Enter")
    expect(visitor.find("#truth p")).to_have_count(0)
    visitor.expect_answers(576, 64, 64)
    assert visitor.picture(1).tobytes() != before
    assert visitor.find("#curve").count() == 0
    assert not [url for url in visitor.requests if "plotly" in url.lower()]
    visitor.choose_method("b", PRUNERS["divprune"].title)
    expect(visitor.caption).to_contain_text("B DivPrune")
    expect(visitor.find("#ask")).to_be_visible()
    expect(visitor.curve()).to_contain_text("B DivPrune")  # of what was asked last


def test_a_picture_has_the_same_name_where_windows_parts_folders(reader) -> None:
    address = reader.page.evaluate("SPARE.picture()")
    head, _, path = address.partition("file=")
    windows = f"{head}file={encode_file_path('C:' + path.replace('/', chr(92)))}"
    read_name = """address => {
        const image = document.querySelector('#picture .image-frame img'), before = image.src;
        image.src = address;
        const name = SPARE.pictureName();
        image.src = before;
        return name;
    }"""
    assert "%5C" in windows
    names = [reader.page.evaluate(read_name, each) for each in (address, windows)]
    asked = reader.find("#answers .asked").get_attribute("data-picture")
    assert names == [asked, asked]


def test_a_file_is_fetched_whatever_its_folder_is_called(reader) -> None:
    fetched = """async path => {
        const before = window.fetch;
        let address;
        window.fetch = async url => { address = url; return new Response(''); };
        await SPARE.fetchFile(path);
        window.fetch = before;
        return address.split('file=')[1];
    }"""
    for path in ("/tmp/me/x.bin", "/tmp/a#b/c d?/x%20.bin", r"C:\Users\a#b é\x.bin"):
        assert reader.page.evaluate(fetched, path) == encode_file_path(path)


def test_the_stage_says_that_its_first_pictures_are_on_their_way(newcomer, served) -> None:
    page, held = newcomer.page, []
    page.route("**/*-comparison.bin", lambda route: held.append(route))
    page.goto(served.url)
    expect(newcomer.caption).to_have_text("The pictures are on their way.")
    for route in held:
        route.continue_()
    expect(newcomer.caption).to_contain_text("tokens")


def test_the_same_comparison_sent_again_is_not_loaded_again(reader) -> None:
    loads = []
    reader.page.evaluate("window.shown = 0; SPARE.on('data', () => { shown += 1; })")
    for times, question in enumerate(("How many stars are there?",) * 2 + ("What is red?",), 1):
        reader.ask(question)
        reader.page.wait_for_function("times => shown === times", arg=times)
        reader.expect_answers(576, 64, 64)
        loads.append(sum("-comparison.bin" in url for url in reader.requests))
    assert loads[0] == loads[1] == loads[2] - 1


def test_pictures_that_do_not_arrive_are_said(reader) -> None:
    before = reader.picture(1).tobytes()
    reader.page.route("**/*-comparison.bin", lambda route: route.abort())
    reader.ask("How many stars are there?")
    expect(reader.caption).to_contain_text("Press Ask once more")
    reader.page.unroute("**/*-comparison.bin")
    reader.ask("How many stars are there?")
    expect(reader.caption).to_contain_text("of their 64 tokens")
    assert reader.picture(1).tobytes() != before
    reader.errors.clear()  # the browser's own word on the picture


def test_answers_that_come_while_the_slider_is_held_say_their_budget(visitor) -> None:
    visitor.page.evaluate("SPARE.on('data', () => SPARE.setBudget(40))")  # and not let go
    visitor.ask("How many objects are there?")
    expect(visitor.caption).to_contain_text("of their 40 tokens")
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find(".stale-note")).to_have_text("Answers are for budget 64. Answer at 40")


def test_slider_box_and_mark_move_picture_sentence_and_answers(reader) -> None:
    before = reader.picture(1).tobytes()
    slider = reader.find("#budget input[type=range]")
    slider.focus()
    for _ in range(3):
        slider.press("ArrowRight")
    expect(reader.caption).to_contain_text("of their 67 tokens")
    reader.expect_answers(576, 67, 67)
    expect(reader.find(".stale-note")).not_to_be_visible()
    assert reader.picture(1).tobytes() != before

    number = reader.find("#budget input[type=number]")
    number.fill("100")  # typed, not yet left: nobody has said that this is the number meant
    expect(reader.caption).to_contain_text("of their 100 tokens")
    expect(reader.find(".stale-note")).to_be_visible()
    headline = reader.find("#headline .headline")
    expect(headline).to_have_css("opacity", "0.8")
    expect(reader.find("#answers")).to_contain_text("Answers are for budget 67.")
    expect(reader.find("#answers h3").nth(1)).to_contain_text("67")
    number.press("Tab")
    reader.expect_answers(576, 100, 100)
    expect(headline).to_have_css("opacity", "1")
    for held, dim in (("101", "0.8"), ("100", "1")):
        reader.page.evaluate(f"SPARE.setBudget({held})")
        expect(headline).to_have_css("opacity", dim)

    reader.find("#marks").get_by_role("button", name="32", exact=True).click()
    expect(slider).to_have_value("32")
    expect(reader.caption).to_contain_text("of their 32 tokens")
    reader.expect_answers(576, 32, 32)

    number.fill("9999")
    expect(reader.find("#budget-message")).to_contain_text("from 1 to 576")
    number.fill("20")
    expect(reader.find("#budget-message p")).to_have_count(0)
    expect(reader.caption).to_contain_text("of their 20 tokens")

    note = reader.find("#rank p")
    expect(note).to_contain_text("This picture's features have rank 190")
    expect(note).not_to_be_visible()
    number.fill("192")
    expect(note).to_be_visible()
    number.fill("190")
    expect(note).not_to_be_visible()


def test_a_new_scene_comes_with_question_and_true_answer(reader) -> None:
    first = reader.page.evaluate("SPARE.state.data.key")
    reader.find("#scene").click()
    reader.page.wait_for_function("key => SPARE.state.data.key !== key", arg=first)
    reader.expect_answers(576, 64, 64)
    expect(reader.find("#truth")).to_be_visible()
    reader.find("#question textarea").fill("What else is there?")
    expect(reader.find("#truth p")).not_to_be_visible()
    reader.find("#ask").click()
    expect(reader.find("#truth p")).to_have_count(0)


def test_an_example_is_loaded_and_asked(reader) -> None:
    example = reader.find("#examples button").nth(1)
    question = example.get_attribute("title")
    assert example.get_attribute("aria-label") == f"Example: {question}"
    example.click()
    expect(reader.find("#question textarea")).to_have_value(question)
    reader.expect_answers(576, 64, 64)
    expect(reader.find("#truth")).to_contain_text("True answer")
    # Its answers come at once the second time, before its picture is shown.
    for number in (0, 1, 0):
        example = reader.find("#examples button").nth(number)
        example.click()
        question = example.get_attribute("title")
        expect(reader.find("#answers .asked")).to_have_attribute("data-question", question)
        reader.expect_answers(576, 64, 64)
        expect(reader.find("body")).not_to_have_class(DIM)


DIM = re.compile("asked-anew")
OTHER_INPUTS = "These answers are for another question or picture."


def test_old_results_dim_while_another_question_or_picture_is_on_the_page(
    visitor, wide_picture: Path
) -> None:
    body, question = visitor.find("body"), visitor.find("#question textarea")
    note, line = visitor.find("#answers .other-inputs"), visitor.find("#answers .asked-line")
    visitor.expect_answers(576, 64, 64)
    expect(body).not_to_have_class(DIM)
    expect(note).not_to_be_visible()
    asked = question.input_value()
    visitor.ask("What is\0new?")  # which HTML cannot hold
    shown = visitor.find("#answers .asked")
    expect(shown).to_have_attribute("data-question", "What is\ufffdnew?")
    expect(body).not_to_have_class(DIM)
    visitor.ask(asked)
    expect(line).to_contain_text(f"“{asked}”budget 64")
    question.fill("What is new?")
    expect(body).to_have_class(DIM)
    expect(note).to_have_text(f"{OTHER_INPUTS} Press Ask.", use_inner_text=True)
    expect(line).to_contain_text(f"“{asked}”budget 64")
    question.fill(asked)
    expect(body).not_to_have_class(DIM)
    visitor.upload(wide_picture)
    expect(body).to_have_class(DIM)
    thumbnail = line.locator("img")
    before = thumbnail.get_attribute("src")
    visitor.find("#ask").click()
    expect(body).not_to_have_class(DIM)
    expect(thumbnail).not_to_have_attribute("src", before)
    visitor.find("#examples button").first.click()
    expect(body).not_to_have_class(DIM)
    expect(thumbnail).to_have_attribute("src", before)
    visitor.expect_answers(576, 64, 64)


def test_typing_while_an_answer_is_written_dims_it_till_asked(reader, served, monkeypatch) -> None:
    real = served.model.stream_together
    words = threading.Event()

    def slow(view: object, selections: dict[str, object], *rest: object) -> Any:
        yield dict.fromkeys(selections, "word ")
        words.wait(60)
        return (yield from real(view, selections, *rest))

    monkeypatch.setattr(served.model, "stream_together", slow)
    body, question = reader.find("body"), reader.find("#question textarea")
    note = reader.find("#answers .other-inputs")
    reader.ask("How many blue arrows are there?")
    expect(reader.find("#answers .answer-text").first).to_contain_text("word")
    expect(body).not_to_have_class(DIM)
    question.fill("How many red stars are there?")
    expect(body).to_have_class(DIM)
    expect(note).to_have_text(OTHER_INPUTS, use_inner_text=True)  # nothing to press yet
    words.set()
    reader.expect_answers(576, 64, 64)
    expect(body).to_have_class(DIM)
    expect(note).to_have_text(f"{OTHER_INPUTS} Press Ask.", use_inner_text=True)
    expect(reader.find(".asked-question")).to_have_text("“How many blue arrows are there?”")
    question.fill("How many blue arrows are there?")
    expect(body).not_to_have_class(DIM)
    reader.ask("How many red stars are there?")
    expect(reader.find(".asked-question")).to_have_text("“How many red stars are there?”")
    expect(body).not_to_have_class(DIM)


def test_an_empty_question_asks_for_one(reader) -> None:
    before = reader.find("#answers .answers").inner_html()
    reader.ask("  ")
    expect(reader.find("#message")).to_have_text("Type a question, or choose an example.")
    expect(reader.find("#ask")).to_be_visible()
    expect(reader.find("body")).to_have_class(DIM)
    assert reader.find("#answers .answers").inner_html() == before
    reader.find("#examples button").first.click()
    expect(reader.find("#message p")).to_have_count(0)
    reader.expect_answers(576, 64, 64)


def test_answers_are_held_against_the_true_one(reader) -> None:
    reader.expect_answers(576, 64, 64)
    expect(reader.find("#answers .grade")).to_have_text(["✓ right"] * 3)
    expect(reader.find("#answers .verdict")).to_have_text(["same as all tokens"] * 2)
    reader.find("#budget input[type=number]").fill("1")
    reader.find("#budget input[type=number]").press("Tab")
    reader.expect_answers(576, 1, 1)
    # "I cannot tell" is neither right nor wrong.
    grades = ["✓ right", "true answer: green", "true answer: green"]
    expect(reader.find("#answers .grade")).to_have_text(grades)
    reader.ask("Is the purple object left or right of the object with the number 9?")
    expect(reader.find("#answers .grade.wrong").first).to_contain_text("✗ wrong: it is left")
    reader.ask("What else is there?")
    note = "It did not take this question for one about a drawn scene"
    expect(reader.find("#answers")).to_contain_text(note)
    expect(reader.find("#answers .verdict").last).to_be_hidden()  # in a fold
    expect(reader.find("#answers .grade")).to_have_count(0)


def test_an_error_leaves_everything_but_says_what_to_do(reader) -> None:
    # Not the part itself: Gradio gives it another id at each change of anything.
    stage, answers = (reader.find(part) for part in ("#stage .viewer", "#answers .answers"))
    before = stage.inner_html(), answers.inner_html()
    reader.page.get_by_label("Remove Image").click()
    reader.ask("Is anything there?")
    expect(reader.find("#message")).to_contain_text("There is no picture yet.")
    expect(reader.find("#ask")).to_be_visible()
    expect(reader.find("#question textarea")).to_have_value("Is anything there?")
    assert (stage.inner_html(), answers.inner_html()) == before
    # They are of another question, and look it.
    expect(reader.find("body")).to_have_class(DIM)


def endless(view: object, selections: dict[str, object], *_: object) -> Iterator[dict[str, str]]:
    """Answers that no visitor would wait for."""
    for turn in range(2000):
        yield dict.fromkeys(selections, f"word{turn} ")
        time.sleep(0.2)  # each word is another drawing of the page


def test_who_waits_is_told_the_place_and_stop_keeps_the_words(reader, served, monkeypatch) -> None:
    real = served.model.stream_together
    monkeypatch.setattr(served.model, "stream_together", endless)
    reader.ask("Will this ever end?")
    expect(reader.find("#answers .answer-text").first).to_contain_text("word3")
    second = Visitor(reader.page.context.new_page()).open(served.url)
    truth = second.find("#truth p")
    expect(truth).to_be_visible()
    second.find("#ask").click()
    expect(second.find("#looked")).to_contain_text("queue: 1/1")
    expect(truth).to_be_hidden()  # both have one place
    second.page.wait_for_timeout(600)  # else the click is taken for the second one of Ask's
    second.find("#stop").click()
    expect(truth).to_be_visible()
    second.ask("And I?")
    expect(second.find("#looked")).to_contain_text("queue: 1/1")
    monkeypatch.setattr(served.model, "stream_together", real)
    reader.find("#stop").click()
    expect(reader.find("#ask")).to_be_visible()
    expect(reader.find("#answers .figures")).to_have_text(["stopped"] * 3)
    expect(reader.find("#answers .answer-text").first).to_contain_text("word3")
    second.expect_answers(576, 64, 64)
    expect(second.find("#looked")).not_to_contain_text("queue")
    expect(reader.find("#looked .error")).to_be_hidden()
    reader.find("#ask").click()
    reader.expect_answers(576, 64, 64)


def test_ask_comes_back_only_once_all_that_stop_shows_is_there(reader, monkeypatch, served) -> None:
    monkeypatch.setattr(served.model, "stream_together", endless)
    reader.ask("Is there a star?")
    expect(reader.find("#answers .answer-text").first).to_contain_text("word3")
    held: list[tuple] = []

    def hold(route: Any) -> None:  # the first of the two parts of Stop
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    reader.page.route("**/run/predict*", hold)
    reader.page.wait_for_timeout(600)  # else the click is taken for the second one of Ask's
    reader.find("#stop").click()
    while not held:
        reader.page.wait_for_timeout(50)
    reader.page.wait_for_timeout(1000)  # the run is over; another one would lose its Stop now
    expect(reader.find("#stop")).to_be_visible()
    ((route, response),) = held
    route.fulfill(response=response)
    expect(reader.find("#ask")).to_be_visible()


def test_who_asks_after_stop_sees_nothing_dimmed_while_the_answer_comes(
    reader, monkeypatch, served
) -> None:
    def wordless(view: object, selections: dict[str, object], *_: object) -> Iterator[dict]:
        return (dict.fromkeys(selections, "") for words in endless(view, selections))

    real = served.model.ask

    def slow(*inputs: Any, **options: Any) -> Any:
        time.sleep(1)  # the page has looked at what was typed by then
        return real(*inputs, **options)

    monkeypatch.setattr(served.model, "ask", slow)
    monkeypatch.setattr(served.model, "stream_together", wordless)
    for question in (
        "Is there a star?",
        "Is there a cross?",
    ):  # the second finds cards of the first
        reader.ask(question)
        expect(reader.find("#answers .asked-question")).to_contain_text(question)
        expect(reader.find("#answers .answers")).to_contain_text("answering …")
        expect(reader.find("#answers .other-inputs")).to_be_hidden()
        reader.page.wait_for_timeout(600)  # else the click is taken for the second one of Ask's
        reader.find("#stop").click()
        expect(reader.find("#ask")).to_be_visible()


def test_stop_ends_a_run_that_the_server_has_not_answered_yet(reader, served, monkeypatch) -> None:
    """And who asks at once is heard, though the page does not know yet that the run is over."""
    real = served.model.stream_together
    monkeypatch.setattr(served.model, "stream_together", endless)
    question, held, streams = "Will this ever end?", [], []

    def hold(route: Any) -> None:
        if question in (route.request.post_data or ""):
            held.append((route, route.fetch()))
        else:
            route.continue_()

    reader.page.route("**/queue/join*", hold)
    reader.page.route("**/queue/data*", lambda route: streams.append(route))
    reader.ask(question)
    reader.page.wait_for_timeout(600)  # else the click is taken for the second one of Ask's
    while not held:  # else the server is told to stop what it has not heard of
        reader.page.wait_for_timeout(50)
    reader.find("#stop").click()
    expect(reader.find("#ask")).to_be_visible()
    monkeypatch.setattr(served.model, "stream_together", real)
    ((route, response),) = held
    route.fulfill(response=response)
    expect(reader.find("#answers")).to_contain_text("These answers are for another question")
    reader.ask("Is there a star?")
    reader.page.wait_for_timeout(1000)  # unless a stream is open still, the page asks for one
    reader.page.unroute("**/queue/data*")
    for stream in streams:
        stream.continue_()
    reader.expect_answers(576, 64, 64)


def test_enter_asks_once_and_another_question_while_a_run_goes(reader, served, monkeypatch) -> None:
    monkeypatch.setattr(served.model, "stream_together", endless)
    questions, sent = ("Is there a star?", "Is there a cross?"), []
    reader.page.on("request", lambda request: sent.append(request.post_data or ""))

    def expect_asked(*times: int) -> None:
        for _ in range(100):
            joined = [data for data in sent if '"fn_index"' in data and '"spare"' in data]
            asked = tuple(sum(f'"{text}"' in data for data in joined) for text in questions)
            if asked == times:
                return
            reader.page.wait_for_timeout(100)
        assert asked == times

    box = reader.find("#question textarea")
    for question, asked in zip(questions, ((1, 0), (1, 1)), strict=True):
        box.fill(question)
        box.focus()
        for _ in range(3):  # held down
            reader.page.keyboard.down("Enter")
        reader.page.keyboard.up("Enter")
        expect(reader.find("#stop")).to_be_visible()
        expect_asked(*asked)
        box.press("Enter")  # by someone who is impatient
        reader.page.wait_for_timeout(500)
        expect_asked(*asked)
        expect(box).to_have_value(question)
    reader.find("#examples button").nth(1).click()
    expect(box).not_to_have_value(question)
    box.fill(question)  # after an example it is another one
    box.press("Enter")
    expect_asked(1, 2)
    reader.find("#stop").click()  # all
    expect(reader.find("#ask")).to_be_visible()
    reader.page.wait_for_timeout(500)
    expect(reader.find("#ask")).to_be_visible()


def test_stop_stays_while_another_run_of_the_visitor_is_on_its_way(
    reader, served, monkeypatch
) -> None:
    begun, goes_on, real = threading.Event(), threading.Event(), served.model.stream_together

    def wait(*inputs: Any) -> Iterator[Any]:
        begun.set()
        assert goes_on.wait(120)
        yield from real(*inputs)

    monkeypatch.setattr(served.model, "stream_together", wait)
    reader.ask("Is there a star?")
    assert begun.wait(120)
    on_its_way: list[Any] = []

    def hold(route: Any) -> None:
        if '"spare"' in route.request.post_data:
            on_its_way.append(route)
        else:
            route.continue_()

    reader.page.route("**/queue/join*", hold)
    reader.find("#examples button").nth(1).click()
    while not on_its_way:
        reader.page.wait_for_timeout(50)
    goes_on.set()
    expect(reader.find("#answers .figures")).to_have_text([re.compile("prefill")] * 3)
    reader.page.wait_for_timeout(500)
    expect(reader.find("#stop")).to_be_visible()
    expect(reader.find("#ask")).to_be_hidden()
    on_its_way.pop().continue_()
    expect(reader.find("#answers .asked-question")).not_to_contain_text("Is there a star?")
    reader.expect_answers(576, 64, 64)
    expect(reader.find("#ask")).to_be_visible()


def test_stop_stands_there_while_a_run_goes_that_was_not_stopped(reader) -> None:
    for steps, stop in (
        ("begin begin end", True),
        ("begin begin end end", False),
        ("begin stop end", True),  # what it had found is not shown yet
        ("begin stop end stopped", False),
        ("begin stop stopped", False),  # its end never comes
        ("begin stop stopped end", False),  # or late
        ("begin stop begin end stopped", True),
        ("begin stop begin stopped end", False),
    ):
        for step in steps.split():
            reader.page.evaluate(f"SPARE.runs.ask.{step}()")
        assert (reader.find("#stop").is_visible(), reader.find("#ask").is_visible()) == (
            stop,
            not stop,
        ), steps
        reader.page.evaluate("SPARE.runs.ask.stop(); SPARE.runs.ask.stopped();")


def test_who_passes_the_seed_and_changes_nothing_keeps_the_answers(reader) -> None:
    reader.unfold("settings")
    seed, answers = reader.page.get_by_label("Random seed"), reader.find("#answers").inner_text()
    seed.focus()
    with reader.page.expect_response("**/queue/join*"):
        seed.press("Tab")
    reader.page.wait_for_function("!SPARE.runs.ask.goes()")
    assert reader.find("#answers").inner_text() == answers
    assert reader.find(".toast-body").count() == 0  # at once: it goes by itself


def test_stop_leaves_menus_and_pictures_of_the_same_methods(reader, served, hold) -> None:
    held = hold(served)
    data = [served.picture(served.first.path), "", "spare", 8, 0]
    served.post("call/select", {"data": data}).raise_for_status()
    assert held.begun.wait(120)
    reader.choose_method("b", "Uniform grid")
    expect(reader.find("#stop")).to_be_visible()
    expect(reader.find("#method-b input")).to_have_value("Uniform grid")
    reader.find("#stop").click()
    expect(reader.find("#ask")).to_be_visible()
    expect(reader.find("#method-b input")).to_have_value("CDPruner")
    expect(reader.find("#does-b")).to_contain_text(PRUNERS["cdpruner"].summary)
    expect(reader.caption).to_contain_text("CDPruner")
    held.goes_on.set()


def test_on_a_phone_the_visit_reads_from_top_to_bottom(reader) -> None:
    reader.page.set_viewport_size({"width": 390, "height": 844})
    parts = ["#picture", "#question", "#ask", "#answers", "#budget", "#stage", "#method-a", "#lost"]
    tops = [reader.find(part).bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)


def test_the_api_page_shows_how_a_picture_is_sent(reader) -> None:
    reader.page.get_by_role("button", name="Use via API").click()
    shown = reader.page.get_by_text("handle_file('photo.png')")
    expect(shown.first).to_be_visible()
    reader.page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
    reader.errors.clear()  # Gradio's own documentation asks for what this page does not offer


def test_every_picture_on_the_stage_has_a_sentence(reader) -> None:
    reader.layer("all")
    names = reader.find("#stage canvas[role=img]").evaluate_all(
        "all => all.map(canvas => canvas.getAttribute('aria-label'))"
    )
    assert names[0].startswith("All 576 tokens") and len(set(names)) == 3
    assert [name.split(" kept ")[0] for name in names[1:]] == ["A SPARE", "B CDPruner"]


def test_the_keyboard_reaches_what_matters_and_shows_where_it_is(reader) -> None:
    wanted = {
        "#ask",
        "#budget input[type=range]",
        ".layers input",
        ".board",
        "#marks button",
        "#scene",
    }
    where = """selectors => {
        const at = document.activeElement;
        const found = selectors.find(selector => at.matches(selector));
        if (!found) return null;
        const rings = [at, at.closest('label')].filter(Boolean).map(e => getComputedStyle(e));
        const seen = rings.some(r => (r.outlineStyle !== 'none' && parseFloat(r.outlineWidth) > 0)
            || r.boxShadow !== 'none');
        return [found, seen];
    }"""
    reached: dict[str, bool] = {}
    reader.page.locator("body").press("Tab")
    for _ in range(80):
        hit = reader.page.evaluate(where, sorted(wanted))
        if hit:
            reached[hit[0]] = hit[1]
        reader.page.keyboard.press("Tab")
    assert reached == dict.fromkeys(wanted, True)


def test_on_paper_nothing_is_cut_off(reader) -> None:
    reader.unfold("gallery").evaluate("""fold => addEventListener('beforeprint', () => {
        window.cut = [];
        // What the body says, after a dialog of Gradio's, is the window's.
        for (let part = fold; part !== document.body; part = part.parentElement) {
            if (getComputedStyle(part).overflow !== 'visible') cut.push(part.className);
        }
    }, {once: true})""")
    reader.page.emulate_media(media="print")
    reader.page.pdf()
    assert reader.page.evaluate("cut") == []


def test_on_paper_the_page_is_light_and_its_plots_are_whole(open_window, served) -> None:
    visitor = open_window(f"{served.url}/?__theme=dark")
    plot = visitor.curve().locator(".main-svg").first
    visitor.page.evaluate(
        """addEventListener('beforeprint', () => {
            const {width} = document.querySelector('#curve .main-svg').viewBox.baseVal ?? {};
            window.printed = [document.body.classList.contains('dark'), width];
        })"""
    )
    visitor.page.pdf()
    width = plot.evaluate("plot => plot.getBoundingClientRect().width")
    assert visitor.page.evaluate("printed") == [False, width]
    expect(visitor.find("body")).to_have_class(re.compile(r"\bdark\b"))
    assert plot.get_attribute("viewBox") is None


def test_a_lost_connection_loses_no_input(open_window, served, wide_picture: Path) -> None:
    visitor = open_window(served.url + "/?__theme=dark")
    visitor.upload(wide_picture)
    visitor.choose_method("b", "Uniform grid")
    visitor.ask("What is blue?")
    visitor.expect_answers(576, 64, 64)
    visitor.page.context.set_offline(True)
    visitor.ask("What is green?")
    expect(visitor.find(".toast-body")).to_contain_text("Connection")
    visitor.page.context.set_offline(False)
    expect(visitor.find("#notice")).to_have_text(
        "The page was reloaded. Press Ask to see your comparison again."
    )
    expect(visitor.find("#question textarea")).to_have_value("What is green?")
    expect(visitor.find("#method-b input")).to_have_value("Uniform grid")
    image = visitor.find("#picture .image-frame img")
    sides = "i => i.decode().then(() => [i.naturalWidth, i.naturalHeight])"
    assert image.evaluate(sides) == [640, 160]
    assert visitor.page.url == served.url + "/?__theme=dark"
    visitor.find("#ask").click()
    expect(visitor.find("#answers .asked")).to_contain_text("What is green?")
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#notice")).to_have_text("")


@pytest.mark.parametrize("status", [200, 502])  # of a login's page, of a proxy whose server is down
def test_a_proxys_own_page_in_place_of_an_answer_loses_no_input(visitor, status: int) -> None:
    page = {"status": status, "content_type": "text/html", "body": "<h1>Sign in</h1>"}
    visitor.page.route("**/queue/join*", lambda route: route.fulfill(**page))
    visitor.ask("What is green?")
    expect(visitor.find(".toast-body")).to_contain_text(
        f"with status {status}. Ask again in a minute, or load the page again."
    )
    visitor.page.unroute_all()
    visitor.page.reload()
    expect(visitor.find("#notice")).to_contain_text("The page was reloaded. Press Ask")
    expect(visitor.find("#question textarea")).to_have_value("What is green?")
    visitor.find("#ask").click()
    expect(visitor.find("#answers .asked")).to_contain_text("What is green?")
    visitor.forget_failures()


def test_who_loads_the_page_anew_in_a_run_reads_of_no_lost_connection(
    open_window, served, monkeypatch
) -> None:
    """Gradio takes what it closes itself for lost, as long as the page is left."""
    monkeypatch.setattr(served.model, "stream_together", endless)
    visitor = open_window(served.url)
    visitor.ask("Will this ever end?")
    expect(visitor.find("#answers .answer-text").first).to_contain_text("word3")

    def answer_late(route: Any) -> None:
        time.sleep(1)
        route.continue_()

    visitor.page.route(served.url + "/", answer_late)
    visitor.page.reload()
    expect(visitor.find("#notice")).to_have_text(
        "The page was reloaded. Press Ask to see your comparison again."
    )


def test_a_server_that_was_started_anew_is_asked_with_the_same_input(
    open_window, tiny_model, unused_port: int, wide_picture: Path
) -> None:
    settings = Settings(device="cpu", port=unused_port, max_new_tokens=2)
    with serving(tiny_model, settings) as first:
        visitor = open_window(first.url)
        visitor.upload(wide_picture)
        visitor.find("#question textarea").fill("What is green?")
        # Until the click no server answers Gradio, which asks by itself and would load the page
        # anew.
        visitor.page.evaluate(
            """window.realFetch = window.fetch;
            window.fetch = (address, ...more) => String(address).endsWith('/app_id')
              ? Promise.reject(new TypeError('No server.')) : realFetch(address, ...more); 0"""
        )
    with serving(tiny_model, settings):
        visitor.page.evaluate(
            "window.fetch = window.realFetch; document.querySelector('#ask').click()"
        )
        expect(visitor.find("#notice")).to_contain_text("The page was reloaded. Press Ask")
        expect(visitor.find("#question textarea")).to_have_value("What is green?")
        expect(visitor.find("#picture .image-frame img")).to_be_visible()
        visitor.find("#ask").click()
        expect(visitor.find("#answers .asked")).to_contain_text("What is green?")
        expect(visitor.find("#answers .figures")).to_have_text([re.compile("prefill")] * 3)


def test_only_changed_inputs_go_to_a_server_that_gradio_found_first(visitor) -> None:
    visitor.page.route("**/app_id", lambda route: route.fulfill(json={"app_id": "another"}))
    leave = """async () => {
        document.body.insertAdjacentHTML('beforeend',
            '<p class="toast-body">Connection to the server was lost</p>');
        await fetch('gradio_api/app_id');
        window.dispatchEvent(new Event('pagehide'));
        return Object.keys(sessionStorage).includes('spare-lost');
    }"""
    assert not visitor.page.evaluate(leave)
    visitor.find("#question textarea").fill("What is green?")
    expect(visitor.find("body.asked-anew")).to_have_count(1)
    # The other server's first answers, which came before it was known to be another.
    visitor.page.evaluate(
        "document.querySelector('#answers .asked').dataset.question = 'What is green?'; 0"
    )
    expect(visitor.find("body.asked-anew")).to_have_count(0)
    assert visitor.page.evaluate(leave)


def test_a_browser_that_forbids_storage_runs_the_whole_page(newcomer, served) -> None:
    """As in a frame of another site, which a Space is."""
    newcomer.page.add_init_script(
        """Object.defineProperty(window, 'sessionStorage',
            {get() { throw new DOMException('denied', 'SecurityError'); }});"""
    )
    newcomer.open(served.url)
    assert newcomer.page.evaluate("typeof SPARE.storyCard") == "function"  # of the last script
    newcomer.page.evaluate(
        """SPARE.announceModel('another', 'Another');
        document.body.insertAdjacentHTML('beforeend',
            '<p class="toast-body">Connection to the server was lost</p>');
        window.dispatchEvent(new Event('pagehide'));"""
    )
    newcomer.check()


def test_who_leaves_a_run_for_a_link_finds_what_the_link_says(visitor, served) -> None:
    visitor.unfold("all-methods")
    visitor.find("#compare-all").click()
    expect(visitor.find("#stop")).to_be_visible()

    def answer_late(route: Any) -> None:
        time.sleep(5)  # the page that is left looks every two seconds whether it may load anew
        route.continue_()

    visitor.page.route("**/?a=uniform*", answer_late)
    visitor.page.goto(f"{served.url}/?a=uniform&k=32")
    expect(visitor.find("#answers h3").nth(1)).to_have_text("A Uniform grid · 32")
    expect(visitor.find("#notice .message")).to_have_count(0)
    assert visitor.page.url.endswith("/?a=uniform&k=32")
    visitor.forget_failures()  # of the run that Gradio breaks off


def test_a_link_that_leads_nowhere_leaves_a_page_that_asks_on(visitor) -> None:
    visitor.page.route("**/nowhere", lambda route: route.fulfill(status=204))
    with visitor.page.expect_request("**/nowhere"):
        visitor.page.evaluate("location.assign('nowhere')")
    visitor.page.evaluate("fetch('icon.svg').then(({ok}) => { window.answered = ok; }); 0")
    visitor.page.wait_for_function("window.answered")
    visitor.forget_failures()  # what it was loading


def test_an_answer_without_blanks_stays_within_the_page(reader, served, monkeypatch) -> None:
    real = served.model.stream_together

    def lengthen(piece: Any) -> Any:
        return piece if isinstance(piece, str) else replace(piece, text="m" * 300)

    def unbroken(*inputs: Any) -> Iterator[dict]:
        for pieces in real(*inputs):
            yield {label: lengthen(piece) for label, piece in pieces.items()}

    monkeypatch.setattr(served.model, "stream_together", unbroken)
    reader.ask("Is there a star?")
    reader.expect_answers(576, 64, 64)
    for button, place in (("#find-enough", "#enough"), ("#find-carrier", "#carrier")):
        reader.find(button).click()
        expect(reader.find(f"{place} .words:not(.unfinished)")).to_have_count(2)
    texts = reader.find("#headline p, #answers p, #enough .words, #carrier .words")
    for width in (1440, 390):
        reader.page.set_viewport_size({"width": width, "height": 900})
        wider = texts.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth)")
        assert wider == [] and texts.count() > 8
