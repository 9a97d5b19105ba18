"""A question as CLIP's text side reads it: in a pass of its own, or beside the vision pass.

The two towers need nothing of each other. On a GPU the text side is given its work on a second
stream while the vision tower runs (passes.py), and what it read waits here until it is asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor

from spare_demo.models.loading.text_tower import TextTower
from spare_demo.relevance import TextPieces

_KEPT = 4
"""Readings that wait: one for each visitor whose picture was just seen."""


@dataclass(frozen=True, eq=False)
class Reading:
    """text: (m, c) float32 on the tower's device, None where there is nothing to compare with.
    stretches, words: as in `View`.
    """

    text: Tensor | None
    stretches: int = 0
    words: tuple[str, ...] = ()


def read(tower: TextTower, question: str, pieces: TextPieces) -> Reading:
    """One text pass; none for a blank question. Run it in inference mode."""
    if not question.strip():
        return Reading(None)
    if pieces == "stretches":
        text = tower.encode_stretches(question)
        return Reading(text, len(text))
    text, words = tower.encode_tokens(question)
    stretches = -(-(len(words) + 2) // tower.context)  # with BOS and EOS
    return Reading(text if words else None, stretches, tuple(words))


class Ahead:
    """Questions read beside a vision pass, each kept until it is taken."""

    def __init__(self, tower: TextTower) -> None:
        self._tower = tower
        self._read: OrderedDict[tuple[str, TextPieces], Reading] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, question: str, pieces: TextPieces) -> list[Tensor]:
        """Read a question and keep it; the tensors that this left on the device."""
        found = read(self._tower, question, pieces)
        with self._lock:
            self._read[question, pieces] = found
            if len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return [] if found.text is None else [found.text]

    def take(self, question: str, pieces: TextPieces) -> Reading:
        """What was read, or what a pass now reads. Run it in inference mode."""
        with self._lock:
            found = self._read.pop((question, pieces), None)
        return found or read(self._tower, question, pieces)
