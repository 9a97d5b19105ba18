"""Fixtures for the tests of the page: what its steps are given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pages import Page, serving
from PIL import Image, ImageDraw
from ports import free_port
from programs import Program, Start
from visits import QUESTION, answered, controls, merged, page_request

from spare_demo.models import LlavaModel, load_model
from spare_demo.models.generate.cache import CACHE
from spare_demo.settings import Settings
from spare_demo.ui import errors, examples
from spare_demo.ui.guide import Guide
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.steps import PageChanges
from spare_demo.ui.visit import Visit


class Passes(list[str]):
    """One entry per pass of the vision tower ("look") and of the language model ("answer")."""

    def looks(self) -> int:
        return self.count("look")

    def answers(self) -> int:
        return self.count("answer")


@pytest.fixture(autouse=True)
def nothing_logged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was logged in one test is not only counted in the next."""
    monkeypatch.setattr(errors, "_counter", errors.Counter(errors.QUIET_SECONDS))


@pytest.fixture
def passes(tiny_model: LlavaModel) -> Iterator[Passes]:
    """Counts what the tiny model really runs: the tower, and every prefill of an answer."""
    counted = Passes()

    def prefilled(module: object, args: object, given: dict) -> None:
        if given[CACHE].get_seq_length() == 0:
            counted.append("answer")

    inside = tiny_model.hf.model
    handles = [
        inside.vision_tower.register_forward_hook(lambda *_: counted.append("look")),
        inside.language_model.register_forward_pre_hook(prefilled, with_kwargs=True),
    ]
    yield counted
    for handle in handles:
        handle.remove()


@pytest.fixture(scope="session")
def small_settings() -> Settings:
    """Limits that a test can reach."""
    return Settings(
        budget=5,
        marks=(2, 8),
        max_new_tokens=3,
        max_question_characters=300,
        max_pixels=300_000,
        max_upload_bytes=200_000,
    )


@pytest.fixture
def guide(tiny_model: LlavaModel, small_settings: Settings) -> Guide:
    return Guide(tiny_model, small_settings)


@pytest.fixture
def handlers(tiny_model: LlavaModel, small_settings: Settings) -> Handlers:
    return Handlers(tiny_model, small_settings)


@pytest.fixture(scope="session")
def shown(
    tiny_model: LlavaModel,
    small_settings: Settings,
    photo: Image.Image,
    tmp_path_factory: pytest.TempPathFactory,
) -> PageChanges:
    """All that one question changes on the page. It is asked once, and no test changes it."""
    path = tmp_path_factory.mktemp("asked") / "photo.png"
    photo.save(path)
    return merged(Handlers(tiny_model, small_settings).ask(**controls(str(path), QUESTION)))


@pytest.fixture
def finished(shown: PageChanges) -> Visit:
    """The comparison at budget 5 that came of that question."""
    return shown["visit"]


@pytest.fixture
def visit(guide: Guide, photo_file: str) -> Visit:
    """A finished comparison of SPARE and CDPruner at budget 5."""
    return answered(guide, guide.look(page_request(photo_file, "What is it?")))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for Gradio's files: a page that another model's follows sweeps all that lies in it,
    that of pages which other tests serve too."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))


@pytest.fixture
def unused_port() -> int:
    return free_port()


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def start(unused_port: int, tmp_path: Path, temporary: Path) -> Iterator[Start]:
    started: list[Program] = []

    def start(*before: str) -> Program:
        output = tmp_path / f"output-{len(started)}.txt"
        started.append(Program(unused_port, temporary, output, before))
        return started[-1]

    yield start
    for program in started:
        program.process.kill()
        program.process.wait()


@pytest.fixture(scope="session")
def served() -> Iterator[Page]:
    """The real page with the built-in model, on a free port; launched once for all tests."""

    def first_example(model: str, offered: Any, settings: Settings) -> examples.Opening:
        return examples.Opening(offered[0], offered[0].question, settings.budget)

    settings = Settings(model="built-in", device="cpu", port=free_port(), max_new_tokens=12)
    model = load_model(settings.model, settings.device)
    with ExitStack() as stack:
        # The tests know the first example at 64 tokens; what it opens on by default has tests of
        # its own, in test_opening.py.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(examples, "choose_opening", first_example)
            page = stack.enter_context(serving(model, settings))
        # On a busy machine the small model takes longer than a slider's answers may.
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("spare_demo.ui.handlers.QUICK", 20.0)
        yield page


