"""Starts the app: settings, model, page."""

import os
import sys

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from spare_demo.models import ModelError, load_model
from spare_demo.settings import parse
from spare_demo.ui import build, launch_options


def main() -> None:
    settings = parse()
    try:
        model = load_model(settings.model, settings.device)
    except ModelError as error:
        sys.exit(str(error))
    for line in (f"{model.title} on {model.device}.", *model.notes):
        print(line, flush=True)
    demo = build(model, settings)
    print(f"Open http://{settings.host}:{settings.port} in a browser.", flush=True)
    demo.launch(**launch_options(settings))


if __name__ == "__main__":
    main()
