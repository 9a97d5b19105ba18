"""Options that several commands share, and how they print."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from spare_demo.images.geometry import Aspect
from spare_demo.relevance import GuidanceText, RelevanceOptions, TextPieces
from spare_demo.settings import SYSTEMS, Settings
from spare_demo.table import text_table
from spare_demo.tokens import Positions


def adder(
    add_argument: Callable[..., argparse.Action], table: str
) -> Callable[..., argparse.Action]:
    """`add_argument` of a parser or a group, which finds each option's help in a table.

    table: an option's name and its help, line by line; what is indented belongs to the line above.
    """
    lines = re.split(r"\n(?! )", textwrap.dedent(table).strip())
    helps = {name: " ".join(words) for name, *words in map(str.split, lines)}
    return lambda name, **settings: add_argument(name, help=helps[name], **settings)


def add_model_options(parser: argparse.ArgumentParser, settings: Settings, about: str = "") -> None:
    """Which model, where and in how many bits; about: the help of --model, "" for the usual."""
    usual = settings.model.replace("%", "%%")  # a folder may have one in its name
    add = adder(
        parser.add_argument,
        f"""
        --model   {about or f"see the command models (default: {usual})"}
        --device  auto, cpu, cuda, cuda:N or mps (default: %(default)s)
        --bits    16, or 8 or 4 to quantise the language model (default: {settings.bits})
        """,
    )
    add("--model", default=settings.model)
    add("--device", default=settings.device)
    add("--bits", type=int, default=settings.bits)


def add_system_option(parser: argparse.ArgumentParser, settings: Settings) -> None:
    """The system sentence of the prompt."""
    parser.add_argument(
        "--system",
        choices=SYSTEMS,
        default=settings.system,
        help="system sentence of the prompt; auto: the one that the papers used with the model "
        f"(default: {settings.system})",
    )


def add_question_options(
    parser: argparse.ArgumentParser, settings: Settings, max_new_tokens: int
) -> None:
    """How questions are asked; max_new_tokens: the default."""
    add = adder(
        parser.add_argument,
        """
        --seed             seed of random methods that have none of their own (default: %(default)s)
        --max-new-tokens   longest answer, in tokens (default: %(default)s)
        --aspect           how the model sees a picture: pad or crop to a square (LLaVA-1.5), fixed
                           672 by 672 pixels or any resolution (LLaVA-NeXT), native (Qwen2.5-VL);
                           default: the first of these that the model has
        --together         spend the budget over all views of LLaVA-NeXT at once, instead of in
                           equal shares
        --positions        rotary positions of the kept tokens: compact, without gaps, or original,
                           those among all tokens; default: compact, for Qwen2.5-VL original
        --relevance-layer  vision layer that relevance is read from (default: %(default)s, as in
                           CDPruner's released code)
        --relevance-text   one text embedding per 77 tokens of the question, or per token (default:
                           %(default)s)
        --guidance-text    how patches are compared with the question: by CLIP, as in the papers,
                           or by words of the language model, which works without CLIP too (default:
                           %(default)s)
        """,
    )
    add("--seed", type=int, default=settings.seed)
    add("--max-new-tokens", type=int, default=max_new_tokens)
    add("--aspect", choices=get_args(Aspect))
    add("--together", action="store_true")
    add("--positions", choices=get_args(Positions))
    add("--relevance-layer", type=int, choices=(-2, -1), default=-2)
    add("--relevance-text", choices=get_args(TextPieces), default="stretches")
    add("--guidance-text", choices=get_args(GuidanceText), default="clip")


def question_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The values of `add_question_options` but the seed, as `QuestionOptions` takes them."""
    return {
        "max_new_tokens": arguments.max_new_tokens,
        "aspect": arguments.aspect,
        "relevance": RelevanceOptions(
            arguments.relevance_layer, arguments.relevance_text, arguments.guidance_text
        ),
        "together": arguments.together,
        "positions": arguments.positions,
    }


def given(
    add_options: Callable[[argparse.ArgumentParser, Settings], None],
    settings: Settings,
    words: Sequence[str],
    names: Sequence[str],
) -> list[str]:
    """Those of the named options that were typed, also with the default as their value.

    add_options: of the command. words: what was typed after it, which can be read.
    """
    parser = argparse.ArgumentParser()
    add_options(parser, settings)
    parser.set_defaults(**dict.fromkeys(names))
    typed = vars(parser.parse_args(words))
    return [name for name in names if typed[name] is not None]


def check_file(path: Path, *others: Path | str | None) -> None:
    """ValueError or OSError, before the work, where a file cannot be written; nothing is made
    yet.

    others: files and folders that are written too, None for one that is not.
    """
    if str(path) == "-":
        raise ValueError(
            "- is not a file name here, since standard output has the text. Name a file."
        )
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "", str(path))
    for other in filter(None, others):
        taken = Path(os.path.realpath(str(other)))
        if Path(os.path.realpath(path)) in (taken, *taken.parents):
            raise ValueError(f"{path} and {other} cannot both be written. Choose another name.")
    there = path if path.exists() else next(filter(os.path.lexists, path.absolute().parents), None)
    if there is None:  # no such drive of Windows
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if there != path and not there.is_dir():
        raise FileExistsError(errno.EEXIST, "", str(there))
    with contextlib.suppress(FileNotFoundError):
        path.stat()  # refuses a link to itself, which exists() takes for a file that is not there
    if not os.access(there, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def print_wrapped(sentence: str) -> None:
    """A sentence in lines of at most 96 characters."""
    print(textwrap.fill(sentence, 96))


def tell(sentence: str) -> None:
    """A sentence on standard error, beside the results."""
    print(sentence, file=sys.stderr, flush=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns side by side; the last one is wrapped to the terminal's width."""
    print(text_table(head, rows, shutil.get_terminal_size((120, 0)).columns))
