"""A visitor in headless Chromium, for the tests that drive the real page."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass, field
from pathlib import Path

import playwright.sync_api as sync_api
import pytest
from PIL import Image

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE = 120_000  # milliseconds; a busy machine is no failure
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not CHROMIUM.exists(),
        reason=f"no browser at {CHROMIUM}; install Debian's package chromium",
    ),
]

_OF_ONE = ("order", "weight", "leftover", "carrier")  # layers with a picture for each method
expect = sync_api.expect
expect.set_options(timeout=PATIENCE)


@dataclass
class Visitor:
    """A browser tab on the app, with what it complained of and whom it called."""

    page: sync_api.Page
    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def find(self, selector: str) -> sync_api.Locator:
        return self.page.locator(selector)

    def open(self, url: str) -> Visitor:
        """Opens the page, and waits until it listens."""
        self.page.goto(url)
        expect(self.caption).to_contain_text("tokens")
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

    @property
    def caption(self) -> sync_api.Locator:
        """The words below what the viewer shows."""
        return self.find("#stage :is(figcaption, .caption):visible").first

    def layer(self, name: str, of: str = "A") -> None:
        """Shows one picture of the viewer large and waits until it is painted.

        name: a layer; "A" or "B" for what that method kept; "all" for all three pictures.
        of: whose picture, of layers that have one for each method.
        """
        pane = {"A": "1", "B": "2"}[of] if name in _OF_ONE else "0"
        if name in ("A", "B", "all"):
            name, pane = "kept", {"A": "1", "B": "2", "all": ""}[name]
        self.choose("pane", pane)
        self.choose("layer", name)
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => "
                           "requestAnimationFrame(done)))")  # fmt: skip

    def choose(self, name: str, value: str) -> None:
        """One of the viewer's choices, wherever it is folded away."""
        self.find(f"#stage input[name={name}][value='{value}']").evaluate(
            "input => { input.checked = true;"
            " input.dispatchEvent(new Event('change', {bubbles: true})); }"
        )

    def picture(self, pane: int = 0) -> Image.Image:
        """What one of the pictures in sight shows, pixel by pixel."""
        canvas = self.find("#stage figure:not([hidden]) canvas[role=img]").nth(pane)
        data = canvas.evaluate("c => c.toDataURL()")
        return Image.open(io.BytesIO(base64.b64decode(data.split(",", 1)[1]))).convert("RGB")

    def unfold(self, name: str) -> sync_api.Locator:
        """Opens a part of the page that is folded away, by its id."""
        fold = self.find(f"#{name}")
        if not fold.locator("> .label-wrap.open").count():
            fold.locator("> .label-wrap").click()
        expect(fold.locator("> .label-wrap.open")).to_be_visible()
        return fold

    def curve(self) -> sync_api.Locator:
        """The plot of what is lost, drawn: it is loaded when it comes near."""
        self.unfold("lost").scroll_into_view_if_needed()
        expect(self.find("#curve .js-plotly-plot .main-svg").first).to_be_visible()
        return self.find("#curve")

    def sentence(self) -> str:
        self.page.wait_for_timeout(120)  # the words change at most ten times a second
        return self.caption.inner_text()

    def point(self, token: int) -> None:
        """Moves the pointer onto a patch."""
        where = """token => {
            const grid = SPARE.state.data.grid, over = document.querySelector(
                '#stage figure:not([hidden]) canvas.over');
            const box = over.getBoundingClientRect(), scale = box.width / grid.width;
            const {row, col} = SPARE.state.data.place(token);
            return [box.x + (grid.x + (col + .5) * grid.patch) * scale,
                    box.y + (grid.y + (row + .5) * grid.patch) * scale];
        }"""
        self.find("#stage canvas.over:visible").first.scroll_into_view_if_needed()
        self.page.mouse.move(*self.page.evaluate(where, token))
        self.page.wait_for_function("token => SPARE.state.cursor === token", arg=token)

    def expect_answers(self, *budgets: int) -> None:
        """Three finished answers, with these numbers of tokens."""
        heads = self.find("#answers h3")
        expect(self.find("#answers .card h3")).to_have_text(
            [re.compile(rf"\b{k}\b") for k in budgets]
        )
        expect(self.find("#answers .figures")).to_have_text([re.compile("prefill")] * 3)
        expect(heads.first).to_be_visible()
        expect(self.find("#ask")).to_be_visible()

    def wide(self) -> tuple[int, int]:
        return tuple(self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]"))
