"""`spare-demo`: the page, the pipeline without a browser, and the tables of methods and models."""

from __future__ import annotations

import argparse
import errno
import getpass
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import entry_points

from spare_demo import __version__
from spare_demo.cli.imports import import_heavy
from spare_demo.settings import METHODS_GROUP, Settings, read_variables

COMMANDS = {
    "serve": "open the page in a browser",
    "compare": "ask one question of one picture",
    "evaluate": "measure methods at several budgets, on drawn scenes or your own data",
    "board": "put several results of evaluate side by side, with paired tests",
    "methods": "list the pruning methods",
    "models": "list the models",
}
"""What each one does. Its options and its run are in the file of its name beside this one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 done, 1 refused or failed, 130 interrupted,
    141 nobody reads the output.

    Raises SystemExit: 0 after --help and --version, 2 after wrong use.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    with (
        open(os.devnull, "w") as nowhere,  # for an output that is closed, as by `>&-`
        redirect_stdout(sys.stdout or nowhere),
        redirect_stderr(sys.stderr or nowhere),
    ):
        try:
            try:
                _run(words)
            finally:  # also after --help
                _flush_output()
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:  # whoever reads the output, such as `head`, has enough
            return 141
        except Exception as error:
            sentence = _sentence(error)
            if sentence is None:
                raise
            print(sentence, file=sys.stderr)
            return 1
        return 0


def _run(words: list[str]) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):  # an answer may have letters that it cannot write
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        getpass.getuser()  # as torch does when it is imported
    except (KeyError, OSError):  # a number without a name, as a container may run with
        os.environ["USER"] = f"user-{os.getuid()}"
    settings = read_variables()
    arguments = _parser(settings, words[0] if words else "").parse_args(words)
    arguments.words = words[1:]
    if entries := entry_points(group=METHODS_GROUP):  # else the heavy libraries can wait
        import_module("spare_demo.pruners.other_packages").add_methods(entries)
    arguments.run(arguments, settings)


def _flush_output() -> None:
    """Raises OSError where it cannot be written; what is left of it is dropped then, or Python
    would fail once more at its end, with status 120."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EINVAL:  # as Windows says of a pipe that nobody reads
            raise BrokenPipeError from error
        raise


def _parser(settings: Settings, name: str) -> argparse.ArgumentParser:
    """The commands, and the options of the one that is named.

    Those of the others are left out: they would import the heavy libraries, which takes seconds,
    before a wrong flag is said to be one.
    """
    parser = argparse.ArgumentParser(
        prog="spare-demo", description="Look inside visual token pruning."
    )
    parser.add_argument("--version", action="version", version=f"spare-demo {__version__}")
    names = f"{{{','.join(COMMANDS)}}}"
    commands = parser.add_subparsers(title="commands", required=True, metavar=names)
    for command_name, help in COMMANDS.items():
        about = f"{help[0].upper()}{help[1:]}."
        command = commands.add_parser(command_name, help=help, description=about)
        if command_name == name:
            import_heavy(f"spare_demo.cli.{name}").add_options(command, settings)
    return parser


def _sentence(error: Exception) -> str | None:
    """What went wrong, written for whoever typed the command; None for a fault of the program."""
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename} has to be a folder, but it is a file. Choose another name."
    if isinstance(error, IsADirectoryError):
        return f"{error.filename} is a folder. Name a file."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (  # which names no file, or the one that was copied
            "The disk is full: that of the results, of temporary files (GRADIO_TEMP_DIR) or of the "
            "output. Make room there, or name another folder, then start this again."
        )
    if isinstance(error, PermissionError) and error.filename:
        return (
            f"{error.strerror}: {error.filename}. If another program has it open, close it there; "
            "else name a place that you may write to."
        )
    certificates = os.environ.get("SSL_CERT_FILE")
    if isinstance(error, FileNotFoundError) and not error.filename and certificates:
        return (
            f"SSL_CERT_FILE names {certificates}, which is not there. Unset it, or name a file of "
            "certificates, then start this again."
        )
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'a file, or the output'}."
    if isinstance(error, ImportError) and "socksio" in str(error):  # of httpx, which Gradio imports
        return (
            "A proxy that the environment names (ALL_PROXY, perhaps) speaks SOCKS, which takes one "
            "more package. Run pip install socksio, then start this again."
        )
    if isinstance(error, ImportError) and not str(error.name).startswith("spare_demo"):
        if isinstance(error, ModuleNotFoundError):
            return (
                f"Python finds no package {error.name}. Start this with the Python that has it, "
                "such as .venv/bin/python, or install it: the README says how."
            )
        return (
            f"A package cannot be loaded: {error}. If there is enough memory for it, install the "
            "packages again: the README says how."
        )
    from spare_demo.cuda_graphs import is_out_of_memory
    from spare_demo.models import ModelError
    from spare_demo.models.generate.passes import NO_MEMORY

    if isinstance(error, ModelError):
        return str(error)
    return NO_MEMORY if is_out_of_memory(error) else None
