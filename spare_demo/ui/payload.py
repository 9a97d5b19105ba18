"""What the browser needs of one comparison to draw every layer at every budget by itself.

It asks the server for the rest (`replies.py`).
"""

from __future__ import annotations

from typing import Any

from spare_demo.render.png import png_bytes
from spare_demo.results.references import references
from spare_demo.ui.per_layer import identity, per_layer
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import MOST_BYTES, array, comparison_data, source_arrays, to_bytes


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
