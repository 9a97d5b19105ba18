"""The results folder: settings, and a line of CSV per question, method and budget, only added to.

Lines are written picture by picture, when all of a picture is done; whatever cuts a run off loses
the picture in flight. Results of other settings are never mixed with these.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout  # comes with torch

from spare_demo.evaluation.records import (
    Key,
    Place,
    Row,
    Skipped,
    append_records,
    csv_text,
    read_records,
)
from spare_demo.pruners import PRUNERS

SETTINGS, ANSWERS, PLACES = "settings.json", "results.csv", "relevance.csv"
SKIPPED = "skipped.csv"

FORMAT = 1
"""Of the folder, as docs/EVALUATION_FOLDER.md describes it."""
_ABSENT = {"format": 1, "positions": "compact"}
_ABSENT_OF_METHODS = {"size_bias": "none", "statistics": "joint", "text": "question"}
"""What the files of earlier versions mean, which lack some settings."""


class Results(contextlib.AbstractContextManager["Results"]):
    """What a folder holds, and the way to add to it. Use as a context: it keeps others out."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], questions: Mapping[Key, int], each: int
    ):
        """Open a folder, new or begun by a run of the same settings.

        settings: all that results depend on, as JSON takes it.
        questions: how many each picture has, in the order in which they are asked. each: how many
            rows a question gives, unless it was skipped. A picture with fewer is measured again.

        Raises ValueError: the folder holds results of other settings, something else or what
        another program changed, or is in use. OSError: it cannot be written.
        """
        self.folder = folder
        self._order = {key: number for number, key in enumerate(questions)}
        self.rows: list[Row] = []
        self.places: list[Place] = []
        self.skipped: list[Skipped] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / ".lock", timeout=0, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            sentence = f"Another run is writing to {folder}. Choose another folder."
            raise ValueError(sentence) from None
        try:
            if not has_results(folder, settings):
                text = json.dumps({"format": FORMAT, **settings}, indent=2)
                _replace(folder / SETTINGS, text + "\n")
                (folder / SKIPPED).unlink(missing_ok=True)  # under other settings
            self._read(questions, each)
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def done(self) -> set[Key]:
        """The pictures that are finished."""
        return {(each.set, each.picture) for *_, records in self._files for each in records}

    def add(
        self, rows: Sequence[Row], places: Sequence[Place] = (), skipped: Sequence[Skipped] = ()
    ) -> None:
        """Add all of one picture, on disk when this returns."""
        # The answers last: with them the picture counts as done.
        for (file, kind, records), new in zip(self._files, (places, skipped, rows), strict=True):
            append_records(file, kind, new)
            records += new

    def sort(self) -> None:
        """Put the pictures into the order in which they are asked, whoever was done first.

        Files that are in order stay as they are.
        """

        def position(record: Row | Place | Skipped) -> int:
            return self._order[record.set, record.picture]

        for file, kind, records in self._files:
            if (ordered := sorted(records, key=position)) != records:
                records[:] = ordered
                _replace(file, csv_text(records, kind))

    @property
    def _files(self) -> list[tuple[Path, type[Any], list[Any]]]:
        """Each file with the kind of its records and those that are read; the answers last."""
        return [
            (self.folder / PLACES, Place, self.places),
            (self.folder / SKIPPED, Skipped, self.skipped),
            (self.folder / ANSWERS, Row, self.rows),
        ]

    def _read(self, questions: Mapping[Key, int], each: int) -> None:
        read = {kind: read_records(file, kind) for file, kind, _ in self._files}
        counts = Counter((row.set, row.picture) for row in read[Row][0])
        skipped = Counter((record.set, record.picture) for record in read[Skipped][0])
        whole = {
            key
            for key in (*counts, *skipped)
            if counts[key] == each * (questions.get(key, 0) - skipped[key])
        }
        for file, kind, records in self._files:
            stored, torn = read[kind]
            records += [record for record in stored if (record.set, record.picture) in whole]
            # Only what a cut-off run left is ever written again.
            if torn or len(records) < len(stored):
                _replace(file, csv_text(records, kind))


def has_results(folder: Path, settings: Mapping[str, Any], partly: bool = False) -> bool:
    """Whether a folder has results, which then are of these settings.

    partly: `settings`, and its model, have only what is known before the model is loaded.

    Raises ValueError, with a sentence to show, for results of other settings, or damaged ones.
    """
    file = folder / SETTINGS
    if not file.exists():
        if (folder / ANSWERS).exists():
            raise ValueError(f"{folder} has a {ANSWERS} but no {SETTINGS}. Choose another folder.")
        return False
    stored = _read_settings(file)
    if {"format", "model"} <= stored.keys() and not (folder / ANSWERS).exists():
        return False  # of a run that was refused, or cut off, before its first picture was done
    current = json.loads(json.dumps({"format": FORMAT, **settings}))  # which knows no tuples
    stored, current = _complete(stored), _complete(current)
    if partly:
        current = stored | {k: current[k] for k in ("format", *settings)}
        if isinstance(stored.get("model"), dict):
            current["model"] = stored["model"] | settings.get("model", {})
    if different := [k for k in {**stored, **current} if stored.get(k) != current.get(k)]:
        raise ValueError(
            f"{folder} holds results of other settings ({', '.join(different)}). "
            "Use the same settings to resume, or another folder; board shows both together."
        )
    return True


def load(folder: Path) -> tuple[dict[str, Any], list[Row], list[Place]]:
    """Settings and results of a folder, as they are.

    Raises ValueError, with a sentence to show, if it has none, is damaged or of another format, or
    was changed by another program.
    """
    if not (folder / SETTINGS).is_file():
        raise ValueError(f"{folder} holds no results. Run evaluate into it first.")
    settings = _complete(_read_settings(folder / SETTINGS))
    if settings["format"] != FORMAT:
        raise ValueError(
            f"{folder} has format {settings['format']}; this version reads format {FORMAT}. Use "
            "the version that wrote it, or measure again into another folder."
        )
    return settings, read_records(folder / ANSWERS, Row)[0], read_records(folder / PLACES, Place)[0]


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        json.dumps(settings, ensure_ascii=False).encode()  # not with half a pair of characters
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(f"{SETTINGS} in {file.parent} is damaged. Choose another folder.")
    return settings


def _replace(file: Path, text: str) -> None:
    """Write a whole file in the place of another; nobody ever reads a part of it."""
    temporary = file.with_suffix(file.suffix + ".new")
    temporary.write_text(text, encoding="utf-8", newline="")
    os.replace(temporary, file)


def _complete(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with what the files of earlier versions mean, which lack some fields."""
    relevance = settings.get("relevance")
    if isinstance(relevance, dict):
        settings = settings | {"relevance": {"guidance_text": "clip"} | relevance}
    methods = settings.get("methods")
    if isinstance(methods, dict):
        settings = settings | {"methods": {k: _complete_method(m) for k, m in methods.items()}}
    return _ABSENT | settings


def _complete_method(settings: Any) -> Any:
    """The settings of a method, with those that it has now and had not when they were written."""
    method = PRUNERS.get(str(settings.get("name"))) if isinstance(settings, dict) else None
    absent = {k: value for k, value in _ABSENT_OF_METHODS.items() if hasattr(method, k)}
    return absent | settings if absent else settings
