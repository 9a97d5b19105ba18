"""Questions about drawn scenes that nobody has seen, and what the package itself finds of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from visitors import Comparison, Visitor

from spare_demo import compare
from spare_demo.models import Model
from spare_demo.scenes import sets

METHODS = ("spare", "cdpruner")
BUDGET = 64


@dataclass(frozen=True)
class Question:
    """A picture of its own, a question about it, and what a page must show of them."""

    picture: Path
    text: str
    expected: Comparison


def set_controls(visitor: Visitor) -> None:
    """Let a visitor ask with what is expected."""
    visitor.set(method_a=METHODS[0], method_b=METHODS[1], budget=BUDGET)


def draw_questions(model: Model, number: int, folder: Path) -> Iterator[Question]:
    """As many, each about another scene.

    model: of the same name as the page's. folder: where the pictures are written.
    """
    seeds = (s for s in count() if sets.sample_of("page", s).questions)
    for seed in islice(seeds, number):
        text = sets.sample_of("page", seed).questions[0].text
        path = folder / f"scene-{seed}.png"
        sets.save("page", seed, path)
        result = compare(model, path, text, METHODS, BUDGET)
        yield Question(
            path,
            text,
            Comparison(
                text,
                tuple(answer.text for answer in result.answers.values()),
                tuple(tuple(kept.order.tolist()) for kept in result.selections.values()),
            ),
        )
