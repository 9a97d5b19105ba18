"""Starts the app: settings, model, page."""

import os
import sys
import threading
from importlib.util import find_spec

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from spare_demo.models import ModelError, load_model
from spare_demo.settings import parse
from spare_demo.ui import build, launch_options


def main() -> None:
    settings = parse()
    if settings.mcp and find_spec("mcp") is None:
        sys.exit("The MCP server needs another package. Install it: pip install 'gradio[mcp]'")
    try:
        model = load_model(settings.model, settings.device, bits=settings.bits, report=print)
        if settings.capture_prefill:
            model.capture_prefill()
    except ModelError as error:
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
    except OSError:
        sys.exit(f"Port {settings.port} is not free. Choose another with --port.")
    print(f"Open http://{settings.host}:{settings.port} in a browser.", flush=True)
    serving.set()
    demo.block_thread()


if __name__ == "__main__":
    main()
