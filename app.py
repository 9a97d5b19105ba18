"""Starts the app: settings, model, page."""

import os
import sys
import threading

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from spare_demo.models import ModelError, load_model
from spare_demo.settings import parse
from spare_demo.ui import build, launch_options, mcp


def main() -> None:
    settings = parse()
    try:
        if settings.mcp:
            mcp.check()
        model = load_model(settings.model, settings.device, bits=settings.bits, report=print)
        if settings.capture_prefill:
            model.capture_prefill()
    except (ModelError, ValueError) as error:
        sys.exit(str(error))
    for line in (f"{model.title} on {model.device}.", *model.notes):
        print(line, flush=True)
    serving = threading.Event()
    try:
        demo = build(model, settings, serving)
    except ValueError as error:  # a method or a picture of the start that cannot be
        sys.exit(str(error))
    try:
        demo.launch(**launch_options(settings), prevent_thread_lock=True)
        if settings.mcp:
            mcp.speak_json(demo)
    except ValueError as error:
        sys.exit(str(error))
    except OSError:
        sys.exit(f"Port {settings.port} is not free. Choose another with --port.")
    print(f"Open http://{settings.host}:{settings.port} in a browser.", flush=True)
    serving.set()
    demo.block_thread()


if __name__ == "__main__":
    main()
