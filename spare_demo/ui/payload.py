"""What the browser needs of one comparison to draw every layer at every budget by itself.

It asks the server for the rest (`replies.py`). A method inside the language model has no single
token set: what it kept in each layer is known once it has answered, and small, two bits per patch
for each place where tokens leave.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from spare_demo.pruners.plan import LayerSet
from spare_demo.render.base import png_bytes
from spare_demo.results.references import references
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import (
    MOST_BYTES,
    Array,
    array,
    comparison_data,
    source_arrays,
    to_bytes,
    to_numbered_json,
)


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
    }


def identity(visit: Visit) -> str:
    """The same for visits that look at one picture with one question and the same methods."""
    request = visit.request
    parts = (visit.key, request.labelled, request.options(budget=1), request.question)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def per_layer(visit: Visit, slot: str) -> dict[str, Any] | None:
    """A slot's tokens in every layer, at the budget of its answer; None where there is none.

    budget       as asked for
    counts       visual rows of each layer
    sets         from which layer on: kept, merged (bits of (n,) patches, the first the lowest of
                 a byte), rows: how many merged rows there are, sources: what is in each of them,
                 grown: whether they are kept patches' own
    sentence     what the visitor reads about them
    """
    answer = visit.result.answers.get(slot)
    if slot not in visit.exploration.inside or answer is None or not answer.layer_sets:
        return None
    return {
        "budget": visit.result.budget,
        "counts": list(answer.kept_per_layer),
        "sets": [_set(layer_set, visit.exploration.n) for layer_set in answer.layer_sets],
        "sentence": _sentence(visit, slot),
    }


def per_layer_reply(visit: Visit) -> str | None:
    """The tokens of all slots inside the language model, in a message."""
    slots = {slot: data for slot in SLOTS if (data := per_layer(visit, slot))}
    if not slots:
        return None
    return to_numbered_json("per-layer", of=identity(visit), slots=slots)


def _sentence(visit: Visit, slot: str) -> str:
    """That there is no single set, and how many tokens there were on average and at the end.

    Also how many entered, where not all did.
    """
    answer, plan = visit.result.answers[slot], visit.result.plans[slot]
    note = visit.result.methods[slot].counting_note
    among = "" if plan.entering is None else f", among {plan.entering.size} chosen before it"
    text = (
        f"{visit.titles[slot]} has no single token set: it chooses inside the language "
        f"model{among}. Its layers got {answer.average_visual_tokens:.1f} visual tokens on "
        f"average, the last one {answer.kept_per_layer[-1]}."
    )
    if note:
        text += f" Its paper counts {plan.counted:.1f}: {note}."
    return text


def _set(layer_set: LayerSet, n: int) -> dict[str, Any]:
    return {
        "layer": layer_set.layer,
        "kept": _bits(layer_set.kept, n),
        "merged": _bits(layer_set.merged, n),
        "rows": layer_set.merged_rows,
        "sources": source_arrays(layer_set.sources),
        "grown": layer_set.grown,
    }


def _bits(patches: Tensor, n: int) -> Array:
    flags = torch.zeros(-(-n // 8) * 8, dtype=torch.long)
    flags[patches] = 1
    return array((flags.view(-1, 8) << torch.arange(8)).sum(dim=1), "u1")