@pytest.fixture(scope="session")
def serve_public(tiny_model: LlavaModel) -> Iterator[Callable[..., Page]]:
    """Serves the app as strangers reach it: a tiny model on a page that was started with --public.

    With settings of their own; all pages are closed after the last test.
    """
    with ExitStack() as stack:

        def serve(**changes: Any) -> Page:
            usual = {"public": True, "budget": 5, "max_new_tokens": 2, "max_upload_bytes": 300_000}
            settings = Settings(device="cpu", port=free_port(), **usual | changes)  # type: ignore[arg-type]
            return stack.enter_context(serving(tiny_model, settings))

        yield serve


@pytest.fixture(scope="session")
def public(serve_public: Callable[..., Page]) -> Page:
    return serve_public()


@pytest.fixture(scope="session")
def lacking(tiny_qwen: Any) -> Iterator[str]:
    """The page of a model without class token and without CLIP's text side."""
    settings = Settings(device="cpu", port=free_port(), budget=8, max_new_tokens=2)
    with serving(tiny_qwen, settings) as page:
        yield page.url


@dataclass(frozen=True)
class HeldModel:
    """An operation that begins and does not end before it is told to go on."""

    begun: threading.Event
    goes_on: threading.Event


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Page], HeldModel]]:
    """Holds the model's turn on a page: `select` there waits for `goes_on`, or the test's end."""
    held = HeldModel(threading.Event(), threading.Event())

    def hold(page: Page) -> HeldModel:
        (event,) = (event for event in page.demo.fns.values() if event.api_name == "select")
        operation = event.fn

        def wait(*inputs: Any) -> Any:
            held.begun.set()
            assert held.goes_on.wait(120)
            return operation(*inputs)

        monkeypatch.setattr(event, "fn", wait)
        return held

    yield hold
    held.goes_on.set()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests of a worker; it leaves an event loop running in this thread."""
    from browsing import CHROMIUM, FLAGS, sync_api

    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def opened(served: Page) -> Visit:
    """The comparison that the page of `served` opens on, worked out once more."""
    return served.look()


@pytest.fixture
def open_window(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a window of its own, with options of Playwright's `new_context`."""
    from browsing import Visitor

    contexts = []

    def open_window(url: str, **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        return Visitor(contexts[-1].new_page()).open(url)

    yield open_window
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def usual_context(browser: Any) -> Any:
    """A wide window whose pages share the browser's cache: Gradio's page is a hundred files.

    The page itself leaves nothing in it but what a tab forgets when it is closed. An empty tab
    keeps the window: with every new one Chromium loads pages of its own, for its address bar.
    """
    from browsing import WINDOW

    context = browser.new_context(viewport=WINDOW)
    context.new_page()
    return context


@pytest.fixture
def newcomer(usual_context: Any) -> Iterator[Any]:
    """A visitor who has not opened a page yet. Nothing may break, no request leave the machine."""
    from browsing import Visitor

    others = usual_context.pages
    visitor = Visitor(usual_context.new_page())
    yield visitor
    visitor.check()
    _close_all_but(others, usual_context)
    usual_context.clear_permissions()


def _close_all_but(pages: list[Any], context: Any) -> None:
    """Closes what a test opened: a page behind another one draws a frame a second."""
    for page in context.pages:
        if page not in pages:
            page.close()


@pytest.fixture
def visitor(newcomer: Any, served: Page) -> Any:
    """The same visitor on the opened page, which is the test's own."""
    return newcomer.open(served.url)


@pytest.fixture(scope="session")
def shared_pages() -> list[Any]:
    """At most one page, and its state when it was opened."""
    return []


@pytest.fixture
def reader(usual_context: Any, served: Page, shared_pages: list[Any]) -> Iterator[Any]:
    """A visitor on a page that a worker opens once.

    Each test must leave it as it was opened, but for what `put_back` sets: choosing the first
    example again brings its comparison back. After one that does not, the next opens another page.
    """
    from browsing import Visitor

    if not shared_pages:
        visitor = Visitor(usual_context.new_page()).open(served.url)
        visitor.expect_answers(576, 64, 64)  # a slow machine opens the page before they are there
        shared_pages.append((visitor, visitor.state()))
    visitor, state = shared_pages.pop()
    others = usual_context.pages
    yield visitor
    _close_all_but(others, usual_context)
    try:
        visitor.check()
        visitor.put_back(state)
        assert visitor.state() == state
    except BaseException:
        visitor.page.close()
        raise
    shared_pages.append((visitor, state))


@pytest.fixture
def wide_picture(tmp_path: Path) -> Path:
    picture = Image.new("RGB", (640, 160), "khaki")
    ImageDraw.Draw(picture).rectangle((40, 40, 120, 120), fill="navy")
    picture.save(tmp_path / "wide.png")
    return tmp_path / "wide.png"
