"""The page of a model, what it opens on, and what it is launched with."""

from __future__ import annotations

import contextlib
import math
import threading
from functools import cache, partial
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError
from starlette.middleware import Middleware

from spare_demo.models import Model
from spare_demo.models.generate.passes import DeviceElsewhere, ModelUnloadedError
from spare_demo.models.loading.memory import open_visits
from spare_demo.settings import Settings
from spare_demo.ui import panels
from spare_demo.ui.api import Api, offer
from spare_demo.ui.borrowed_gpu import Here
from spare_demo.ui.document_head import TITLE, DocumentHead, draw_preview
from spare_demo.ui.examples import FOLDER, knows_only_scenes
from spare_demo.ui.gallery import OPENED, gallery_panel
from spare_demo.ui.gate import layers
from spare_demo.ui.gate.refusals import refuse_unread
from spare_demo.ui.gradio_compat.building import without_unserved_apps
from spare_demo.ui.gradio_compat.files import (
    UploadProgress,
    cached_picture,
    files_in_cache,
    take_few_files,
)
from spare_demo.ui.gradio_compat.processing import Page
from spare_demo.ui.gradio_compat.queue import (
    drop_messages_to_nobody,
    estimate_nothing_of,
    look_less_often,
)
from spare_demo.ui.gradio_compat.server import keep_sender_addresses, watch_no_sources
from spare_demo.ui.gradio_compat.sessions import keep_sessions_lean
from spare_demo.ui.handlers import QUICK, Handlers
from spare_demo.ui.lab import Lab
from spare_demo.ui.lab_page import LAB_CSS, lay_out_lab, wire_lab
from spare_demo.ui.layout import lay_out
from spare_demo.ui.model_menu import model_menu, tiny_needs, upcoming_line
from spare_demo.ui.model_switch import ModelSwitch
from spare_demo.ui.open_visits import IDLE_SECONDS, OpenVisits
from spare_demo.ui.steps import COSTS, LOST, PageChanges
from spare_demo.ui.viewer import scripts
from spare_demo.ui.visit import Visit
from spare_demo.ui.wiring import wire

_CSS = Path(__file__).with_name("style.css")

_UNASKED: PageChanges = {
    **dict.fromkeys(("visit", "stage", "curve")),  # who presses something is told to press Ask
    **dict.fromkeys(("headline", "chips", "notes", "truth", "answers"), ""),
    **dict.fromkeys(("curve_words", "cost", "rank"), ""),
    "lost_fold": {"label": LOST},
    "cost_fold": {"label": COSTS},
}
"""What a page opens on where nothing was asked yet."""

MOST_SESSIONS = 128
"""Visitors of whom Gradio keeps a copy of the page, about half a megabyte each."""


