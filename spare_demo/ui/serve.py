"""Serves the page, and on this machine alone a page for every model that follows."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import gradio as gr

from spare_demo.models import Model
from spare_demo.models.loading.catalogue import Entry
from spare_demo.settings import OWN_ADDRESSES, Settings
from spare_demo.threads import on_own_thread
from spare_demo.ui.borrowed_gpu import Here
from spare_demo.ui.errors import quieten_server
from spare_demo.ui.gradio_compat.files import remove_old_files
from spare_demo.ui.gradio_compat.operations import adapt_mcp_server
from spare_demo.ui.gradio_compat.server import free_closed_pages, pass_by_proxies, stop_server
from spare_demo.ui.model_switch import ModelSwitch
from spare_demo.ui.page import build, launch_options

CLOSING_SECONDS = 4.0
"""What may be waited for at the end; Docker kills what takes more than ten."""


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
        free_closed_pages()  # before the next one sets aside all that exists


def _serve_model(
    model: Model, settings: Settings, gpu: Here | None, later: Entry | None
) -> tuple[Model, Settings]:
    """Serve the page of one model until it is changed: the next model, and its settings."""
    changes = settings.private or later is not None
    model_switch = ModelSwitch(model, settings, later)
    serving = threading.Event()
    make_page = partial(build, model, settings, serving, model_switch if changes else None, gpu)
    # Where the GPU is borrowed, CUDA is out of reach on this thread alone.
    demo = on_own_thread(make_page) if gpu is None else make_page()
    try:
        _launch(demo, settings, changes)
        lines = (f"{model.title} on {model.device}.", *model.notes)
        print(*lines, f"Open {settings.url} in a browser.", sep="\n", flush=True)
        serving.set()
        if later is not None:
            threading.Thread(target=model_switch.load_upcoming, args=(print,), daemon=True).start()
        with lasting_objects_set_aside():
            following = model_switch.wait_for_next()  # or for an interrupt, where none comes
    except BaseException:  # an interrupt, or a port that is taken
        model.stop("The server is being stopped. Ask again when it is back.")
        serving.set()  # what waits for it finds no model to ask
        close_page(demo)
        raise
    stop_server(demo, CLOSING_SECONDS / 4)
    remove_old_files(demo, demo.kept_files, 0, 0)  # the next page would keep what it finds
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
    pass_by_proxies(*OWN_ADDRESSES, settings.host.strip("[]"))
    try:
        demo.launch(**launch_options(settings, changes), prevent_thread_lock=True)
        if settings.mcp:
            adapt_mcp_server(demo)
    except OSError:
        sentence = f"Port {settings.port} is not free. Choose another with --port."
        raise ValueError(sentence) from None


def close_page(demo: gr.Blocks) -> None:
    """End the server and every thread of a page whose model begins no pass any more.

    Returns after `CLOSING_SECONDS` even where a thread takes longer. Further signals are ignored:
    the closing has an end of its own.
    """
    if threading.current_thread() is threading.main_thread():
        hangup = getattr(signal, "SIGHUP", signal.SIGTERM)  # which Windows does not have
        for number in (signal.SIGTERM, signal.SIGINT, hangup):
            signal.signal(number, signal.SIG_IGN)
    deadline = time.monotonic() + CLOSING_SECONDS
    stop_server(demo, CLOSING_SECONDS / 2)
    for worker in multiprocessing.active_children():  # of a borrowed GPU; they hold nothing
        worker.kill()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
