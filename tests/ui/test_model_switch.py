"""Changing the model of a private page: one goes before the other comes, and nothing mixes."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import logging
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
import torch
import transformers
from local_hub import LocalHub
from pages import serving
from programs import ROOT
from safetensors.torch import load_file, save_file
from visits import QUESTION, controls

from spare_demo.models import CATALOGUE, Model, ModelError, load_model
from spare_demo.models.generate.decoder_inputs import NO_LANGUAGE_MODEL
from spare_demo.models.generate.prefill_floor import Rates
from spare_demo.models.loading import memory, number_format
from spare_demo.models.loading.catalogue import TINY_LLAVA
from spare_demo.settings import Settings
from spare_demo.ui import build, serve
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.lab import Lab
from spare_demo.ui.model_menu import model_menu, offers_html, tiny_needs, upcoming_html
from spare_demo.ui.model_switch import ModelSwitch
from spare_demo.ui.page import launch_options


@pytest.fixture
def model_switch(tiny_folder: Path) -> ModelSwitch:
    settings = Settings(
        model=str(tiny_folder), device="cpu", methods=("spare", "visionzip"), max_new_tokens=3
    )
    return ModelSwitch(load_model(settings.model, settings.device), settings)


@pytest.fixture
def crowded(model_switch: ModelSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for one model at a time."""
    model, needed = model_switch.model, 2**40
    monkeypatch.setattr(memory, "needed_bytes", lambda *_: needed)
    monkeypatch.setattr(
        memory, "free_bytes", lambda device: needed if model.closed else needed - model.bytes
    )


def test_the_old_model_is_gone_and_the_new_one_follows(
    model_switch: ModelSwitch, tiny_next_folder: Path
) -> None:
    said: list[str] = []
    sentence = model_switch.change(str(tiny_next_folder), 16, said.append)
    assert "reopens" in sentence and "without the present model" in said[0]
    model, settings = model_switch.wait_for_next()
    assert model_switch.model.closed and not model.closed
    assert model.name == "tiny-llava-next" and settings.model == str(tiny_next_folder)
    assert settings.methods == ("spare", "visionzip")
    with pytest.raises(ModelError, match="Wait until the page reopens"):
        model_switch.change("built-in", 16, said.append)


def test_a_folder_has_its_own_name_while_it_is_loaded(
    model_switch: ModelSwitch, tiny_next_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_next_folder)
    names: list[str] = []
    model_switch.change(".", 16, lambda _: names.append(model_switch.loading))
    assert names == ["tiny-llava-next"]  # "" would say that nothing is


@pytest.mark.parametrize("one_fits", [False, True])
def test_the_old_model_goes_first_only_where_one_fits(
    model_switch: ModelSwitch,
    tiny_next_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    one_fits: bool,
) -> None:
    if one_fits:
        request.getfixturevalue("crowded")
    old, kind = model_switch.model, transformers.LlavaNextForConditionalGeneration
    closed: list[bool] = []
    read = kind.from_pretrained

    def reading(*given: Any, **options: Any) -> Any:
        closed.append(old.closed)
        return read(*given, **options)

    monkeypatch.setattr(kind, "from_pretrained", reading)
    model_switch.change(str(tiny_next_folder), 16, print)
    assert closed == [one_fits] and old.closed


def test_the_vision_side_alone(model_switch: ModelSwitch) -> None:
    name = model_switch.settings.model
    model_switch.change(name, 16, print, language_model=False)
    model, settings = model_switch.wait_for_next()
    assert not model.has_language_model and settings.without_language_model
    assert settings.model == name
    with gr.Blocks() as demo:
        model_menu(demo, model_switch)
    labels = {component["props"].get("label") for component in demo.config["components"]}
    for label in re.findall("“(.*?)”", NO_LANGUAGE_MODEL):  # what to do on the page
        assert label in labels
    assert NO_LANGUAGE_MODEL.count("“") == 2


TINY = "someone/tiny-llava"
ENDPOINTS = {"/compare", "/select", "/relevance", "/answer"}


@pytest.fixture
def served(local_hub: Any, tiny_folder: Path, tmp_path: Path) -> LocalHub:
    folder = tmp_path / "tiny-llava"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("clip"))
    return local_hub({TINY: folder})


