"""What ran under a label, in words, and what its curves mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spare_demo.comparison.selections import Exploration
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.options import fields_of, title_of


@dataclass(frozen=True)
class MethodRecord:
    """What ran under a label, in words.

    Attributes:
        name: in the table of methods; None for a set made by hand.
        title: on pictures.
        settings: its fields' values.
        inside: whether it chooses inside the language model, layer by layer.
        planned_by_hand: whether it ran by a schedule made by hand, not by its own.
        least_budget: the least that its schedule can meet on this picture; 1 for all others.
        counting_note: how its paper counts a budget, where that is not the mean over layers.
    """

    name: str | None
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    inside: bool = False
    planned_by_hand: bool = False
    least_budget: int = 1
    counting_note: str = ""

    def method(self) -> Any:
        """The method as it was set; None for a set made by hand.

        Raises ValueError, with a sentence to show, where the table has no such method.
        """
        if self.name is None:
            return None
        try:
            return dataclasses.replace(PRUNERS[self.name], **self.settings)  # type: ignore[type-var]
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"The method {self.name[:40]!r} with these settings is not in this version. Put it "
                "into spare_demo.PRUNERS, or use the version that made the result."
            ) from None

    @property
    def budget_is_average(self) -> bool:
        """As `Method.budget_is_average`; True for a set made by hand."""
        method = self.method()
        return method is None or bool(method.budget_is_average)


def record_of(exploration: Exploration, label: str) -> MethodRecord:
    """The record of what an exploration compares under a label."""
    method: Any = exploration.methods[label]
    by_hand = method.by_hand
    if by_hand and not method.inside:
        return MethodRecord(None, label)
    if by_hand:
        method = method.ready.method
    return MethodRecord(
        method.name,
        title_of(method, exploration.view.tokens.by_words),
        {name: getattr(method, name) for name in fields_of(method)},
        method.inside,
        by_hand,
        method.lowest(exploration.n, exploration.view.layers),
        method.counting_note,
    )


def inside_note(methods: Mapping[str, MethodRecord], titles: Mapping[str, str]) -> str:
    """What k is of methods inside the language model: a sentence each, or ""."""
    sentences = []
    for label, record in methods.items():
        if not record.inside:
            continue
        least, note = record.least_budget, record.counting_note
        below = f"; below {least} it has no schedule" if least > 1 else ""
        if not record.budget_is_average:
            counts = f"is counted as its paper counts: {note}"
        elif note:
            counts = f"is the average over layers (its paper counts {note})"
        else:
            counts = "is the average over layers"
        sentences.append(f"k of {titles[label]} {counts}{below}.")
    return " ".join(sentences)
