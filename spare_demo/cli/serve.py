"""`spare-demo serve`: settings -> model -> page -> launch."""

from __future__ import annotations

import argparse
import dataclasses
import os

from spare_demo.cli.stopping import until_stopped
from spare_demo.cli.temporary_files import own_temporary_folder
from spare_demo.settings import Settings, add_flags


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    """A flag for every setting; one that is not given is not among the arguments."""
    parser.set_defaults(run=run, wrong=parser.error)
    parser.argument_default = argparse.SUPPRESS
    parser.epilog = "Every flag is also a variable: --max-pixels is SPARE_MAX_PIXELS."
    add_flags(parser)


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Serve the page until SIGTERM or SIGINT. Raises ValueError or ModelError with a sentence
    to show, and SystemExit 2 for a setting out of range.

    settings: from the environment; the flags among the arguments win over them.
    """
    names = {field.name for field in dataclasses.fields(Settings)}
    flags = {name: value for name, value in vars(arguments).items() if name in names}
    try:
        settings = dataclasses.replace(settings, **flags)
    except ValueError as error:
        arguments.wrong(str(error))  # exits with status 2, as for any wrong use
    with until_stopped(), own_temporary_folder():
        _serve(settings)


def _serve(settings: Settings) -> None:
    # Gradio reads this when it is imported: no telemetry, no version check.
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    from spare_demo.models import load_model
    from spare_demo.ui import mcp, serve

    if settings.mcp:
        mcp.check()
    model = load_model(
        settings.model,
        settings.device,
        bits=settings.bits,
        report=print,
        language_model=not settings.without_language_model,
        system=settings.system,
        capture_prefill=settings.capture_prefill,
    )
    serve(model, settings)