def test_a_download_is_shown_in_bytes_and_can_be_cancelled(
    model_switch: ModelSwitch, served: LocalHub
) -> None:
    steps: list[tuple[int, int]] = []

    def cancel_half_way(done: int, total: int) -> None:
        steps.append((done, total))
        if done > total / 2:
            model_switch.cancel()

    with pytest.raises(ModelError, match=r"Loading was cancelled\. tiny-llava is still here"):
        model_switch.change(TINY, 16, print, progress=cancel_half_way)
    done, total = steps[-1]
    assert total / 2 < done < total and not model_switch.model.closed
    steps.clear()
    model_switch.change(TINY, 16, print, progress=lambda *step: steps.append(step))
    model, _ = model_switch.wait_for_next()
    downloaded = [step for step in steps if step[1]]
    weights = sum(p.stat().st_size for p in served.repositories[TINY].glob("*.safetensors"))
    assert downloaded[-1][0] == downloaded[-1][1] <= weights
    assert steps[-1] == (0, 0) and model.name == TINY


@pytest.mark.parametrize("end", ["", "/", "/tree/main"])
def test_the_address_of_a_repository_names_it(
    model_switch: ModelSwitch, served: LocalHub, end: str
) -> None:
    model_switch.change(f"https://huggingface.co/{TINY}{end}", 16, print)
    model, settings = model_switch.wait_for_next()
    assert model.name == settings.model == TINY
    with pytest.raises(ModelError, match="There is no model 'https://else"):
        load_model(f"https://elsewhere.org/{TINY}", "cpu")


def test_it_can_be_cancelled_until_the_old_model_goes(
    model_switch: ModelSwitch, tiny_next_folder: Path
) -> None:
    reads = 0

    def cancel_late(done: int, total: int) -> None:
        nonlocal reads
        reads += total == 0
        if reads == 1:  # the next look is after the weights were read
            model_switch.cancel()

    with pytest.raises(ModelError, match="still here"):
        model_switch.change(str(tiny_next_folder), 16, print, progress=cancel_late)
    assert reads == 1 and not model_switch.model.closed
    assert model_switch.change(str(tiny_next_folder), 16, print)  # it can be loaded again


def test_what_each_model_would_take_here(
    model_switch: ModelSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 9 * 10**9)
    monkeypatch.setattr(number_format, "bfloat16_slowness", lambda: 0.3)
    measured: list[torch.dtype] = []

    def measure_rates(model: Any, dtype: torch.dtype) -> Rates:
        measured.append(dtype)
        return Rates(bandwidth=10e9, product=1e12)

    monkeypatch.setattr(type(model_switch.model), "measure_rates", measure_rates)
    offers = {offer.entry.name: offer for offer in model_switch.offers(16)}
    assert set(offers) == set(CATALOGUE) - {"built-in"} and measured == [torch.bfloat16]
    tiny, seven = offers["tiny-llava"], offers["llava-1.5-7b"]
    assert tiny.room.fits and not seven.room.fits and seven.vision_room.fits
    assert tiny.download == pytest.approx(6.1e9, rel=0.02)
    assert seven.download == pytest.approx(14.6e9, rel=0.02)
    assert seven.vision_download == pytest.approx(1.15e9, rel=0.05)
    # 1.7 and 0.35 TFLOP, and 16 times 2.6 GB read.
    assert tiny.seconds == pytest.approx(2.1 + 4.2, rel=0.1) and seven.seconds is None
    table = offers_html(list(offers.values()))
    assert re.search(r"no: needs 1[67]\.", table) and re.search(r"yes: needs [34]\.", table)
    assert "14.6 GB" in table
    assert "9.0 GB are free without the present model" in table and f"{tiny.seconds:.1f} s" in table
    needs = f"{tiny.room.needed / 1e9:.1f} GB"
    assert needs in table and tiny_needs(model_switch) == (
        f"{needs} of memory, and a download of 6.1 GB; a question takes about {tiny.seconds:.1f} s "
        "here"
    )


