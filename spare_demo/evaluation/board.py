"""Results of several folders side by side: every method, budget and model on the same questions.

Questions that not every column of a set has are left out, so that all scores are of the same ones
and every difference is paired.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation.budgets import budget_words
from spare_demo.evaluation.records import BLANK, Row
from spare_demo.evaluation.results import load
from spare_demo.evaluation.statistics import Column, Estimate, holm
from spare_demo.evaluation.summary import Summary, summarise

Question = tuple[str, str, str, int]
"""Picture, question, right answers, and which one of those that are alike in all three, from 0."""

Answers = dict[Column, dict[Question, Row]]
"""By method and budget, which is 0 for "unpruned" and "blank"."""

_OF_RUN = ("format", "model", "methods", "variants", "budgets", "blank", "questions")
"""What folders of one model may differ in, and the model, whose fields count one by one."""


@dataclass(frozen=True)
class Folder:
    """A folder of results, as `evaluate` wrote it.

    Attributes:
        path: as it was given.
        model: the model's name; where folders have it with different settings, with those.
        finished: whether a run was summed up there, which is done at its end.
    """

    path: Path
    model: str
    settings: Mapping[str, Any]
    rows: Sequence[Row]
    finished: bool


@dataclass(frozen=True)
class Comparison:
    """A method against the baseline, of the same model, on the same questions.

    Attributes:
        difference: of accuracy, with its interval.
        gained, lost: questions that only the method, only the baseline answers right.
        p: of the exact paired test over pictures. adjusted: by Holm, for all tests of the set.
    """

    model: str
    method: str
    budget: int | str
    difference: Estimate
    gained: int
    lost: int
    p: float
    adjusted: float


@dataclass(frozen=True)
class SetBoard:
    """What is compared on one set.

    Attributes:
        questions: how many every column has. left_out: how many some have and others have not.
        summaries: by model, of the common questions alone.
    """

    name: str
    questions: int
    left_out: int
    summaries: Mapping[str, Summary]
    comparisons: Sequence[Comparison]


@dataclass(frozen=True)
class Board:
    """baseline: the label that all others are compared with."""

    baseline: str
    folders: Sequence[Folder]
    sets: Sequence[SetBoard]


def read_folders(paths: Sequence[Path]) -> list[Folder]:
    """The folders, their models named apart. Raises ValueError, with a sentence, for a bad one."""
    folders = []
    for path in paths:
        settings, rows, _ = load(path)
        model = settings.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("name"), str):
            raise ValueError(f"{path} does not say its model. Measure again into another folder.")
        if not isinstance(settings.get("methods"), dict):
            raise ValueError(f"{path} does not say its methods. Measure again into another folder.")
        if not rows:
            raise ValueError(f"{path} holds no answers yet. Run evaluate into it first.")
        finished = (path / "summary.json").is_file()
        folders.append(Folder(path, model["name"], settings, rows, finished))
    return _name_models(folders)


def make_board(folders: Sequence[Folder], baseline: str = UNPRUNED) -> Board:
    """Every set's scores and tests.

    baseline: the label of a method, compared at the same budget; "unpruned": all tokens.

    Raises ValueError, with a sentence to show, where two folders differ in the answers of one
    method, where they have no question in common, or where no folder has the baseline.
    """
    measured = dict.fromkeys(row.method for folder in folders for row in folder.rows)
    labels = [label for label in measured if label != BLANK]
    if baseline not in labels:
        raise ValueError(
            f"No folder has the method {brief(baseline)} to compare with. Choose --baseline from: "
            f"{', '.join(labels)}."
        )
    _check_settings(folders)
    names = dict.fromkeys(row.set for folder in folders for row in folder.rows)
    sets = [_set_board(name, folders, baseline) for name in names]
    return Board(baseline, folders, sets)


def _name_models(folders: Sequence[Folder]) -> list[Folder]:
    """The folders, each model's name with what its folders differ in after it."""
    conditions = [_conditions(folder.settings) for folder in folders]
    named = []
    for folder, own in zip(folders, conditions, strict=True):
        alike = [c for f, c in zip(folders, conditions, strict=True) if f.model == folder.model]
        keys = sorted({key for other in alike for key in other})
        apart = [k for k in keys if any(other.get(k) != own.get(k) for other in alike)]
        text = ", ".join(f"{key} {own.get(key) or 'none'}" for key in apart)
        named.append(replace(folder, model=f"{folder.model} ({text})" if text else folder.model))
    return named


