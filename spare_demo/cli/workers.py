"""The options of `evaluate` that say how many workers measure, and where."""

from __future__ import annotations

import argparse
import re
from importlib.util import find_spec

from spare_demo.cli.options import adder


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """How many workers, and of which cluster."""
    add = adder(
        parser.add_argument,
        """
        --workers  measure pictures on N GPUs at once, or with N shares of the processor's cores;
                   more than one needs Ray (default: %(default)s)
        --address  head of a Ray cluster whose machines the workers run on (default: this machine)
        """,
    )
    add("--workers", type=int, default=1, metavar="N")
    add("--address", default="", metavar="HOST:PORT")


def check_workers(arguments: argparse.Namespace) -> None:
    """Raises ValueError, with a sentence to show, for options that no workers can be had by."""
    if arguments.workers < 1:
        raise ValueError("--workers must be 1 or more.")
    if arguments.workers == 1 and not arguments.address:
        return
    if re.fullmatch(r"cuda:\d+", arguments.device):
        raise ValueError(
            f"--device {arguments.device} is one GPU, and every worker gets its own. Choose auto, "
            "cpu or cuda."
        )
    if find_spec("ray") is None:
        raise ValueError("Several workers need Ray. Install it: pip install '.[ray]'")
