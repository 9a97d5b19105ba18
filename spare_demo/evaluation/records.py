"""The lines of an evaluation's CSV files: what each says, and how it is written and read."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from spare_demo.evaluation.budgets import Budget, read_cell

BLANK = "blank"
"""The method of rows that were answered with all visual tokens of a blank picture."""

Key = tuple[str, str]  # set and picture


@dataclass(frozen=True, slots=True)
class Row:
    """One question, answered with what one method keeps at one budget.

    Attributes:
        set, picture, number: the question's set, its picture, its number there from 0.
        truth: the right answers, " | " between them.
        category: for scenes the skills, "recognition + ocr".
        method, budget: a label, "unpruned" or "blank"; visual tokens kept, or the share of the
            picture's own that was asked for.
        kl: KL divergence of the first token's distribution from the unpruned one's, in nats.
        error: relative reconstruction error of the features; NaN for a blank picture.
    """

    set: str
    picture: str
    number: int
    question: str
    truth: str
    prediction: str
    right: bool
    category: str
    method: str
    budget: Budget
    kl: float
    error: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where the raw cosine of a question falls on its scene: mean cosines and areas under curves.

    asked, others, background: mean over the tokens on things asked about, on other things, on none;
        NaN where there is no such token.
    asked_over_background: the chance that a token on a thing asked about has a higher cosine than
        one on the background (0.5: no difference); `asked_over_others` likewise.
    """

    set: str
    picture: str
    number: int
    layer: int
    asked: float
    others: float
    background: float
    asked_over_background: float
    asked_over_others: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """A question that the model has no room for, and why in a sentence."""

    set: str
    picture: str
    number: int
    reason: str


T = TypeVar("T", Row, Place, Skipped)

# Python's own limit of 131,072 characters is below the longest answers of documents.
csv.field_size_limit(2**31 - 1)

# How a cell becomes a field of this type; annotations are strings here.
_READ: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: bool(("0", "1").index(text)),
    "Budget": read_cell,
}


def csv_text(
    records: Iterable[T],
    kind: type[Row] | type[Place] | type[Skipped] = Row,
    head: bool = True,
) -> str:
    """The records as CSV; head: whether the line that names the columns comes first."""
    text = io.StringIO(newline="")
    # The line end of RFC 4180; with another, answers that hold a \\r would not be quoted.
    writer = csv.writer(text, lineterminator="\r\n")
    if head:
        writer.writerow(field.name for field in fields(kind))
    for record in records:
        writer.writerow(_cell(value) for value in astuple(record))
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def read_records(file: Path, kind: type[T]) -> tuple[list[T], bool]:
    """The records of a file, and whether it ends in something that is none.

    Raises ValueError for a line that is none and has others after it, which no cut leaves behind.
    """
    if not file.exists():
        return [], False
    names = [field.name for field in fields(kind)]
    texts: dict[str, str] = {}  # each text once: most are the same in many lines
    read = _READ | {"str": lambda text: texts.setdefault(text, text)}
    types = [read[str(field.type)] for field in fields(kind)]
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]  # a last cell, which is never quoted, may be cut short
    torn = len(whole) < len(data)
    records: list[T] = []
    # No translation of line ends: an answer may hold any of them. A mark at the start is Excel's.
    text = io.TextIOWrapper(io.BytesIO(whole), "utf-8-sig", "replace", newline="")

    def record_of(cells: Sequence[str]) -> T | None:
        try:
            return kind(*(make(cell) for make, cell in zip(types, cells, strict=True)))
        except ValueError:
            return None

    bad = end = 0
    for cells in (reader := csv.reader(text)):
        start, end = end + 1, reader.line_num
        if start == 1 and cells == names:
            continue
        if not bad and (record := record_of(cells)):
            records.append(record)
            continue
        # A quote too many takes the lines after it into its cell.
        swallowed = csv.reader(line for cell in cells for line in cell.splitlines())
        if bad or any(map(record_of, swallowed)):
            raise ValueError(
                f"Line {bad or start} of {file} is not as evaluate writes it, so another program "
                "has changed the file. Restore the file that was measured, or choose another "
                "folder. To change a copy, keep commas between cells, and nan where there is no "
                "number."
            )
        bad = start
    return records, torn or bad > 0


def append_records(file: Path, kind: type[Any], records: Sequence[Any]) -> None:
    """Add records to a file, on disk when this returns; a new one gets the line of names."""
    if not records:
        return
    with open(file, "a", encoding="utf-8", newline="") as stream:
        stream.write(csv_text(records, kind, head=not stream.tell()))
        stream.flush()
        os.fsync(stream.fileno())