@without_unserved_apps()
def build(
    model: Model,
    settings: Settings,
    serving: threading.Event | None = None,
    model_switch: ModelSwitch | None = None,
    gpu: Here | None = None,
) -> Page:
    """The page for a loaded model. It opens on a finished comparison, made here and now.

    Of a model that takes long it opens on the pictures, and where the GPU is borrowed on the bare
    example; the first visitor's page asks for the rest, which those after it find finished.

    serving: once it is set, the other examples are finished too, in the background, where that is
        quick. A thread waits for it: set it also where nothing is served after all.
    model_switch: of a page whose model can be changed: by a menu on a private page, else by itself.
    gpu: where the events that run the model do so; None for here.
    """
    gpu = gpu or Here()
    if model_switch is not None and settings.private:
        # Worked out once: it takes a moment, and stands in every step of such an answer.
        handlers = Handlers(model, settings, cache(partial(tiny_needs, model_switch)))
    else:
        handlers = Handlers(model, settings)
    slow = model.warm_up_seconds > QUICK
    try:
        shown = _opening(handlers, pictures_only=slow)
    except DeviceElsewhere:
        shown = _UNASKED
    opening_visit: Visit | None = shown["visit"]

    visits = OpenVisits(
        open_visits(model.hf.config, model.most_tokens, model.dtype),
        idle_seconds=math.inf if settings.private else IDLE_SECONDS,
    )
    with Page(title=TITLE, analytics_enabled=False, fill_width=True) as demo:
        # First: programs call by number, and go on when the model was changed.
        offer(Api(model, settings), gpu)
        gr.HTML(panels.header_html(model))
        load_from = None
        if model_switch is not None and settings.private:
            load_from = model_menu(demo, model_switch)
        elif model_switch is not None:
            upcoming_line(demo, model_switch)
        with gr.Tabs(selected="compare", elem_id="tabs") as tabs:
            with gr.Tab("Compare", id="compare"):
                parts = lay_out(demo, handlers, shown)
                opening = {name: getattr(parts, name) for name in OPENED}
                opened = []
                if knows_only_scenes(model.name) and model.has_language_model:
                    opened.append(gallery_panel(opening, handlers.scenes, model.aspect(None)))
            with gr.Tab("Lab", id="lab", visible=model.has_language_model):
                lab = Lab(model, settings)
                lab_parts = lay_out_lab(lab)
        opened.append(wire_lab(lab, lab_parts, opening, tabs, gpu))
        asks = slow or opening_visit is None
        studies = wire(demo, parts, handlers, visits, opened, ask_on_load=asks, gpu=gpu)
        if load_from is not None:
            load_from(parts.answers.load_tiny)
        demo.unload(demo.forget_visitor)
    keep_sessions_lean(demo)
    if opening_visit is not None:
        demo.preview = draw_preview(opening_visit)
    demo.model_name = model.name
    demo.kept_files = files_in_cache()
    demo.jobs = (visits.close_idle, UploadProgress().forget)
    # Where answers take long, finishing the other examples would hold up the first visitors.
    quick = not slow and opening_visit is not None and opening_visit.answer_seconds < QUICK
    if serving is not None and quick:
        # No daemon, though the thread that builds the page is one: the end of the process, which
        # would abort in the middle of a pass, waits for it.
        waiting = threading.Thread(target=_once_serving, args=(serving, handlers), daemon=False)
        waiting.start()
    # Closed to direct calls: they would run beside the queue, all of them at once.
    demo.queue(max_size=settings.queue_size, api_open=False)
    look_less_often(demo)
    drop_messages_to_nobody(demo)
    estimate_nothing_of(demo, studies)
    keep_sender_addresses()
    watch_no_sources()
    take_few_files()
    return demo


def _opening(handlers: Handlers, pictures_only: bool) -> PageChanges:
    """What the page opens on: an example, asked like any other."""
    opening = handlers.opening
    asked = handlers.first_controls(cached_picture(opening.example.path), opening.question)
    shown: PageChanges = {}
    for values in handlers.ask(**asked):
        shown |= values
        if pictures_only:
            break
    shown |= handlers.steps.curve(shown["visit"], opening.budget)
    if shown["visit"].exploration.inside:  # what each layer kept came with the answers
        shown["stage"] = handlers.steps.pictures(shown["visit"], opening.budget)["stage"]
    return shown


def launch_options(settings: Settings, changes: bool = False) -> dict[str, Any]:
    """What `gr.Blocks.launch` gets: looks, address, limits.

    changes: whether another model's page may follow, as on every private page.
    """
    return {
        "theme": gr.themes.Default(
            primary_hue="slate", neutral_hue="slate", font=["system-ui", "sans-serif"]
        ),
        "css_paths": [_CSS, LAB_CSS],
        "head": scripts(settings.private or changes),
        "app_kwargs": {
            "middleware": [*layers(settings), Middleware(DocumentHead)],
            "exception_handlers": {RequestValidationError: refuse_unread},
        },
        "server_name": settings.server_name,
        "server_port": settings.port,
        "share": settings.share,
        "mcp_server": settings.mcp,
        "allowed_paths": [str(FOLDER)],  # the program may have been started in any folder
        "max_file_size": settings.max_upload_bytes,
        "state_session_capacity": MOST_SESSIONS,
        "ssr_mode": False,  # usual on a Space; the page's own scripts were not tried with it
        "show_error": False,  # no traceback; sentences raised as gr.Error are still shown
        "enable_monitoring": False,
        "run_history": False,
        "footer_links": ["api"],
        # Gradio 6.31 has no words for it, and a screen reader is given the key.
        "i18n": gr.I18n(en={"common.complete": "Done."}),
        "quiet": True,
        "_frontend": False,  # it would give up where the page takes three seconds to answer it
    }


def _once_serving(serving: threading.Event, handlers: Handlers) -> None:
    serving.wait()
    with contextlib.suppress(ModelUnloadedError):  # another model came meanwhile
        handlers.prepare()
