"""Serves the page, and on this machine alone a page for every model that follows."""

from __future__ import annotations

import threading

from spare_demo.models import Model
from spare_demo.settings import Settings
from spare_demo.ui import mcp
from spare_demo.ui.model_switch import ModelSwitch
from spare_demo.ui.page import build, launch_options


def serve(model: Model, settings: Settings) -> None:
    """Serve until interrupted.

    Raises:
        ValueError: a method or a picture of the start cannot be, or the port is taken, or MCP is
            not spoken here; the message may be shown.
    """
    while True:
        model_switch = ModelSwitch(model, settings) if settings.private else None
        serving = threading.Event()
        demo = build(model, settings, serving, model_switch)
        try:
            demo.launch(**launch_options(settings), prevent_thread_lock=True)
            if settings.mcp:
                mcp.speak_json(demo)
        except OSError:
            sentence = f"Port {settings.port} is not free. Choose another with --port."
            raise ValueError(sentence) from None
        for line in (
            *(f"{model.title} on {model.device}.", *model.notes),
            f"Open http://{settings.host}:{settings.port} in a browser.",
        ):
            print(line, flush=True)
        serving.set()
        if model_switch is None:
            demo.block_thread()
            return
        try:
            model, settings = model_switch.wait_for_next()
        except KeyboardInterrupt:
            return
        finally:
            demo.close(verbose=False)
