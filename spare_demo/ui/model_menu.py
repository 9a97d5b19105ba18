"""The folded menu of a private page that changes its model; a public page has none of it.

On a Space a line says which model is on its way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from spare_demo.analysis.cost import rough_seconds_text
from spare_demo.models import ModelError
from spare_demo.models.loading.catalogue import TINY_LLAVA
from spare_demo.models.loading.machine import Offer
from spare_demo.models.loading.memory import Room, size_words
from spare_demo.settings import BITS
from spare_demo.ui import panels
from spare_demo.ui.events import QUIET
from spare_demo.ui.model_switch import ModelSwitch

_PROGRESS = gr.Progress()
_BEGUN = "<p class='note'>Looking for the model …</p>"
_PAUSE = 0.2  # seconds between two reports of a download
_LOOK_EVERY = 0.5  # seconds, whether a loading has ended
_SHOW = "() => [{__type__: 'update', visible: true}]"
_HEAD = ("Model", "Fits?", "Download", "A question takes", "Vision side alone", "Its download")


def model_menu(demo: gr.Blocks, model_switch: ModelSwitch) -> Callable[[Any], None]:
    """Puts the menu where the page is being built. While a model loads, its progress is shown.

    Returns:
        what connects another part's event with loading TinyLLaVA, as the menu does it.
    """
    settings = model_switch.settings
    gr.HTML(elem_id="model-changed", elem_classes="message-place")
    with gr.Accordion("Another model", open=False, elem_id="another-model") as menu:
        with gr.Row():
            name = gr.Dropdown(
                model_switch.offered,
                value=settings.model,
                label="Model",
                info="The usual models, and any that the server was started with (`--models`).",
                scale=5,
                min_width=300,
                elem_id="model-name",
            )
            typed = gr.Textbox(
                label="Or type another one",
                info="A folder with a checkpoint, or a repository on the Hugging Face hub.",
                scale=3,
                elem_id="model-typed",
            )
            bits = gr.Radio(
                [("full" if b == 16 else f"{b} bits", b) for b in BITS],
                value=settings.bits,
                label="Weights",
                info="Fewer bits take less memory, and need bitsandbytes.",
                scale=4,
                min_width=300,
            )
            vision = gr.Checkbox(
                settings.without_language_model,
                label="Vision side alone",
                info="Picks and maps without answers.",
                elem_id="model-vision",
            )
            load = gr.Button("Load it", scale=1, min_width=100, elem_id="load-model")
            cancel = gr.Button(
                "Cancel",
                variant="stop",
                scale=1,
                min_width=100,
                visible=False,
                elem_id="cancel-model",
            )
        status = gr.HTML(elem_id="model-status", elem_classes="message-place", min_height=60)
        table = gr.HTML(elem_id="model-offers")

    def change(
        name: str | None, typed: str, bits: int, vision: bool, progress: gr.Progress = _PROGRESS
    ) -> str:
        shown = 0.0

        def report(sentence: str) -> None:
            print(sentence, flush=True)
            progress(None, desc=sentence)

        def show(done: int, total: int) -> None:
            nonlocal shown
            if total == 0:
                packing = "" if bits == 16 or vision else f" and packing them in {bits} bits"
                progress(None, desc=f"Reading the weights{packing}")
            elif time.monotonic() > shown + _PAUSE or done == total:
                shown = time.monotonic()
                words = f"Downloading: {done / 1e9:.2f} of {total / 1e9:.2f} GB"
                progress(done / total, desc=words)

        if model_switch.loading:
            return loading_html()
        wanted = typed.strip() or name
        try:
            return panels.words_html(model_switch.change(wanted, bits, report, not vision, show))
        except (ModelError, ValueError) as error:
            return panels.message_html(str(error))

    def loading_html() -> str:
        name = model_switch.loading
        words = "is already being loaded. The page reopens with it; Cancel keeps the present model."
        return panels.words_html(f"{name} {words}") if name else ""

    def open_menu() -> tuple[Any, str]:
        return gr.update(open=True) if model_switch.loading else gr.skip(), loading_html()

    def follow() -> Iterator[tuple[Any, Any]]:
        """What is loaded, and what becomes of it, on a page that did not begin it."""
        has_joined = False
        while loading := loading_html():
            has_joined = True
            yield loading, gr.update(visible=True)
            time.sleep(_LOOK_EVERY)
        show = panels.words_html if model_switch.model.closed else panels.message_html
        yield show(model_switch.outcome) if has_joined else gr.skip(), gr.update(visible=False)

    private: dict[str, Any] = {"api_visibility": "private"}
    # Nobody waits for a turn: the switch loads one model at a time, and says so to the others.
    turn = {"concurrency_limit": None, **private}
    quiet = {"queue": False, **QUIET}

    def follow_after(event: Any) -> None:
        event.then(follow, None, [status, cancel], concurrency_limit=None, **QUIET)

    def begin(event: Any) -> None:
        begun = event(lambda: _BEGUN, None, status, **quiet)
        begun.then(None, None, cancel, js=_SHOW, **quiet)
        begun.then(None, None, None, js="() => SPARE.awaitModel()", **quiet)
        follow_after(begun.then(change, [name, typed, bits, vision], status, **turn))

    begin(load.click)
    cancel.click(model_switch.cancel, None, None, **quiet)
    for event in (menu.expand, bits.change):
        event(lambda bits: offers_html(model_switch.offers(bits)), bits, table, **private)
    model = model_switch.model
    part = "" if model.has_language_model else " without its language model"
    here = json.dumps([f"{model.name}@{model.revision}{part}", model.title + part])
    demo.load(None, None, None, js=f"() => SPARE.announceModel(...{here})", **quiet)
    opened = demo.load(open_menu, None, [menu, status], **quiet)
    opened.then(None, status, None, js="(status) => { if (status) SPARE.awaitModel() }", **quiet)
    follow_after(opened)

    def connect(event: Any) -> None:
        def choose() -> tuple[Any, str, str, bool]:
            return gr.update(open=True), TINY_LLAVA.name, "", False

        begin(event(choose, None, [menu, name, typed, vision], **quiet).then)

    return connect


def upcoming_line(demo: gr.Blocks, model_switch: ModelSwitch) -> None:
    """A line about the model that is being loaded, on a page that reopens with it by itself."""
    line = gr.HTML(elem_id="upcoming")
    demo.load(lambda: upcoming_html(model_switch.upcoming), None, line, queue=False, **QUIET)
    demo.load(None, None, None, js="() => { SPARE.awaitModel() }", queue=False, **QUIET)


def upcoming_html(title: str) -> str:
    """That a model of this title is being loaded; "" where none is."""
    if not title:
        return ""
    return panels.words_html(
        f"{title}, which knows photos, is being loaded and will answer here in a few minutes. The "
        "page then reopens with it, so save below what you want to keep of a comparison."
    )


def offers_html(offers: list[Offer]) -> str:
    """A table of what each model would take here."""
    rows = [
        (
            offer.entry.title,
            _fit_text(offer.room),
            _download_text(offer.download),
            _seconds_text(offer),
            _fit_text(offer.vision_room),
            _download_text(offer.vision_download),
        )
        for offer in offers
    ]
    room = offers[0].room
    free = f"{size_words(room.free + room.given_back)} are free {room.where}"
    free = free.removesuffix(" of memory")
    return (
        f"{panels.table_html('Models on this machine', _HEAD, rows, 'cost')}"
        f"<p class='words'>{free} "
        "without the present model. Needs and times are estimates, made from the published sizes "
        "and from how fast this machine multiplies matrices and reads memory. A question is three "
        "answers of 16 tokens about the largest picture; a real one takes somewhat longer.</p>"
    )


def tiny_needs(model_switch: ModelSwitch) -> str:
    """What TinyLLaVA's row of that table says, after "it needs"."""
    (offer,) = model_switch.offers(model_switch.settings.bits, [TINY_LLAVA.name])
    words = f"{size_words(offer.room.needed)} {offer.room.where}"
    if offer.download:
        words += f", and a download of {size_words(offer.download)}"
    if offer.seconds is not None:
        words += f"; a question takes about {rough_seconds_text(offer.seconds)} here"
    return words


def _fit_text(room: Room) -> str:
    return f"{'yes' if room.fits else 'no'}: needs {size_words(room.needed)}"


def _download_text(count: int) -> str:
    return size_words(count) if count else "nothing, it is here"


def _seconds_text(offer: Offer) -> str:
    seconds = offer.seconds
    if seconds is None:
        return "long: fewer bits are slow here" if offer.room.fits and offer.unpacks else "–"
    return rough_seconds_text(seconds)
