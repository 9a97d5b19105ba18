"""What the browser needs of one comparison to draw every layer at every budget by itself.

It asks the server for the rest and gets messages.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from typing import Any

from spare_demo.analysis.why import Factors, Reason, leftover, why
from spare_demo.render.png import png_bytes
from spare_demo.results.references import references
from spare_demo.tokens import Selection
from spare_demo.ui.per_layer import identity, per_layer
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import MOST_BYTES, array, comparison_data, source_arrays, to_bytes, to_json

_numbers = itertools.count()  # a message that says the same again must arrive again


def payload(visit: Visit, budget: int, link: str = "") -> dict[str, Any]:
    """The comparison as `to_bytes` takes it: what `comparison_data` gives, and what it lies on.

    js/data.js reads it. `budget` matters to methods that are not nested: their picks are those of
    this budget, and the browser asks the server for others. `link`: the query of an address that
    opens these settings, without what the browser knows better.
    """
    canvas, exploration = visit.canvas, visit.exploration
    selections = exploration.selections(budget)
    sources = {
        slot: source_arrays(selections[slot].sources) for slot in SLOTS if slot in selections
    }
    data = comparison_data(exploration, MOST_BYTES - len(to_bytes(sources)))
    for slot, record in visit.result.methods.items():
        method, item = exploration.methods[slot], data["methods"][slot]
        item["label"] = visit.titles[slot]
        item["merges"] = method.merges
        if record.inside:
            item["lowest"] = record.least_budget
            item["per_layer"] = per_layer(visit, slot)
        elif not method.nested:
            item["budget"] = budget
            item["order"] = array(selections[slot].order, "u2")
            item["sources"] = sources[slot]
    return data | {
        "shown": budget,
        "of": identity(visit),
        "depth": exploration.view.layers,
        "key": "-".join(visit.key),
        "picture": png_bytes(canvas.image, compress_level=3),
        "canvas": {
            "patch": canvas.patch,
            "x": canvas.origin[0],
            "y": canvas.origin[1],
            "width": canvas.size[0],
            "height": canvas.size[1],
            "photos": [list(box) for box in canvas.photos],
            "cropped": canvas.cropped,
        },
        "parts": [
            {"start": start, "rows": part.rows, "cols": part.cols}
            for start, part in zip(canvas.grid.starts, canvas.grid.parts, strict=True)
        ],
        "padding": array(canvas.grid.padding, "u1"),
        "link": link,
        "bibtex": references(visit.result),
        "badge": "tokens of the built-in model" if visit.unknown else "",
        "example": visit.example,
    }


def picks_reply(visit: Visit, slot: str, budget: int) -> str:
    """The picks of one slot at one budget."""
    selection = _selection(visit, slot, budget)
    order, sources = selection.order.tolist(), source_arrays(selection.sources)
    return to_json("picks", slot=slot, budget=budget, order=order, sources=sources)


def _selection(visit: Visit, slot: str, budget: int) -> Selection:
    if slot in visit.exploration.inside:
        raise ValueError(
            f"{visit.titles[slot]} has no single token set: it chooses inside the language "
            "model, layer by layer."
        )
    return visit.exploration.selections(budget)[slot]


def leftover_reply(visit: Visit, slot: str, budget: int) -> str:
    """(n,) leftover shares of one slot at one budget; null where rows are merged."""
    exploration = visit.exploration
    values = leftover(exploration.view.tokens, _selection(visit, slot, budget))
    data = None if values is None else array(values, "f4")
    return to_json("leftover", slot=slot, budget=budget, values=data)


def refusal_reply(sentence: str) -> str:
    """Why there is no file."""
    return to_json("refused", sentence=sentence, number=next(_numbers))


def file_reply(name: str, media_type: str, content: bytes) -> str:
    """A file for the browser to hand over."""
    data = base64.b64encode(content).decode()
    return to_json("file", number=next(_numbers), name=name, type=media_type, data=data)


def why_reply(visit: Visit, patch: int, budget: int, when: str) -> str:
    """Why each method keeps or loses a patch; `when`: "own" pick, "last" in the budget, "first"."""
    exploration = visit.exploration
    picks = exploration.selections(budget)
    steps = {"first": 0, "last": None, "own": None}
    reasons = {}
    for slot in picks:  # those inside the language model have none
        step = len(picks[slot]) - 1 if when == "last" else steps.get(when)
        reasons[slot] = _reason(why(exploration, slot, patch, budget, step))
    return to_json("why", patch=patch, budget=budget, step=when, reasons=reasons)


def _reason(reason: Reason) -> dict[str, Any]:
    """What js/why.js works out itself where it has the features."""
    ins = reason.stand_ins
    return {
        "rank": reason.rank,
        "step": reason.step,
        "factors": _factors(reason.factors),
        "winner": reason.winner,
        "winning": _factors(reason.winning),
        "leftover": reason.leftover,
        "parts": None
        if ins is None
        else [
            {"token": token, "coefficient": coefficient, "share": share}
            for token, coefficient, share in zip(
                ins.tokens, ins.coefficients, ins.shares, strict=True
            )
        ],
    }


def _factors(factors: Factors | None) -> dict[str, float] | None:
    return None if factors is None else dataclasses.asdict(factors)
