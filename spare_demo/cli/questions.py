"""Which questions `evaluate` asks: the options that name them, and how they are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from spare_demo.cli.options import adder, tell
from spare_demo.evaluation.hub_data import PREFIX, read_dataset
from spare_demo.evaluation.sheets import Fields, Sheet, draw_sheets, read_lines
from spare_demo.scenes.sets import SETS
from spare_demo.table import counted

USUAL_SET = "held-out"
USUAL_QUESTIONS = 600

EPILOG = """\
A file of JSON lines has one question per line: {"image": "cat.jpg", "question": "What is it?",
"answer": "a cat", "category": "recognition"}. "image" is a path inside --images; two spellings of a
path name one picture, and two files are two pictures, even with the same bytes. "answer" is a text,
a number, or a list of them that are all right; for true or false write a text, such as "yes". With
"choices", a list of texts, the answer is one of them or its letter, and the model is asked for the
letter. A free answer is right if it equals a right one, apart from upper and lower case, spaces,
quotes and a full stop at the end. So ask for short answers, for example with --instruction "Answer
the question using a single word or phrase."

A dataset has one question per row, with the same fields; --picture-field and its like name those
that are called something else. hf:FOLDER:SPLIT reads a folder that the package datasets can load.

An interrupted run resumes when the same command is given again, with any number of workers.
"""


def add_question_source(parser: argparse.ArgumentParser) -> None:
    """The options that say which questions are asked."""
    add = adder(
        parser.add_argument,
        f"""
        --questions  how many questions of each set (default: {USUAL_QUESTIONS}), or how many from
                     the start of --data (default: all)
        --data       JSON lines, or a dataset of the Hugging Face hub, in place of drawn scenes, see
                     below
        --images     folder with the pictures of --data (default: the folder of that file)
        --config     configuration of a dataset that has several
        --skip-bad   leave out bad lines, bad pictures and questions that are too long, and list
                     them
        """,
    )
    add("--questions", type=int, metavar="N")
    add("--data", metavar="FILE|hf:OWNER/NAME:SPLIT")
    add("--images", type=Path, metavar="FOLDER")
    add("--config", metavar="NAME")
    for field in fields(Fields):
        flag, about = f"--{field.name}-field", "name of this field in --data (default: %(default)s)"
        parser.add_argument(flag, default=field.default, metavar="NAME", help=about)
    add("--skip-bad", action="store_true")


def refuse(sentence: str) -> None:
    """Raise ValueError for what `--skip-bad` would leave out."""
    raise ValueError(f"{sentence} Correct it, or leave out bad ones with --skip-bad.")


def read_questions(arguments: argparse.Namespace) -> list[Sheet]:
    """The pictures with their questions, drawn or read.

    Raises ValueError or OSError, with a sentence to show, for what cannot be used.
    """
    if arguments.config is not None and not (arguments.data or "").startswith(PREFIX):
        raise ValueError(
            f"--config needs a dataset of the hub, as --data {PREFIX}OWNER/NAME:SPLIT."
        )
    sets = dict.fromkeys(text for text in arguments.set if text in SETS)
    if arguments.data is None:
        if arguments.images is not None:
            raise ValueError("--images needs --data, the file of questions.")
        count = USUAL_QUESTIONS if arguments.questions is None else arguments.questions
        return [sheet for which in sets or (USUAL_SET,) for sheet in draw_sheets(which, count)]
    if sets:
        raise ValueError(f"--set {next(iter(sets))} has questions, and --data too. Leave one out.")
    if arguments.questions is not None and arguments.questions < 1:
        raise ValueError("--questions must be 1 or more.")
    bad: list[str] = []

    def skip(sentence: str) -> None:
        if not arguments.skip_bad:
            refuse(sentence)
        bad.append(sentence)
        tell(sentence)

    sheets = _read(arguments, skip)
    asked = [question for sheet in sheets for question in sheet.questions]
    for role in ("choices", "category"):  # these may be missing, but not where they are named
        name = getattr(arguments, f"{role}_field")
        if name != role and not any(getattr(question, role) for question in asked):
            raise ValueError(
                f"No question of --data has anything in a field {name}. Name the one that holds "
                f"the {role} with --{role}-field."
            )
    if bad:
        tell(f"Left out: {counted(len(bad), 'question')}.")
    return sheets


def _read(arguments: argparse.Namespace, skip: Callable[[str], None]) -> list[Sheet]:
    names = Fields(**{f.name: getattr(arguments, f"{f.name}_field") for f in fields(Fields)})
    if arguments.data.startswith(PREFIX):
        if arguments.images is not None:
            raise ValueError("A dataset has its own pictures. Leave --images out.")
        return read_dataset(arguments.data, arguments.config, names, arguments.questions, skip)
    file = Path(arguments.data)
    images = arguments.images or file.parent
    if not images.is_dir():
        raise ValueError(f"There is no folder {images}. Give the pictures' folder with --images.")
    return read_lines(file, images, names, arguments.questions, skip)