def _conditions(settings: Mapping[str, Any]) -> dict[str, str]:
    """What answers depend on beside method, budget and question, by name."""
    model = {k: v for k, v in settings["model"].items() if k not in ("name", "title")}
    rest = {k: v for k, v in settings.items() if k not in _OF_RUN}
    return {
        name.replace("_", " "): value if isinstance(value, str) else json.dumps(value)
        for name, value in (model | rest).items()
    }


def _check_settings(folders: Sequence[Folder]) -> None:
    firsts: dict[tuple[str, str], tuple[Folder, Any]] = {}
    for folder in folders:
        for label, method in folder.settings["methods"].items():
            # What is otherwise than in the rest of the folder counts as well.
            how = method, folder.settings.get("variants", {}).get(label)
            first, how_first = firsts.setdefault((folder.model, label), (folder, how))
            if how != how_first:
                raise ValueError(
                    f"{first.path} and {folder.path} hold {label} with different settings, which "
                    "one line cannot show. Leave one of them out."
                )


def _set_board(name: str, folders: Sequence[Folder], baseline: str) -> SetBoard:
    models, asked = _answers(name, folders)
    every = dict.fromkeys(question for questions in asked for question in questions)
    common = [question for question in every if all(question in questions for questions in asked)]
    if not common:
        raise ValueError(
            f"The folders have no question of the set {name} in common, so that nothing can be "
            "compared. Give folders that were measured on the same questions."
        )
    summaries = {}
    for model, answers in models.items():
        rows = [
            replace(answers[column][question], number=number)
            for number, question in enumerate(common)
            for column in answers
        ]
        summaries[model] = summarise(rows, (), baseline)[name]
    tested = [
        (model, method, budget)
        for model, summary in summaries.items()
        if summary.reference == baseline
        for method in summary.methods
        for budget in summary.budgets
        if (method, budget) in summary.difference
    ]
    p_values = [summaries[model].p_values[method, budget] for model, method, budget in tested]
    comparisons = []
    for (model, method, budget), p, adjusted in zip(tested, p_values, holm(p_values), strict=True):
        own = models[model][method, budget]
        other = models[model][baseline, 0 if baseline == UNPRUNED else budget]
        signs = [int(own[question].right) - int(other[question].right) for question in common]
        difference = summaries[model].difference[method, budget]
        gained, lost = signs.count(1), signs.count(-1)
        comparisons.append(Comparison(model, method, budget, difference, gained, lost, p, adjusted))
    return SetBoard(name, len(common), len(every) - len(common), summaries, comparisons)


def _answers(
    name: str, folders: Sequence[Folder]
) -> tuple[dict[str, Answers], list[dict[Question, None]]]:
    """The answers of a set by model, each column from the first folder that has it; and the
    questions of every column of every folder.

    Raises ValueError where a later folder differs in the answers of a method.
    """
    models: dict[str, Answers] = {}
    asked: dict[tuple[Path, Column], dict[Question, None]] = {}
    origin: dict[tuple[str, str, int | str], Folder] = {}
    for folder in folders:
        alike: Counter[tuple[Any, ...]] = Counter()
        for row in folder.rows:
            if row.set != name:
                continue
            whole = row.method in (UNPRUNED, BLANK)
            column = row.method, 0 if whole else row.budget
            text = row.picture, row.question, row.truth
            question = (*text, alike[column, text])
            alike[column, text] += 1
            asked.setdefault((folder.path, column), {})[question] = None
            first = origin.setdefault((folder.model, *column), folder)
            if first is folder:
                models.setdefault(folder.model, {}).setdefault(column, {})[question] = row
                continue
            earlier = models[folder.model][column].get(question, row)
            if not whole and (earlier.prediction, earlier.right) != (row.prediction, row.right):
                raise ValueError(
                    f"{first.path} and {folder.path} both hold {row.method} at "
                    f"{budget_words(row.budget)} for {folder.model} on {name}, with different "
                    "answers. Leave one of them out."
                )
    return models, list(asked.values())
