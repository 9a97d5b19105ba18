"""Serves the page, and on this machine alone a page for every model that follows."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import gradio as gr

from spare_demo.models import Model
from spare_demo.models.loading.catalogue import Entry
from spare_demo.settings import Settings
from spare_demo.ui import mcp
from spare_demo.ui.borrowed_gpu import Here
from spare_demo.ui.ending import close_page
from spare_demo.ui.errors import quieten_server
from spare_demo.ui.model_switch import ModelSwitch
from spare_demo.ui.page import build, launch_options


def serve(
    model: Model, settings: Settings, gpu: Here | None = None, later: Entry | None = None
) -> None:
    """Serve until interrupted.

    gpu: where events run the model; None for in this process. later: a model of the table that is
    loaded in this one's place meanwhile.

    Raises:
        KeyboardInterrupt: once everything is closed.
        ValueError: a method or a picture of the start cannot be, or the port is taken, or MCP is
            not spoken here; the message may be shown.
    """
    quieten_server()
    while True:
        model, settings = _serve_model(model, settings, gpu, later)
        later = None


def _serve_model(
    model: Model, settings: Settings, gpu: Here | None, later: Entry | None
) -> tuple[Model, Settings]:
    """Serve the page of one model until it is changed: the next model, and its settings."""
    changes = settings.private or later is not None
    model_switch = ModelSwitch(model, settings, later) if changes else None
    serving = threading.Event()
    demo = build(model, settings, serving, model_switch, gpu)
    try:
        _launch(demo, settings, changes)
        for line in (
            *(f"{model.title} on {model.device}.", *model.notes),
            f"Open http://{settings.host}:{settings.port} in a browser.",
        ):
            print(line, flush=True)
        serving.set()
        if model_switch is not None and later is not None:
            threading.Thread(target=model_switch.load_upcoming, args=(print,), daemon=True).start()
        with lasting_objects_set_aside():
            if model_switch is None:
                threading.Event().wait()  # for an interrupt: no other model comes
            assert model_switch is not None
            following = model_switch.wait_for_next()
    except BaseException:  # an interrupt, or a port that is taken
        model.stop("The server is being stopped. Ask again when it is back.")
        serving.set()  # what waits for it finds no model to ask
        close_page(demo)
        raise
    demo.close(verbose=False)
    return following


@contextmanager
def lasting_objects_set_aside() -> Iterator[None]:
    """Collect garbage, but not among the objects that exist now: the libraries, model and page.

    To look through these too would stop every visitor's answer for a third of a second.
    """
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()  # the model goes where another one comes


def _launch(demo: gr.Blocks, settings: Settings, changes: bool) -> None:
    try:
        demo.launch(**launch_options(settings, changes), prevent_thread_lock=True)
        if settings.mcp:
            mcp.speak_json(demo)
    except OSError:
        sentence = f"Port {settings.port} is not free. Choose another with --port."
        raise ValueError(sentence) from None
