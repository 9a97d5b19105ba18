"""Starts the app: settings, model, page."""

import os
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from spare_demo.models import ModelError, load_model
from spare_demo.settings import parse
from spare_demo.ui import mcp, serve


def main() -> None:
    settings = parse()
    try:
        if settings.mcp:
            mcp.check()
        model = load_model(settings.model, settings.device, bits=settings.bits, report=print)
        if settings.capture_prefill:
            model.capture_prefill()
        serve(model, settings)
    except (ModelError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