@pytest.mark.parametrize(("slowness", "free"), [(0.3, 9), (150.0, 11)])  # the rest is wider there
def test_fewer_bits_fit_and_are_estimated_where_they_are_fast(
    model_switch: ModelSwitch, monkeypatch: pytest.MonkeyPatch, slowness: float, free: int
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: free * 10**9)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    for module in (number_format, memory):
        monkeypatch.setattr(module, "bfloat16_slowness", lambda: slowness)
    rates = Rates(bandwidth=10e9, product=1e12)
    monkeypatch.setattr(type(model_switch.model), "measure_rates", lambda self, dtype: rates)
    (seven,), (wide,) = (model_switch.offers(bits, ["llava-1.5-7b"]) for bits in (4, 16))
    assert seven.vision_room == wide.vision_room  # of which nothing is quantised
    assert seven.room.fits and (seven.seconds is not None) is (slowness < 1)
    assert ("long: fewer bits are slow here" in offers_html([seven])) is (slowness > 1)


def test_the_table_does_without_times_while_another_model_is_read(
    model_switch: ModelSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 64 * 10**9)
    model_switch.model.close("It made room.")
    (tiny,) = model_switch.offers(16, ["tiny-llava"])
    assert tiny.room.fits and tiny.seconds is None
    assert "<td>–</td>" in offers_html([tiny])
    assert "a question takes" not in tiny_needs(model_switch)


def test_methods_of_the_start_that_the_new_model_lacks_are_left_out(
    model_switch: ModelSwitch, tiny_qwen_folder: Path
) -> None:
    model_switch.change(str(tiny_qwen_folder), 16, print)
    model, settings = model_switch.wait_for_next()
    assert settings.methods == ("spare",)  # VisionZip reads a class token; SPARE has another form
    assert build(model, settings).config["title"].startswith("SPARE demo")


@pytest.mark.parametrize(
    ("name", "bits", "sentence"),
    [
        (None, 16, "Choose a model"),
        (" ", 16, "Choose a model"),
        ("auto", 16, "Choose a model"),
        ("no-such-model", 16, "There is no model 'no-such-model'"),
        ("built-in", 3, "16, 8 or 4"),
        ("THE SAME", 16, "is loaded already"),
        ("THE SAME/", 16, "is loaded already"),
    ],
)
def test_a_refusal_leaves_everything_as_it_was(
    model_switch: ModelSwitch, name: str | None, bits: int, sentence: str
) -> None:
    name = name and name.replace("THE SAME", model_switch.settings.model)
    with pytest.raises((ModelError, ValueError), match=sentence):
        model_switch.change(name, bits, print)
    assert not model_switch.model.closed


@pytest.fixture
def broken(tiny_next_folder: Path, tmp_path: Path) -> Path:
    """A checkpoint that lacks a parameter, which is found when its weights are read."""
    broken = shutil.copytree(tiny_next_folder, tmp_path / "broken")
    shard = next(broken.glob("*.safetensors"))
    kept = load_file(shard)
    kept.popitem()  # whole files, but a parameter that none of them has
    save_file(kept, shard, metadata={"format": "pt"})
    return broken


def test_weights_that_turn_out_unusable_leave_the_old_model(
    model_switch: ModelSwitch, broken: Path
) -> None:
    with pytest.raises(ModelError, match="'broken' lacks 1 of the model's parameters"):
        model_switch.change(str(broken), 16, print)
    assert not model_switch.model.closed


@pytest.mark.usefixtures("crowded")
def test_weights_that_turn_out_unusable_bring_the_old_model_back(
    model_switch: ModelSwitch, broken: Path
) -> None:
    sentence = model_switch.change(str(broken), 16, print)
    assert "'broken' lacks 1 of the model's parameters" in sentence
    assert "the model it had" in sentence
    model, settings = model_switch.wait_for_next()
    assert model_switch.model.closed and model.name == model_switch.model.name
    assert settings == model_switch.settings


def test_what_is_offered_is_what_the_server_was_told_of_and_the_table(tiny_model: Any) -> None:
    settings = Settings(model="auto", models=("/somewhere/mine", "someone/theirs"))
    switch = ModelSwitch(tiny_model, settings)
    assert switch.settings.device == "cpu"  # a GPU that "auto" left alone is not asked of again
    offered = [name for _, name in switch.offered]
    assert offered[:4] == [tiny_model.name, "/somewhere/mine", "someone/theirs", "built-in"]
    assert "llava-1.5-7b" in offered and "auto" not in offered


