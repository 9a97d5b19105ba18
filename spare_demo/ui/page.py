"""The page: which event calls which handler, and what it is launched with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.models import LlavaModel
from spare_demo.settings import Settings
from spare_demo.ui.handlers import Handlers, Shown
from spare_demo.ui.layout import Parts, lay_out, photo_input
from spare_demo.ui.stage import OVERVIEW

_CSS = Path(__file__).with_name("style.css")

# Results of another picture or question dim until they are asked for; this needs no round trip.
_STALE = "() => { document.body.classList.add('asked-anew') }"
_FRESH = "() => { document.body.classList.remove('asked-anew') }"

_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# One turn at the model for whatever makes it answer; the rest queue and see their place.
_ANSWERING: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": 1}


def build(model: LlavaModel, settings: Settings) -> gr.Blocks:
    """The page for a loaded model. It opens on a finished comparison, made here and now."""
    handlers = Handlers(model, settings)
    names = (settings.methods[0], settings.methods[-1])
    shown = _opening(handlers, names)

    with gr.Blocks(
        title="SPARE demo", analytics_enabled=False, fill_width=True, delete_cache=(3600, 7200)
    ) as demo:
        parts = lay_out(model, settings, handlers.tokens, names, handlers.offered, shown)
        _wire(parts, handlers)
        _offer_compare(handlers)
    return demo.queue(max_size=settings.queue_size)


def _opening(handlers: Handlers, names: tuple[str, str]) -> Shown:
    """The finished comparison that the page opens on: its first example, asked like any other."""
    first, settings = handlers.offered[0], handlers.settings
    budget = min(settings.budget, handlers.tokens)
    shown: Shown = {}
    for values in handlers.ask(
        first.path, first.question, *names, settings.seed, "pad", -2, "stretches",
        budget, OVERVIEW, None, None,
    ):  # fmt: skip
        shown |= values
    return shown


def launch_options(settings: Settings) -> dict[str, Any]:
    """What `gr.Blocks.launch` gets: looks, address, limits."""
    return {
        "theme": gr.themes.Default(
            primary_hue="slate", neutral_hue="slate", font=["system-ui", "sans-serif"]
        ),
        "css_paths": [_CSS],
        "server_name": settings.host,
        "server_port": settings.port,
        "share": settings.share,
        "max_file_size": settings.max_upload_bytes,
        "show_error": False,  # no traceback; sentences raised as gr.Error are still shown
        "enable_monitoring": False,
        "run_history": False,
        "footer_links": ["api"],
        "quiet": True,
    }


def _wire(parts: Parts, handlers: Handlers) -> None:
    changed = (
        *("visit", "message", "notes", "truth", "stage", "answers", "cost"),
        *("curve", "curve_words"),
    )
    outputs = [getattr(parts, name) for name in changed]

    def put(values: Shown) -> dict:
        return {getattr(parts, name): value for name, value in values.items()}

    def once(handler: Callable[..., Shown]) -> Callable:
        return lambda *inputs: put(handler(*inputs))

    def stream(handler: Callable) -> Callable:
        def run(*inputs: Any) -> Iterator[dict]:
            for values in handler(*inputs):
                yield put(values)

        return run

    buttons = [parts.ask, parts.stop]
    visible = lambda ask: lambda: (gr.update(visible=ask), gr.update(visible=not ask))  # noqa: E731
    running = []

    def answering(event: Any, handler: Callable, inputs: list, js: str | None = None) -> None:
        """After the event: Ask becomes Stop, the handler streams, Stop becomes Ask."""
        begun = event(visible(False), None, buttons, js=js, queue=False, **_QUIET)
        run = begun.then(stream(handler), inputs, outputs, **_ANSWERING, **_QUIET)
        run.then(visible(True), None, buttons, queue=False, **_QUIET)
        running.append(run)

    p = parts
    asked = [p.image, p.question, p.method_a, p.method_b, p.seed, p.aspect, p.tower_layer, p.text]
    asked += [p.budget, p.layer, p.example, p.visit]
    again = [p.image, p.question, p.budget, p.example, p.visit]

    def load(index: int) -> tuple[str, str]:
        return handlers.offered[index].path, handlers.offered[index].question

    chosen = p.offered.click(load, p.offered, [p.image, p.question], **_QUIET)
    drawn = p.scene.click(handlers.new_scene, None, [p.image, p.question, p.example], **_QUIET)
    for event in (p.ask.click, p.question.submit, chosen.then, drawn.then):
        answering(event, handlers.ask, asked, _FRESH)
    for event in (p.aspect.input, p.tower_layer.input, p.text.input, p.seed.submit):
        answering(event, handlers.ask, asked)

    redrawn = [p.budget, p.layer, p.visit]
    moving: dict[str, Any] = {"trigger_mode": "always_last", "concurrency_limit": 4, **_QUIET}
    for event in (p.budget.input, p.layer.input):
        event(once(handlers.redraw), redrawn, outputs, **moving)
    answering(p.budget.release, handlers.answer_if_quick, again)
    for mark, button in p.marks:
        moved = button.click(lambda mark=mark: mark, None, p.budget, queue=False, **_QUIET)
        redraw = moved.then(once(handlers.redraw), redrawn, outputs, **moving)
        answering(redraw.then, handlers.answer_if_quick, again)

    others = [p.method_a, p.method_b, p.seed, p.budget, p.layer, p.visit]
    for event in (p.method_a.input, p.method_b.input):
        other = event(once(handlers.change_methods), others, outputs, **_QUIET)
        answering(other.then, handlers.answer_again, again)

    for event in (p.image.input, p.question.input):
        event(None, None, None, js=_STALE, **_QUIET)
    p.stop.click(visible(True), None, buttons, cancels=running, queue=False, **_QUIET)


def _offer_compare(handlers: Handlers) -> None:
    """The endpoint `/compare`, for programs; its inputs are nowhere on the page."""
    inputs = [
        photo_input(label="image", visible=False),
        gr.Textbox(label="question", visible=False),
        gr.Textbox("spare", label="method_a", visible=False),
        gr.Textbox("cdpruner", label="method_b", visible=False),
        gr.Number(64, label="budget", visible=False),
        gr.Number(0, label="seed", precision=0, visible=False),
    ]
    done = gr.JSON(label="comparison", visible=False)
    button = gr.Button(visible=False)
    button.click(handlers.compare, inputs, done, api_name="compare", **_ANSWERING)
