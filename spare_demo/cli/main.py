"""`spare-demo`: the page, the pipeline without a browser, and the tables of methods and models."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence

from spare_demo.cli import compare as compare_command
from spare_demo.cli import serve
from spare_demo.cli.evaluate import add_options as add_evaluation_options
from spare_demo.cli.evaluate import evaluate
from spare_demo.cli.methods_table import markdown, measure_methods
from spare_demo.cli.options import add_model_options, print_table
from spare_demo.models import ModelError, catalogue, load_model, supported_classes
from spare_demo.models.generate.passes import NO_MEMORY, is_out_of_memory
from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings, add_flags, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 done, 1 refused or failed, 130 interrupted.

    Raises SystemExit: 0 after --help, 2 after wrong use.
    """
    settings = parse([])  # SPARE_… variables hold here as well
    arguments = _parser(settings).parse_args(argv)
    try:
        arguments.run(arguments, settings)
    except (ValueError, ModelError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.strerror or error}: {error.filename or 'a file'}.", file=sys.stderr)
        return 1
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        print(NO_MEMORY, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser(settings: Settings) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spare-demo", description="Look inside visual token pruning."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser(
        "serve",
        help="open the page in a browser",
        argument_default=argparse.SUPPRESS,
        epilog="Every flag is also a variable: --max-pixels is SPARE_MAX_PIXELS.",
    )
    command.set_defaults(run=serve.run, wrong=command.error)
    add_flags(command)

    command = commands.add_parser("compare", help="ask one question of one picture")
    command.set_defaults(run=compare_command.run)
    compare_command.add_options(command, settings)

    command = commands.add_parser(
        "evaluate", help="measure methods at several budgets, on drawn scenes or your own data"
    )
    command.set_defaults(run=evaluate)
    add_evaluation_options(command, settings)

    command = commands.add_parser("methods", help="the table of pruning methods")
    command.set_defaults(run=_methods)
    about = "say which methods cannot run on this model, and measure with --table"
    add_model_options(command, settings, None, about)
    command.add_argument(
        "--table", action="store_true", help="the whole table in Markdown, with every setting"
    )
    command = commands.add_parser("models", help="the table of models")
    command.set_defaults(run=_models)
    return parser


def _methods(arguments: argparse.Namespace, settings: Settings) -> None:
    model = None
    if arguments.model:
        bits = settings.bits if arguments.bits is None else arguments.bits
        model = load_model(arguments.model, arguments.device, bits=bits)
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
                print(textwrap.fill(f"{name} cannot run on {model.name}: {reason}.", 96))


def _models(arguments: argparse.Namespace, settings: Settings) -> None:
    print_table(
        ("model", "needs", "what it is"),
        [(row["name"], row["needs"], row["description"]) for row in catalogue()],
    )
    print(
        "\nOr give --model the path of a folder that holds a checkpoint of one of "
        f"these\nclasses, or a repository of the Hugging Face hub: {supported_classes()}."
    )