def test_a_question_in_flight_ends_with_a_sentence(
    model_switch: ModelSwitch, tiny_next_folder: Path, photo_file: str
) -> None:
    handlers = Handlers(model_switch.model, model_switch.settings)
    asked = controls(photo_file, QUESTION)
    running = with_refusals(handlers.ask)(**asked)
    shown: dict[str, Any] = {}
    while not (shown.get("visit") and any(shown["visit"].result.partial_text.values())):
        shown = next(running)
    model_switch.change(str(tiny_next_folder), 16, print)
    assert "made room for another model" in list(running)[-1]["message"]
    # And so does whatever else is asked of that page, while it is still there.
    again = list(with_refusals(handlers.ask)(**asked))
    assert [set(step) for step in again] == [{"message"}]


def test_a_lab_run_in_flight_ends_with_a_sentence_and_what_it_found(tiny_folder: Path) -> None:
    model = load_model(str(tiny_folder), "cpu")
    measuring = Lab(model, Settings()).measure(["uniform"], [4], 50, "held-out", 0)
    before, one = next(measuring), next(measuring)
    model.close("It made room for another model.")
    last = next(measuring)
    assert "made room" in last["message"] and "Measuring the first" in before["progress"]
    assert "Stopped: 1 of 50 scenes" in last["progress"] and last["bench"] is one["bench"]
    assert last["download"]["interactive"]


def test_loading_shows_how_far_it_is_and_what_it_needs(
    model_switch: ModelSwitch, tiny_next_folder: Path
) -> None:
    with gr.Blocks() as demo:
        model_menu(demo, model_switch)
    (change,) = [f.fn for f in demo.fns.values() if getattr(f.fn, "__name__", "") == "change"]
    progress = inspect.signature(change).parameters["progress"].default
    assert isinstance(progress, gr.Progress)
    assert not progress.track_tqdm  # the hub's own bars would stand beside it
    said: list[str] = []
    told = change(None, str(tiny_next_folder), 16, False, lambda share, desc: said.append(desc))
    assert "reopens" in told
    assert "needs about" in said[0] and "without the present model" in said[0]
    refused = change("no-such-model", "", 16, False, lambda share, desc: said.append(desc))
    assert "role=" in refused and "Wait until the page reopens" in refused


def ids(demo: gr.Blocks) -> set[str]:
    return {component["props"].get("elem_id") for component in demo.config["components"]}


def endpoints(demo: gr.Blocks) -> set[str]:
    """What programs can call."""
    return set(demo.get_api_info()["named_endpoints"])


def test_a_public_page_and_programs_have_nothing_of_it(tiny_model: Any) -> None:
    own = {"another-model", "model-name", "load-model", "model-status", "model-changed"}
    own |= {"model-vision", "cancel-model", "model-offers"}
    public = Settings(public=True)
    assert not own & ids(build(tiny_model, public))
    assert "awaitModel" not in launch_options(public)["head"]
    private = Settings()
    demo = build(tiny_model, private, model_switch=ModelSwitch(tiny_model, private))
    assert own <= ids(demo) and endpoints(demo) == ENDPOINTS
    assert "awaitModel" in launch_options(private)["head"]


def upcoming(tiny_model: Any, folder: Path) -> tuple[ModelSwitch, list[str]]:
    """The switch of a public page on which a checkpoint was to follow, and what it reported."""
    later = dataclasses.replace(TINY_LLAVA, name=str(folder))
    switch = ModelSwitch(tiny_model, Settings(device="cpu", public=True), later)
    said: list[str] = []
    switch.load_upcoming(said.append)
    return switch, said


def test_a_model_on_its_way_follows_by_itself(tiny_folder: Path, tiny_next_folder: Path) -> None:
    switch, said = upcoming(load_model(str(tiny_folder), "cpu"), tiny_next_folder)
    assert said[-1] == "It is loaded. The page reopens with it."
    model, settings = switch.wait_for_next()
    assert (settings.model, settings.private) == (str(tiny_next_folder), False)
    assert switch.model.closed and not model.closed and switch.upcoming == ""


