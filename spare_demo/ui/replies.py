"""What the page's own script asks about a comparison that is there, and gets as one reply.

None of it runs the language model. A reply to a question about a comparison says which one it is
of (`payload.identity`): another may have taken its place in the browser meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from spare_demo.analysis.why import Reason, why
from spare_demo.models import Model
from spare_demo.results.export import cite
from spare_demo.tokens import Selection
from spare_demo.ui.guide import slider_budget
from spare_demo.ui.payload import identity
from spare_demo.ui.permalink import MOST_CHARACTERS
from spare_demo.ui.saved_page import save_visit
from spare_demo.ui.steps import PageChanges, Steps
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import MadeFile, array, source_arrays, to_numbered_json


class Replies:
    """Handlers of one change each."""

    def __init__(self, model: Model, steps: Steps) -> None:
        self._model, self._steps = model, steps

    def picks(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """What a method that is not nested keeps at a budget the browser has not seen."""
        slot, k, selection = self._selection(asked, visit)
        if selection is None:
            yield {"reply": to_numbered_json("picks", of=None)}
            return
        order, sources = selection.order.tolist(), source_arrays(selection.sources)
        values = {"slot": slot, "budget": k, "order": order, "sources": sources}
        yield {"reply": to_numbered_json("picks", of=identity(visit), **values)}

    def leftover(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """(n,) leftover shares, for pictures of which the browser did not get the features.

        null where rows are merged.
        """
        slot, k, selection = self._selection(asked, visit)
        if selection is None:
            yield {"reply": to_numbered_json("leftover", of=None)}
            return
        values = visit.exploration.leftover(selection)
        data = None if values is None else array(values, "f4")
        of = identity(visit)
        yield {"reply": to_numbered_json("leftover", of=of, slot=slot, budget=k, values=data)}

    def _selection(
        self, asked: Mapping[str, Any], visit: Visit
    ) -> tuple[str, int, Selection | None]:
        """The slot and the budget that an event of the viewer names, and the picks there.

        None of a method inside the language model: the page shows the comparison before it still.
        """
        k, slot = slider_budget(self._model, asked.get("budget"), visit), asked.get("slot")
        if slot not in SLOTS:
            raise ValueError("There are two methods, A and B. Choose one of them.")
        return slot, k, visit.exploration.selections(k).get(slot)

    def why(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """Why each method keeps or loses a patch, for such pictures too.

        The step asked for is the patch's "own" pick, the "last" in the budget, or the "first"; of
        several views, in its own.
        """
        k, patch = slider_budget(self._model, asked.get("budget"), visit), asked.get("patch")
        if type(patch) is not int:
            raise ValueError("Choose a patch on the picture.")
        step, reasons = asked.get("step"), {}
        when: Any = step if step in ("first", "last") else "own"
        # Methods inside the language model have no selection, and no reason.
        for slot in visit.exploration.selections(k):
            reasons[slot] = _reason(why(visit.exploration, slot, patch, k, when))
        values = {"patch": patch, "budget": k, "step": when, "reasons": reasons}
        yield {"reply": to_numbered_json("why", of=identity(visit), **values)}

    def cite(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """A zip of what the page shows, for a paper, as a file to hand over."""
        sent = asked.get("panels")
        chosen = [str(name) for name in sent] if isinstance(sent, list) else []
        link = str(asked.get("link") or "")[:MOST_CHARACTERS] or None
        content = cite(visit.result_to_cite(), chosen, link)
        yield {"file": MadeFile("spare-comparison.zip", "application/zip", content)}

    def save_page(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """The comparison as one HTML file, in the same way."""
        page = save_visit(visit, answers=self._steps.answers(visit, visit.result.budget, True))
        yield {"file": MadeFile("spare-comparison.html", "text/html", page.encode())}


def choose_chip(asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
    """The question of the chip that was clicked, in the question's box.

    Raises ValueError for one that the picture on the page was not offered with.
    """
    question = asked.get("question")
    if question not in visit.questions:
        raise ValueError(
            "This question is of another picture. Press Ask to see what is on the page."
        )
    yield {"question": question}


def _reason(reason: Reason) -> dict[str, Any]:
    """What js/why.js works out itself where it has the features."""
    data, ins = dataclasses.asdict(reason), reason.stand_ins
    parts = None
    if ins is not None:
        rows = zip(ins.tokens, ins.coefficients, ins.shares, strict=True)
        parts = [{"token": t, "coefficient": c, "share": s} for t, c, s in rows]
    names = ("rank", "step", "factors", "winner", "winning", "leftover")
    return {name: data[name] for name in names} | {"parts": parts}
