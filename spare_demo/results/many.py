"""The pictures of many methods: their grid, and how many of them keep each patch."""

from __future__ import annotations

from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.models import Answer
from spare_demo.render import Canvas, Display, consensus_map, methods_grid
from spare_demo.render.base import Tokens
from spare_demo.render.grid import Cell

MANY = 3
"""Methods from which on a comparison has these pictures; sets made by hand are none."""


def is_of_many(result: Result) -> bool:
    """Whether a comparison has these pictures."""
    return sum(record.name is not None for record in result.methods.values()) >= MANY


def cells(result: Result) -> list[Cell]:
    """What is known so far of every method, in the order compared."""
    whole = result.answers.get(UNPRUNED)
    made = []
    for label, title in result.titles.items():
        answer = result.answers.get(label)
        inside = label in result.inside
        made.append(
            Cell(
                title,
                _last_layer(answer, result.visual_tokens)
                if inside
                else result.selections[label].kept,
                result.errors.get(label),
                result.first_kl.get(label),
                None if answer is None else answer.text,
                answer is not None and whole is not None and answer.text == whole.text,
            )
        )
    return made


def grid(result: Result, canvas: Canvas) -> Display:
    """What every method kept, with its figures and its answer."""
    return methods_grid(canvas, cells(result))


def consensus(result: Result, canvas: Canvas) -> Display | None:
    """How many methods keep each patch; None where fewer than two have one set per picture."""
    kept = [
        selection.kept
        for label, selection in result.selections.items()
        if result.methods[label].name is not None
    ]
    return consensus_map(canvas, kept) if len(kept) > 1 else None


def _last_layer(answer: Answer | None, n: int) -> Tokens | None:
    """The tokens with a row of their own in the last layer; None before the answer is there."""
    if answer is None:
        return None
    return answer.layer_sets[-1].kept if answer.layer_sets else range(n)
