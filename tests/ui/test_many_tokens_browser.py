"""A page of 2,880 visual tokens, as LLaVA-NeXT makes them, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import browsing
import numpy as np
import pytest
import torch
from pages import serving
from ports import free_port
from visits import page_request

from spare_demo import measures
from spare_demo.analysis.why import why
from spare_demo.models import load_model
from spare_demo.render.colours import BLUE
from spare_demo.render.maps import leftover_map, pick_order
from spare_demo.settings import Settings
from spare_demo.ui import examples
from spare_demo.ui.guide import Guide
from spare_demo.ui.payload import payload
from spare_demo.ui.visit import Visit
from spare_demo.ui.wire import to_bytes

expect = browsing.expect
pytestmark = browsing.MARKS


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory):
    """A checkpoint with views of 576 tokens, so wide that their directions are too many to send."""
    import tiny_checkpoint

    folder = tmp_path_factory.mktemp("large") / "large-next"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tiny_checkpoint.write_llava_next_folder(folder, size=336, width=256)
    return load_model(str(folder), device="cpu")


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings(port=free_port(), budget=64, max_new_tokens=2)


@pytest.fixture(scope="module")
def page(large, settings: Settings, browser) -> Iterator[browsing.Visitor]:
    """A visitor on the opened page."""
    with serving(large, settings) as served:
        context = browser.new_context(viewport=browsing.WINDOW)
        visitor = browsing.Visitor(context.new_page())
        yield visitor.open(served.url)
        context.close()
    visitor.check()


@pytest.fixture(scope="module")
def visit(large, settings: Settings) -> Visit:
    """The same comparison, as Python makes it."""
    first = examples.load_examples(large.name)[0]
    request = page_request(first.path, first.question, aspect=large.aspect(None))
    return Guide(large, settings).look(request)


def to_budget(page: browsing.Visitor, k: int) -> None:
    page.page.evaluate("k => SPARE.setBudget(k)", k)
    page.page.wait_for_function("k => SPARE.state.k === k", arg=k)


def test_what_is_sent_is_small_and_the_rest_is_asked_for(visit: Visit) -> None:
    sent = payload(visit, 64)
    del sent["picture"]
    assert sent["n"] == 2880
    assert len(to_bytes(sent)) < 300_000
    assert sent["coordinates"] is None  # or this would not test what it should


@pytest.mark.parametrize("k", [64, 1500])
def test_scrubbing_draws_what_python_draws(page, visit: Visit, k: int) -> None:
    to_budget(page, k)
    page.layer("order")
    drawn = pick_order(visit.canvas, visit.exploration.picks["A"].order[:k], BLUE, "A SPARE")
    assert page.sentence() == drawn.sentence
    shown = np.asarray(page.picture(), int)
    gap = np.abs(shown - np.asarray(drawn.image.crop((0, 0, *visit.canvas.size)), int)).max(axis=2)
    # The numbers on the first 64 picks are in the browser's own font.
    assert (gap > 3).mean() < (0.03 if k <= 64 else 0.002)


def test_leftovers_come_from_the_server(page, visit: Visit) -> None:
    page.layer("leftover")
    for k in (64, 700, 90, 91, 64):  # the last ones before the first was answered
        to_budget(page, k)
        if k in (90, 91):
            continue
        features = visit.exploration.view.tokens.features
        left = measures.leftover_share(features, visit.exploration.picks["A"].order[:k])
        drawn = leftover_map(visit.canvas, left, "A SPARE", k)
        expect(page.caption).to_have_text(drawn.sentence)


def test_leftovers_of_both_methods_come_while_one_is_on_its_way(page, visit: Visit) -> None:
    page.layer("leftover")
    page.choose("pane", "")
    for k in (128, 129, 130):  # each before what the one before asked for has come
        to_budget(page, k)
        page.page.evaluate("() => new Promise(done => setTimeout(done, 30))")
    words = page.find("#stage figure:not([hidden]) figcaption")
    for slot, label, place in (("A", "A SPARE", 1), ("B", "B CDPruner", 2)):
        features = visit.exploration.view.tokens.features
        left = measures.leftover_share(features, visit.exploration.picks[slot].order[:130])
        expect(words.nth(place)).to_have_text(leftover_map(visit.canvas, left, label, 130).sentence)


def test_a_patch_under_the_pointer_is_explained_by_the_server(page, visit: Visit) -> None:
    to_budget(page, 64)
    page.layer("difference")
    kept = set(visit.exploration.picks["A"].order[:64].tolist())
    for token in (next(iter(kept)), next(i for i in range(900, 2880) if i not in kept)):
        page.point(token)
        reason = why(visit.exploration, "A", token, 64)
        column = page.find(".reason.a")
        told = f"pick {reason.rank} of" if reason.rank else "Not kept:"
        expect(column).to_contain_text(told)
        expect(column.locator(".factors td:last-child")).to_have_count(4)
        numbers = column.locator(".factors td:last-child").all_inner_texts()
        assert float(numbers[1]) == pytest.approx(reason.factors.magnitude, rel=0.02)


def test_a_lost_patch_of_a_few_views_is_weighed_in_its_own_view(
    tiny_next, newcomer: browsing.Visitor, unused_port: int
) -> None:
    settings = Settings(port=unused_port, budget=20, max_new_tokens=2)
    first = examples.load_examples(tiny_next.name)[0]
    with serving(tiny_next, settings) as served:
        page = newcomer.open(served.url)
        request = page_request(first.path, first.question, aspect=tiny_next.aspect(None))
        explored = Guide(tiny_next, settings).look(request).exploration
        to_budget(page, 20)
        page.layer("difference")
        kept = set(explored.picks["A"].order[:20].tolist())
        lost = next(i for i in range(16) if i not in kept)
        page.point(lost)
        factors = why(explored, "A", lost, 20).factors
        assert factors is not None
        row = page.find(".reason.a .factors td:last-child")
        expect(row).to_have_count(4)
        numbers = [float(text) for text in row.all_inner_texts()]
        exact = [factors.novelty, factors.magnitude, factors.text, factors.value]
        assert numbers == pytest.approx(exact, rel=0.02, abs=2e-3)


def test_an_own_set_of_many_is_asked_with(page, visit: Visit) -> None:
    to_budget(page, 64)
    page.layer("own")
    page.find("[data-start=neither]").click()
    chosen = visit.exploration.selections(64)
    count = 2880 - len(set(chosen["A"].kept.tolist()) | set(chosen["B"].kept.tolist()))
    expect(page.find(".edit .count")).to_have_text(re.compile(rf"^{count} tokens of 2880"))
    page.find(".again").click()
    expect(page.find("#own-answer h3")).to_have_text(f"Your set · {count}")
    expect(page.find("#own-answer")).to_contain_text("KL of the first word")


def test_a_story_that_needs_the_features_names_a_model_that_tells_it(page) -> None:
    page.find(".stories summary").click()
    page.find("[data-story=diversity]").click()
    text = page.find(".story-card .text")
    expect(text).to_contain_text("Here they are too large for it")
    expect(text).to_contain_text("Try the built-in model")
    page.find(".story-card .close").click()
