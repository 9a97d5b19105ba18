"""A saved page in headless Chromium, from the disk and without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import browsing
import numpy as np
import pytest

from spare_demo import compare

expect = browsing.expect

pytestmark = browsing.MARKS

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def saved(served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the app opens on, saved from Python."""
    first = served.first
    result = compare(served.model, first.path, first.question, max_new_tokens=12)
    path = tmp_path_factory.mktemp("saved") / "page.html"
    result.html(path)
    return path


@pytest.fixture
def open_page(browser) -> Iterator[Open]:
    """Opens a file. Of every test: nothing broke, nothing but the file was asked for."""
    contexts, errors, requests = [], [], []

    def open_file(path: Path, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        contexts.append(context)
        context.route(lambda url: not url.startswith("file:"), lambda route: route.abort())
        page = context.new_page()
        page.set_default_timeout(browsing.PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        visitor = browsing.Visitor(page)
        # Nothing here may wait by `wait_for_function`: the page forbids the `eval` in it.
        expect(visitor.caption).not_to_be_empty()
        return visitor

    yield open_file
    for context in contexts:
        context.close()
    assert errors == [] and len(requests) == len(contexts)


def point(page: Any) -> None:
    """Points at the second patch of the second row, and waits for its reasons."""
    box = page.find("canvas.over").first.bounding_box()
    step = box["width"] / 24
    page.find("canvas.over").first.hover(position={"x": 1.5 * step, "y": 1.5 * step})
    expect(page.find("#reason .where")).to_contain_text("row 2, column 2 (index 25)")
    expect(page.find("#reason .factors")).to_have_count(2)


def test_every_patch_is_that_of_the_app(reader, saved: Path, open_page: Open) -> None:
    page = open_page(saved)
    for budget in (64, 7, 200):
        for each in (reader, page):
            each.page.evaluate("k => SPARE.setBudget(k)", budget)
            expect(each.caption).to_contain_text(f"of their {budget} tokens")
        for layer in ("order", "relevance", "leftover", "A", "B", "difference"):
            reader.layer(layer)
            page.layer(layer)
            expect(page.caption).to_have_text(reader.sentence(), use_inner_text=True)
            assert np.array_equal(page.picture(), reader.picture()), (budget, layer)


def test_the_button_saves_what_the_app_shows(
    reader, open_page: Open, tmp_path: Path
) -> None:  # fmt: skip
    reader.unfold("keep")
    with reader.page.expect_download() as download:
        reader.find(".cite .page").click()
    assert download.value.suggested_filename == "spare-comparison.html"
    download.value.save_as(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_000_000
    expect(reader.find(".cite .page")).to_have_text("Save as page")
    page = open_page(tmp_path / "page.html")
    assert np.array_equal(page.picture(), reader.picture())
    for part in (".answer-text", "h3", ".first-words .words"):
        texts = reader.find(f"#answers {part}").all_text_contents()
        assert all(texts) and page.find(f"#answers {part}").all_text_contents() == texts


def test_slider_scrubber_and_why_work_alone(saved: Path, open_page: Open) -> None:
    page = open_page(saved)
    slider, number = page.find("#tokens"), page.find("#budget input[type=number]")
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    expect(number).to_have_value("65")
    expect(page.caption).to_contain_text("of their 65 tokens")
    expect(page.find(".stale-note")).to_have_text(
        "Answers are for budget 64. The picture shows 65."
    )
    page.find(".back").click()
    expect(page.find(".stale-note")).to_be_hidden()
    number.fill("100")
    expect(slider).to_have_value("100")
    number.fill("0")
    expect(page.find("#budget-message")).to_contain_text("from 1 to 576")
    number.fill("570")
    page.find(".play").click()
    expect(slider).to_have_value("576")
    number.fill("1")
    point(page)
    expect(page.find(".reason.a .verdict")).to_contain_text("Not kept: its")
    number.fill("64")
    point(page)
    assert page.find(".layers input[value=own]").count() == 0
    page.layer("relevance")
    expect(page.find(".words-of")).to_be_hidden()


def test_the_slider_is_all_the_browser_s_own(saved: Path) -> None:
    # Firefox draws no track to a thumb of ours; in the app Gradio draws one.
    thumbs = [line for line in saved.read_text().splitlines() if "-moz-range-thumb" in line]
    assert thumbs and all(".slider_input_container input" in line for line in thumbs)


def test_answers_are_called_old_beside_a_budget_the_browser_put_back(saved: Path, browser) -> None:
    page = browser.new_page()
    page.goto(saved.as_uri())
    page.locator("#tokens").fill("200")
    expect(page.locator(".stale-note")).to_contain_text("The picture shows 200")
    visitor = browsing.Visitor(page)
    visitor.layer("order", of="B")
    expect(visitor.caption).to_contain_text("B CDPruner picked 200 of 576 tokens")
    page.goto("about:blank")
    page.go_back()
    expect(page.locator("#tokens")).to_have_value("200")
    expect(page.locator(".stale-note")).to_contain_text("The picture shows 200")
    # So are the layer and the picture.
    expect(page.locator(".viewer input[value=order]")).to_be_checked()
    expect(visitor.caption).to_contain_text("B CDPruner picked 200 of 576 tokens")
    page.close()


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (1440, "light"),
        (390, "dark"),
        pytest.param(1440, "dark", marks=pytest.mark.long),
        pytest.param(390, "light", marks=pytest.mark.long),
    ],
)
def test_axe_passes_a_saved_page(saved: Path, open_page: Open, theme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is missing")
    size = {"width": width, "height": 844}
    page = open_page(saved, viewport=size, color_scheme=theme, reduced_motion="reduce")
    page.page.evaluate(files(axe.__name__).joinpath("axe.min.js").read_text())
    point(page)
    page.find("#budget input[type=number]").fill("100")  # the answers are of another budget
    expect(page.find(".stale-note")).to_be_visible()
    for layer in ("difference", "order", "relevance", "all"):
        page.layer(layer)
        violations = page.page.evaluate("axe.run(document)")["violations"]
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in violations] == []
        assert page.wide() == (width, width)


def test_a_method_that_is_not_nested_says_what_the_page_has(
    served, open_page: Open, tmp_path: Path
) -> None:
    first = served.first
    names = ("uniform", "fastv")
    result = compare(served.model, first.path, first.question, names, 300, max_new_tokens=3)
    result.html(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    page.layer("difference")
    assert "A Uniform grid keeps" in page.sentence() and "In layer" in page.sentence()
    page.page.evaluate("SPARE.setBudget(301)")
    for layer, words in (("A", "This page has its picks at 300 only."), ("B", "of 300 only.")):
        page.layer(layer)
        assert page.sentence().endswith(words)


def test_merged_parts_that_were_too_many_to_save_are_looked_for_nowhere(
    served, open_page: Open, tmp_path: Path
) -> None:
    first = served.first
    result = compare(served.model, first.path, first.question, ("visionzip", "spare"), 64, 3)
    result.html(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    page.page.evaluate("SPARE.state.data.slots.A.mixtures.clear()")  # as of too many
    page.find("canvas.over").first.hover(position={"x": 20, "y": 20})
    expect(page.find("#reason .reason.a")).to_contain_text(
        "does not hold which patches were merged"
    )


def test_a_notebook_frame_shows_it(saved: Path, served, browser) -> None:
    first = served.first
    result = compare(served.model, first.path, first.question, max_new_tokens=3)
    page = browser.new_page()
    page.set_content(f"<main>{result._repr_html_()}</main>")
    frame = page.frame_locator("iframe")
    expect(frame.locator("#stage .caption")).to_contain_text("of their 64 tokens")
    page.close()
