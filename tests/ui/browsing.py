"""A visitor in headless Chromium, for the tests that drive the real page."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

try:
    import playwright.sync_api as sync_api
except ModuleNotFoundError:  # skips the file that imports this one
    pytest.skip("playwright is not installed", allow_module_level=True)

CHROMIUM = Path("/usr/bin/chromium")
FEATURES_OFF = (
    # Pages of Chromium's own for the list below its address bar, 400 files of JavaScript. Headless,
    # too, it loads them for every window: a quarter of the time that a page takes to open.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
    # What Playwright turns off by the flag that ours replaces, as far as it concerns one machine.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "PaintHolding"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "ThirdPartyStoragePartitioning", "MediaRouter"),
    *("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
FLAGS = ["--disable-dev-shm-usage", f"--disable-features={','.join(FEATURES_OFF)}"]
PATIENCE = 120_000  # milliseconds; a busy machine is no failure
WINDOW: sync_api.ViewportSize = {"width": 1440, "height": 900}
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not CHROMIUM.exists(), reason=f"no browser at {CHROMIUM}; install Debian's package chromium"
    ),
]

_OF_ONE = ("order", "weight", "leftover", "carrier")  # layers with a picture for each method
expect = sync_api.expect
expect.set_options(timeout=PATIENCE)


# What a visitor sees and has set, beside the patch that the words below the pictures explain.
_STATE = """() => [
    ...['#notice', '#asked', '#headline', '#stage', '#budget-message', '#answers', '#own-answer',
        '#enough', '#carrier', '.words-of', '#merged-drawn', '#second', '#kl', '#message p',
    ].map(part => (document.querySelector(part)?.innerText ?? '').trim()),
    ...['#question textarea', '#budget input[type=number]', '#method-a input', '#method-b input',
    ].map(part => document.querySelector(part)?.value),
    SPARE.state.k, SPARE.state.layer, SPARE.state.pane, SPARE.state.lit, document.body.className,
]"""


@dataclass
class Visitor:
    """A browser tab on the app, with what it complained of and what it asked for."""

    page: sync_api.Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._read)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _read(self, line: sync_api.ConsoleMessage) -> None:
        if line.type == "error":
            self.errors.append(f"{line.text} {line.location['url']}")

    def check(self) -> None:
        """Nothing broke so far, no event failed lately, and no request left the machine."""
        assert not self.errors, self.errors
        if not self.page.is_closed():
            failed = self.find(".toast-body.error").all_inner_texts()
            assert not failed, failed
        hosts = {urlsplit(url).netloc for url in self.requests}
        assert hosts - {""} == {urlsplit(self.page.url).netloc}  # "" is data: and blob:

    def forget_failures(self) -> None:
        """Clears what the browser and Gradio say of requests that a test lets fail."""
        self.errors.clear()
        for close in self.find(".toast-close").all():
            close.click()
        expect(self.find(".toast-body")).to_have_count(0)

    def state(self) -> list[Any]:
        """What the page shows and has set."""
        return self.page.evaluate(_STATE)  # type: ignore[no-any-return]

    def put_back(self, state: list[Any]) -> None:
        """The window, the folds, the layer, the budget, the marked patch, the methods and the
        first example as the page opens.

        state: of the page when it was opened; it is waited for, for some seconds.
        """
        self.page.unroute_all()
        self.page.set_viewport_size(WINDOW)
        self.page.emulate_media(media="screen", reduced_motion="no-preference")
        self.page.mouse.move(5, 5)
        self.page.evaluate("SPARE.emit('unlight')")
        self.choose("pane", "")
        self.choose("layer", "kept")
        self.page.evaluate("""() => {
            document.querySelectorAll('#tabs .label-wrap.open').forEach(title => title.click());
            SPARE.setBudget(64);
            document.activeElement.blur();
        }""")
        if self.state() != state:
            expect(self.page.get_by_role("option")).to_have_count(0)  # no menu is open any more
            for slot, title in {"a": "SPARE", "b": "CDPruner"}.items():
                if self.find(f"#method-{slot} input").input_value() != title:
                    self.choose_method(slot, title)
                    expect(self.caption).to_contain_text(title)
            self.find("#examples button").first.click()
        self.page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        for _ in range(50):
            if self.state() == state:
                break
            self.page.wait_for_timeout(100)

    def find(self, selector: str) -> sync_api.Locator:
        return self.page.locator(selector)

    def open(self, url: str) -> Visitor:
        """Opens the page, and waits until it listens."""
        self.page.goto(url)
        self.wait_until_it_listens()
        return self

    def wait_until_it_listens(self) -> None:
        expect(self.caption).to_contain_text("tokens")
        # The last thing to come.
        expect(self.find("#examples button").first).to_have_attribute("aria-label", re.compile("."))

    def upload(self, path: Path) -> None:
        clear = self.page.get_by_label("Remove Image")
        if clear.count():
            clear.click()
        self.find("#picture input[type=file]").set_input_files(path)
        expect(self.find("#picture .image-frame img")).to_be_visible()

    def ask(self, question: str) -> None:
        box = self.find("#question textarea")
        if box.input_value() == question:  # asked again sooner, it is taken for a double click
            self.page.wait_for_timeout(500)
        box.fill(question)
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

    def choose_method(self, slot: str, title: str) -> None:
        """Another method in A or B; slot: "a" or "b"."""
        self.find(f"#method-{slot} input").click()
        self.page.get_by_role("option", name=title, exact=True).click()

    def unfold(self, name: str) -> sync_api.Locator:
        """Opens a part of the page that is folded away, by its id."""
        fold = self.find(f"#{name}")
        if not fold.locator("> .label-wrap.open").count():
            fold.locator("> .label-wrap").click()
        expect(fold.locator("> .label-wrap.open")).to_be_visible()
        return fold

    def curve(self) -> sync_api.Locator:
        """The plot of what is lost, drawn: it is loaded when its part is opened."""
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


def apart(shown: Image.Image, reference: Image.Image) -> float:
    """Share of pixels more than three grey levels off."""
    gap = np.abs(np.asarray(shown, int) - np.asarray(reference, int)).max(axis=2)
    return float((gap > 3).mean())
