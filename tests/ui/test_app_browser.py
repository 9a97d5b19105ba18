"""The real app in headless Chromium: what a visitor does and sees."""

from __future__ import annotations

import base64
import io
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image, ImageDraw

from spare_demo.pruners import PRUNERS

CHROMIUM = Path("/usr/bin/chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not CHROMIUM.exists(),
        reason=f"no browser at {CHROMIUM}; install Debian's package chromium",
    ),
]

PATIENCE = 60_000  # milliseconds; a busy machine is no failure


@dataclass
class Visitor:
    """A browser tab on the app, with what it complained of and whom it called."""

    page: sync_api.Page
    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def find(self, selector: str) -> sync_api.Locator:
        return self.page.locator(selector)

    def open(self, url: str) -> Visitor:
        self.page.goto(url)
        expect(self.find("#stage img")).to_have_count(4)
        # The last thing to come; from then on the page listens.
        expect(self.find("#examples button").first).to_have_attribute("aria-label", re.compile("."))
        return self

    def upload(self, path: Path) -> None:
        clear = self.page.get_by_label("Remove Image")
        if clear.count():
            clear.click()
        self.find("#picture input[type=file]").set_input_files(path)
        expect(self.find("#picture .image-frame img")).to_be_visible()

    def ask(self, question: str) -> None:
        self.find("#question textarea").fill(question)
        self.find("#ask").click()

    def pictures(self) -> list[Image.Image]:
        sources = self.find("#stage img").evaluate_all("all => all.map(img => img.src)")
        data = [base64.b64decode(source.split(",", 1)[1]) for source in sources]
        return [Image.open(io.BytesIO(png)) for png in data]

    def expect_answers(self, *budgets: int) -> None:
        """Three finished answers, with these numbers of tokens."""
        heads = self.find("#answers h3")
        expect(heads).to_have_text([re.compile(rf"\b{k}\b") for k in budgets])
        expect(self.find("#answers .figures")).to_have_text([re.compile("^prefill")] * 3)
        expect(self.find("#ask")).to_be_visible()

    def wide(self) -> tuple[int, int]:
        return tuple(self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]"))


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@pytest.fixture
def visitor(browser, served) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    sync_api.expect.set_options(timeout=PATIENCE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    visitor = Visitor(page)
    page.on("pageerror", lambda error: visitor.errors.append(str(error)))
    page.on(
        "console",
        lambda said: visitor.errors.append(said.text) if said.type == "error" else None,
    )
    page.on("request", lambda request: visitor.hosts.add(urlsplit(request.url).netloc))
    yield visitor.open(served.url)
    context.close()
    # Of every test: nothing broke on the page, and no request left the machine.
    assert visitor.errors == []
    assert visitor.hosts - {""} == {urlsplit(served.url).netloc}  # "" is data: and blob:


@pytest.fixture
def wide_picture(tmp_path: Path) -> Path:
    picture = Image.new("RGB", (640, 160), "khaki")
    ImageDraw.Draw(picture).rectangle((40, 40, 120, 120), fill="navy")
    picture.save(tmp_path / "wide.png")
    return tmp_path / "wide.png"


def test_it_opens_on_a_finished_comparison(visitor) -> None:
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#cost tbody tr")).to_have_count(3)
    expect(visitor.find("#curve .js-plotly-plot .main-svg").first).to_be_visible()
    expect(visitor.find("#truth")).to_contain_text("True answer")
    assert len({picture.tobytes() for picture in visitor.pictures()}) == 4
    assert visitor.find("#stop").count() == 0 or not visitor.find("#stop").is_visible()


def test_upload_a_wide_picture_and_ask(visitor, wide_picture: Path) -> None:
    visitor.upload(wide_picture)
    visitor.ask("Where is the <b>square</b>?")
    expect(visitor.find("#stage figcaption").nth(2)).to_contain_text("lie in padding")
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#truth p")).to_have_count(0)
    expect(visitor.find("#message p")).to_have_count(0)
    expect(visitor.find("#answered")).to_contain_text("knows nothing about photos")
    expect(visitor.find("#question textarea")).to_have_value("Where is the <b>square</b>?")


def test_enter_asks(visitor) -> None:
    visitor.find("#question textarea").fill("How many arrows are there?")
    before = visitor.find("#stage").inner_html()
    visitor.find("#question textarea").press("Enter")
    expect(visitor.find("#truth p")).to_have_count(0)
    visitor.expect_answers(576, 64, 64)
    assert visitor.find("#stage").inner_html() != before


def test_the_slider_moves_pictures_captions_and_answers(visitor) -> None:
    before = [picture.tobytes() for picture in visitor.pictures()]
    slider = visitor.find("#budget input[type=range]")
    slider.focus()
    for _ in range(3):
        slider.press("ArrowRight")
    expect(visitor.find("#stage figcaption").nth(2)).to_contain_text("kept 67 of 576")
    visitor.expect_answers(576, 67, 67)
    expect(visitor.find("#answers")).not_to_contain_text("Answers are for budget")
    after = [picture.tobytes() for picture in visitor.pictures()]
    assert [a != b for a, b in zip(before, after, strict=True)] == [False, True, True, True]


def test_answers_say_for_which_budget_they_are_until_asked_again(visitor) -> None:
    number = visitor.find("#budget input[type=number]")
    number.fill("100")  # typed, not yet left: nobody has said that this is the number meant
    expect(visitor.find("#stage figcaption").nth(2)).to_contain_text("kept 100 of 576")
    expect(visitor.find("#answers")).to_contain_text("Answers are for budget 64.")
    expect(visitor.find("#answers h3").nth(1)).to_contain_text("64")
    number.press("Tab")
    visitor.expect_answers(576, 100, 100)


def test_a_mark_sets_its_budget(visitor) -> None:
    visitor.find("#marks").get_by_role("button", name="32", exact=True).click()
    expect(visitor.find("#budget input[type=range]")).to_have_value("32")
    expect(visitor.find("#stage figcaption").nth(2)).to_contain_text("kept 32 of 576")
    visitor.expect_answers(576, 32, 32)


def test_an_impossible_budget_is_a_sentence_until_it_is_mended(visitor) -> None:
    number = visitor.find("#budget input[type=number]")
    number.fill("9999")
    expect(visitor.find("#budget-message")).to_contain_text("from 1 to 576")
    number.fill("20")
    expect(visitor.find("#budget-message p")).to_have_count(0)
    expect(visitor.find("#stage figcaption").nth(2)).to_contain_text("kept 20 of 576")


def test_another_method_in_b(visitor) -> None:
    visitor.find("#method-b input").click()
    visitor.page.get_by_role("option", name=PRUNERS["uniform"].title, exact=True).click()
    expect(visitor.find("#answers h3").nth(2)).to_contain_text(PRUNERS["uniform"].title)
    expect(visitor.find("#stage figcaption").nth(3)).to_contain_text(PRUNERS["uniform"].title)
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#cost tbody tr").nth(2)).to_contain_text(PRUNERS["uniform"].title)


def test_each_layer_shows_its_picture(visitor) -> None:
    layers = visitor.find("#layers").get_by_role("radio")
    names = layers.evaluate_all("all => all.map(radio => radio.value)")
    seen = set()
    for name in names[1:]:
        visitor.find("#layers label").filter(has_text=re.compile(f"^\\s*{name}\\s*$")).click()
        expect(visitor.find("#stage img")).to_have_count(1)
        expect(visitor.find("#stage img")).not_to_have_attribute("alt", "|".join(seen) or "-")
        visitor.page.wait_for_function(
            "seen => !seen.includes(document.querySelector('#stage img').src)",
            arg=sorted(seen),
        )
        seen.add(visitor.find("#stage img").get_attribute("src"))
    assert len(seen) == 6


def test_a_new_scene_comes_with_question_and_true_answer(visitor) -> None:
    first = visitor.find("#stage img").first.get_attribute("src")
    visitor.find("#scene").click()
    expect(visitor.find("#stage img").first).not_to_have_attribute("src", first)
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#truth")).to_be_visible()
    visitor.find("#question textarea").fill("What else is there?")
    expect(visitor.find("#truth p")).not_to_be_visible()
    visitor.find("#ask").click()
    expect(visitor.find("#truth p")).to_have_count(0)


def test_an_example_is_loaded_and_asked(visitor) -> None:
    example = visitor.find("#examples button").nth(1)
    question = example.get_attribute("title")
    assert example.get_attribute("aria-label") == f"Example: {question}"
    example.click()
    expect(visitor.find("#question textarea")).to_have_value(question)
    visitor.expect_answers(576, 64, 64)
    expect(visitor.find("#truth")).to_contain_text("True answer")


def test_old_results_dim_until_the_new_question_is_looked_at(visitor) -> None:
    body = visitor.find("body")
    visitor.find("#question textarea").fill("What is new?")
    expect(body).to_have_class(re.compile("asked-anew"))
    visitor.find("#ask").click()
    expect(body).not_to_have_class(re.compile("asked-anew"))


def test_an_error_leaves_everything_but_says_what_to_do(visitor) -> None:
    # Not the part itself: Gradio gives it another id at each change of anything.
    stage, answers = (visitor.find(part) for part in ("#stage .overview", "#answers .answers"))
    before = stage.inner_html(), answers.inner_html()
    visitor.page.get_by_label("Remove Image").click()
    visitor.ask("Is anything there?")
    expect(visitor.find("#message")).to_contain_text("There is no picture yet.")
    expect(visitor.find("#ask")).to_be_visible()
    expect(visitor.find("#question textarea")).to_have_value("Is anything there?")
    assert (stage.inner_html(), answers.inner_html()) == before
    # They are of another question, and look it.
    expect(visitor.find("body")).to_have_class(re.compile("asked-anew"))
    visitor.find("#examples button").first.click()
    expect(visitor.find("#message p")).to_have_count(0)


def endless(*args: object, **kwargs: object) -> Iterator[str]:
    """An answer that no visitor would wait for."""
    for turn in range(2000):
        yield f"word{turn} "
        time.sleep(0.02)


def test_who_waits_is_told_their_place(visitor, served, monkeypatch) -> None:
    real = served.model.stream
    monkeypatch.setattr(served.model, "stream", endless)
    visitor.ask("Will this ever end?")
    expect(visitor.find("#answers .said").first).to_contain_text("word3")
    second = Visitor(visitor.page.context.new_page()).open(served.url)
    second.ask("And I?")
    expect(second.find("#looked")).to_contain_text("queue: 1/1")
    monkeypatch.setattr(served.model, "stream", real)
    visitor.find("#stop").click()
    second.expect_answers(576, 64, 64)
    expect(second.find("#looked")).not_to_contain_text("queue")


def test_stop_gives_ask_back_and_keeps_the_words(visitor, served, monkeypatch) -> None:
    real = served.model.stream
    monkeypatch.setattr(served.model, "stream", endless)
    visitor.ask("Will this ever end?")
    expect(visitor.find("#answers .said").first).to_contain_text("word3")
    visitor.find("#stop").click()
    expect(visitor.find("#ask")).to_be_visible()
    expect(visitor.find("#answers .figures")).to_have_text(["stopped", "not asked", "not asked"])
    expect(visitor.find("#answers .said").first).to_contain_text("word3")
    monkeypatch.setattr(served.model, "stream", real)
    visitor.find("#ask").click()
    visitor.expect_answers(576, 64, 64)


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_nothing_scrolls_sideways(visitor, wide_picture: Path, width: int) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 844})
    assert visitor.wide() == (width, width)
    visitor.upload(wide_picture)
    visitor.ask("What-a-word-without-any-place-to-break-it" * 5)
    visitor.expect_answers(576, 64, 64)
    assert visitor.wide() == (width, width)
    box = visitor.find("#stage").bounding_box()
    assert box and box["width"] >= 320


def test_on_a_phone_the_visit_reads_from_top_to_bottom(visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    parts = ["#picture", "#question", "#ask", "#stage", "#budget", "#answers", "#method-a", "#why"]
    tops = [visitor.find(part).bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)


def test_every_picture_on_the_stage_has_a_sentence(visitor) -> None:
    alts = visitor.find("#stage img").evaluate_all("all => all.map(img => img.alt)")
    captions = visitor.find("#stage figcaption").all_inner_texts()
    assert len(set(alts)) == 4
    for alt, caption in zip(alts, captions, strict=True):
        assert alt in caption


def test_the_keyboard_reaches_what_matters_and_shows_where_it_is(visitor) -> None:
    wanted = {"#ask", "#budget input[type=range]", "#layers input", "#marks button", "#scene"}
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
    visitor.page.locator("body").press("Tab")
    for _ in range(60):
        hit = visitor.page.evaluate(where, sorted(wanted))
        if hit:
            reached[hit[0]] = hit[1]
        visitor.page.keyboard.press("Tab")
    assert reached == dict.fromkeys(wanted, True)
