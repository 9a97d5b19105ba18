"""What the page's own script asks about a comparison that is there, and gets as one reply.

None of it runs the language model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spare_demo.models import Model
from spare_demo.results.citation import cite
from spare_demo.ui.errors import sentence
from spare_demo.ui.guide import slider_budget
from spare_demo.ui.payload import (
    file_reply,
    leftover_reply,
    picks_reply,
    refusal_reply,
    why_reply,
)
from spare_demo.ui.permalink import MOST_CHARACTERS
from spare_demo.ui.saved_page import save_visit
from spare_demo.ui.steps import PageChanges, Steps
from spare_demo.ui.visit import SLOTS, Visit


class Replies:
    """Generators of one change, by the name of the part, as the handlers are."""

    def __init__(self, model: Model, steps: Steps) -> None:
        self._model, self._steps = model, steps

    def picks(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """What a method that is not nested keeps at a budget the browser has not seen."""
        k = slider_budget(self._model, asked.get("budget"), visit)
        yield {"reply": picks_reply(visit, _read_slot(asked), k)}

    def leftover(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """Leftover shares, for pictures of which the browser did not get the features."""
        k = slider_budget(self._model, asked.get("budget"), visit)
        yield {"reply": leftover_reply(visit, _read_slot(asked), k)}

    def why(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """Why a patch was kept or lost, likewise."""
        k, patch = slider_budget(self._model, asked.get("budget"), visit), asked.get("patch")
        if type(patch) is not int:
            raise ValueError("Choose a patch on the picture.")
        yield {"reply": why_reply(visit, patch, k, str(asked.get("step")))}

    def cite(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """A zip of what the page shows, for a paper: sent to the browser, kept nowhere here."""
        chosen = [str(name) for name in asked.get("panels") or []]
        link = str(asked.get("link") or "")[:MOST_CHARACTERS] or None
        yield _file(
            "spare-comparison.zip",
            "application/zip",
            lambda: cite(visit.result_to_cite(), chosen, link),
        )

    def save_page(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """The comparison as one HTML file, sent in the same way."""
        yield _file(
            "spare-comparison.html",
            "text/html",
            lambda: save_visit(
                visit, answers=self._steps.answers(visit, visit.result.budget, True)
            ).encode(),
        )


def _file(name: str, media_type: str, make: Callable[[], bytes]) -> PageChanges:
    """A file for the browser; what goes wrong is said beside its button, which waits for a word."""
    try:
        return {"reply": file_reply(name, media_type, make())}
    except Exception as error:
        return {"reply": refusal_reply(sentence(error))}


def _read_slot(asked: Mapping[str, Any]) -> str:
    """The slot that an event of the viewer names."""
    slot = asked.get("slot")
    if slot not in SLOTS:
        raise ValueError("There are two methods, A and B. Choose one of them.")
    return str(slot)