def test_a_model_not_to_be_had_leaves_the_one_that_answers(tiny_model: Any, tmp_path: Path) -> None:
    switch, said = upcoming(tiny_model, tmp_path)
    assert said[-1].startswith(f"{tiny_model.title} stays: ") and switch.upcoming == ""
    assert not tiny_model.closed


def test_a_page_says_which_model_is_on_its_way(tiny_model: Any) -> None:
    public = Settings(public=True)
    demo = build(tiny_model, public, model_switch=ModelSwitch(tiny_model, public, TINY_LLAVA))
    assert "upcoming" in ids(demo) and "another-model" not in ids(demo)
    assert "awaitModel" in launch_options(public, changes=True)["head"]
    assert "TinyLLaVA, which knows photos, is being loaded" in upcoming_html(TINY_LLAVA.title)
    assert upcoming_html("") == ""
    assert endpoints(demo) == ENDPOINTS


# --- the real program, in a browser ---


@pytest.fixture
def program(
    tiny_folder: Path, unused_port: int, own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of a private page of a tiny LLaVA-1.5, which another model's page follows.

    It is served as `python app.py` serves it, but on a thread of this program.
    """
    model = load_model(str(tiny_folder), "cpu")
    settings = Settings(model=str(tiny_folder), device="cpu", port=unused_port, max_new_tokens=3)
    served, over = threading.Event(), threading.Event()

    def build_until_over(*inputs: Any) -> gr.Blocks:
        if over.is_set():
            raise KeyboardInterrupt
        return build(*inputs)

    def wait_until_over(switch: ModelSwitch) -> tuple[Model, Settings]:
        served.set()
        while not switch._ready.wait(0.1):
            if over.is_set():
                return switch.model, switch.settings
        return wait_for_next(switch)

    def run() -> None:
        try:
            with suppress(KeyboardInterrupt):
                serve(model, settings)
        finally:
            served.set()

    def note(record: logging.LogRecord) -> bool:
        logged.append(record.getMessage())
        return True

    logged: list[str] = []
    log = logging.getLogger("uvicorn.error")
    log.addFilter(note)
    wait_for_next = ModelSwitch.wait_for_next
    monkeypatch.setitem(serve.__globals__, "build", build_until_over)
    monkeypatch.setattr(ModelSwitch, "wait_for_next", wait_until_over)
    server = threading.Thread(target=run)
    server.start()
    served.wait()
    yield settings.url
    over.set()
    server.join()
    log.removeFilter(note)
    assert logged == []  # of the pages that were cut off
    gc.collect()
    gc.freeze()  # as tests/conftest.py does


@pytest.mark.browser
def test_the_page_changes_the_model(browser: Any, program: str, tiny_next_folder: Path) -> None:
    from browsing import PATIENCE, Visitor, expect

    expect.set_options(timeout=PATIENCE)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE)
    one, other, measuring = (Visitor(context.new_page()).open(program) for _ in range(3))
    expect(one.find("#model-changed p")).to_have_count(0)
    header = one.find(".masthead .model")
    expect(header).to_contain_text("tiny-llava on CPU")
    # Firefox finds what it holds two pixels too high; where it scrolled, the Tab key would stop.
    expect(one.find("#another-model")).to_have_css("overflow", "visible")
    one.page.set_viewport_size({"width": 320, "height": 844})
    lab = one.page.get_by_role("tab", name="Lab")
    lab.click(trial=True, position={"x": lab.bounding_box()["width"] - 5, "y": 20}, timeout=20_000)
    one.page.set_viewport_size({"width": 1440, "height": 900})
    one.find("#another-model > button").click()
    expect(one.find("#model-name .info-text code")).to_have_css("white-space", "nowrap")
    offers = one.find("#model-offers tbody tr")
    expect(offers).to_have_count(len(CATALOGUE) - 1)
    expect(offers.first).to_contain_text("TinyLLaVA")
    heads = one.find("#model-offers thead th").all_inner_texts()
    for width in (360, 768):
        one.page.set_viewport_size({"width": width, "height": 844})
        table = one.find("#model-offers .scroll")
        assert table.evaluate("part => part.scrollWidth <= part.clientWidth"), width
        names = offers.first.locator("td").evaluate_all(
            "all => all.map(cell => getComputedStyle(cell, '::before').content)"
        )
        assert [name.strip('" ') for name in names] == heads[1:]
    one.page.set_viewport_size({"width": 1440, "height": 900})
    expect(one.find("#cancel-model")).to_have_count(0)

    def choose(name: str) -> None:
        one.find("#model-typed textarea, #model-typed input").fill(name)
        one.find("#load-model").click()

    choose("no-such-model")
    expect(one.find("#model-status [role=alert]")).to_contain_text("no model 'no-such-model'")
    measuring.page.get_by_role("tab", name="Lab").click()
    expect(measuring.find("#lab-methods .token").first).to_be_visible()  # all of it has come
    measuring.find("#lab-scenes input").fill("200")
    measuring.find("#lab-run").click()
    expect(measuring.find("p.lab-progress")).to_contain_text("of 200 scenes")
    failures: list[str] = []
    one.page.expose_function("note", lambda words: failures.append(words))
    one.page.evaluate("""() => setInterval(() => {
        const badge = document.querySelector('#model-status .error');
        if (badge?.checkVisibility()) note(badge.textContent);
    }, 50)""")
    choose(str(tiny_next_folder))
    # Its own sentence comes where it is quicker than the end of the server that has it to say.
    said = "#lab-message:has-text('ask again then'), #model-changed:has-text('gone: ask again')"
    expect(measuring.find(said)).to_have_count(1)
    expect(header).to_contain_text("tiny-llava-next on CPU")
    assert failures == []
    expect(one.find("#model-changed")).to_contain_text("Earlier results are gone")
    expect(one.caption).to_contain_text("tokens in common")
    expect(one.find("#answers")).to_contain_text("All 80 tokens")
    one.ask("Is it red?")
    expect(one.find("#answers .card .figures").last).to_contain_text("prefill")
    expect(one.find("#answers")).to_contain_text("All 80 tokens")

    # The tab that nobody looked at meanwhile opens the new page by itself.
    other.page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(other.find(".masthead .model")).to_contain_text("tiny-llava-next on CPU")
    expect(other.find("#model-changed")).to_contain_text("tiny-llava-next is loaded. Earlier")
    other.page.reload()
    expect(other.find(".masthead .model")).to_contain_text("tiny-llava-next on CPU")
    expect(other.find("#model-changed p")).to_have_count(0)
    context.close()


@pytest.mark.long
@pytest.mark.browser
def test_whoever_comes_while_a_model_loads_sees_it_and_can_cancel(
    open_window: Any, tiny_model: Any, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from browsing import expect

    def load_for_ever(*_: Any, progress: Any, **__: Any) -> None:
        while True:
            progress(0, 0)
            time.sleep(0.5)  # each time the page draws it anew

    monkeypatch.setattr("spare_demo.ui.model_switch.load_model", load_for_ever)
    settings = Settings(model="built-in", device="cpu", port=unused_port)
    switch = ModelSwitch(tiny_model, settings)
    with serving(tiny_model, settings, model_switch=switch) as served:
        before, early = open_window(served.url), open_window(served.url)
        for visitor, name in ((before, "tiny-llava"), (early, "llava-1.5-7b")):
            visitor.find("#another-model > button").click()
            visitor.find("#model-typed textarea, #model-typed input").fill(name)
            visitor.find("#load-model").click()
            expect(visitor.find("#cancel-model")).to_be_visible()
        late = open_window(served.url)
        for visitor in (early, late):
            words = "tiny-llava is already being loaded. The page reopens with it"
            expect(visitor.find("#model-status")).to_contain_text(words)
        late.find("#load-model").click()  # asked for a second time, it is loaded once
        late.find("#cancel-model").click()
        for visitor in (before, early, late):
            refused = visitor.find("#model-status [role=alert]")
            expect(refused).to_contain_text("Loading was cancelled")
            expect(visitor.find("#cancel-model")).to_have_count(0)
        before.page.reload()
        expect(before.find("#another-model > button")).to_be_visible()
        expect(before.find("#model-status p")).to_have_count(0)


@pytest.mark.long
@pytest.mark.browser
def test_what_was_chosen_is_asked_of_the_next_model(
    open_window: Any, program: str, tiny_qwen_folder: Path, photo_file: str
) -> None:
    from browsing import expect

    one = open_window(program)
    one.upload(Path(photo_file))
    one.choose_method("a", "Uniform grid")
    one.choose_method("b", "VisionZip")
    one.ask("Is it red?")
    expect(one.find("#answers .asked")).to_contain_text("Is it red?")
    one.page.wait_for_function("SPARE.link.make().includes('q=Is+it+red')")
    link = one.page.evaluate("SPARE.link.make()")

    def load(visitor: Any, vision: bool) -> None:
        visitor.find("#another-model > button").click()
        visitor.find("#model-typed textarea, #model-typed input").fill(str(tiny_qwen_folder))
        visitor.find("#model-vision input").set_checked(vision)
        visitor.find("#load-model").click()
        part = " without its language model" if vision else ""
        words = f"tiny-qwen{part} is loaded. Earlier results are gone"
        expect(visitor.find("#model-changed")).to_contain_text(words)
        visitor.wait_until_it_listens()

    load(one, False)
    expect(one.find("#notice")).to_have_text(
        "B: VisionZip cannot run on this model; the page's default is used. "
        "Press Ask to see your comparison with this model."
    )
    expect(one.find("#question textarea")).to_have_value("Is it red?")
    expect(one.find("#method-a input")).to_have_value("Uniform grid")
    expect(one.find("#method-b input")).to_have_value("CDPruner, diversity only")
    expect(one.find("#picture .image-frame img")).to_be_visible()
    one.find("#ask").click()
    expect(one.find("#answers .asked")).to_contain_text("Is it red?")
    expect(one.find("#answers .figures")).to_have_text([re.compile("prefill")] * 3)

    # A link opens as it is, although what was asked before waits to come back.
    one.page.evaluate("""before => sessionStorage.setItem('spare-lost', JSON.stringify(
        {before, address: before + '?lost=1', picture: null}))""", program + "/")  # fmt: skip
    one.page.goto(link.replace("q=Is+it+red", "q=Is+it+blue"))
    expect(one.find("#notice")).to_contain_text("The link was made with the model 'tiny-llava@")
    expect(one.find("#question textarea")).to_have_value("Is it blue?")
    one.page.close()  # else it is loaded anew with each model that follows

    # Whoever only looked at the opening sees that of the new model.
    other = open_window(program)
    load(other, True)
    expect(other.find("#notice")).to_have_text("")
    other.choose_method("b", "Uniform grid")
    expect(other.caption).to_contain_text("B Uniform grid")
    other.find("#by-hand").click()
    expect(other.find("#edit .export")).to_be_visible()
    expect(other.find("#edit .again")).to_be_hidden()  # it gives no answers
    load(other, False)
    expect(other.find("#notice")).to_contain_text("Press Ask to see your comparison")
    expect(other.find("#method-b input")).to_have_value("Uniform grid")


@pytest.mark.browser
def test_a_photo_shown_to_the_built_in_model_leads_to_one_that_knows_photos(
    browser: Any, built_in: Model, unused_port: int
) -> None:
    from browsing import PATIENCE, Visitor, expect

    settings, model = Settings(model="built-in", device="cpu", port=unused_port), built_in
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    with serving(model, settings, model_switch=ModelSwitch(model, settings)) as served:
        visitor = Visitor(page).open(served.url)
        page.get_by_label("Remove Image").click()
        photo = str(ROOT / "assets" / "examples" / "photo-chelsea.jpg")
        page.locator("#picture input[type=file]").set_input_files(photo)
        page.locator("#picture .image-frame img").wait_for()
        visitor.ask("What animal is this?")
        heading = "This small model knows drawn scenes only"
        expect(visitor.find(".instead h3")).to_have_text(heading)
        # As in the menu's table, and no number that stands for any machine.
        expect(visitor.find(".instead")).to_contain_text("GB of memory")
        expect(visitor.find("#answers .answers")).not_to_be_visible()  # what it says all the same
        visitor.find(".load-tiny").click()
        status = visitor.find("#model-status [role=alert]")
        # No hub can be reached from a test.
        expect(status).to_contain_text("tiny-llava-v1-hf is not on")
        assert not model.closed
        # The menu opened, and no thread goes on counting what it says when the test has ended.
        expect(visitor.find("#model-offers tbody tr")).to_have_count(len(CATALOGUE) - 1)
        page.close()
