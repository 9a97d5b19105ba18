"""`python -m spare_demo models`: the table of models."""

from __future__ import annotations

import argparse

from spare_demo.cli.options import print_table, print_wrapped
from spare_demo.models import supported_classes
from spare_demo.models.loading.catalogue import AUTO, AUTO_MEANS, CATALOGUE
from spare_demo.settings import Settings


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    """The command has none of its own."""
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Print the table."""
    rows = [(e.name, f"{e.description} Needs: {e.needs}.") for e in CATALOGUE.values()]
    print_table(("model", "what it is, and what it needs"), [(AUTO, AUTO_MEANS), *rows])
    print()
    print_wrapped(
        "Or give --model a folder that holds a checkpoint, or a repository of the Hugging Face "
        f"hub, of one of these classes: {supported_classes()}."
    )
