"""`python -m spare_demo methods`: the table of methods, measured on a model where asked."""

from __future__ import annotations

import argparse

from spare_demo.cli.imports import import_heavy
from spare_demo.cli.methods_table import markdown, measure_methods
from spare_demo.cli.options import add_model_options, given, print_table, print_wrapped
from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    parser.set_defaults(run=run, wrong=parser.error)
    about = "say which methods cannot run on this model; with --table, also time them on it"
    add_model_options(parser, settings, about)
    parser.set_defaults(model=None)
    parser.add_argument(
        "--table", action="store_true", help="print the whole table in Markdown, with every setting"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Print the table. Raises ValueError or ModelError with a sentence to show."""
    model = None
    if arguments.model is None:
        if typed := given(add_options, settings, arguments.words, ("device", "bits")):
            arguments.wrong(f"--{typed[0]} says how a model is loaded; name one with --model")
    else:
        models = import_heavy("spare_demo.models")  # for the list alone they are not needed
        model = models.load_model(arguments.model, arguments.device, bits=arguments.bits)
    if arguments.table:
        print(markdown() if model is None else markdown(*measure_methods(model)), end="")
        return
    print_table(
        ("method", "needs text", "paper", "what it keeps"),
        [
            (name, "yes" if method.needs_text else "no", method.paper, method.summary)
            for name, method in PRUNERS.items()
        ],
    )
    if model is not None:
        print()
        for name, method in PRUNERS.items():
            if reason := model.reason_against(method):
                print_wrapped(f"{name} cannot run on {model.name}: {reason}.")
