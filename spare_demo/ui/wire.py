"""One comparison in as few bytes as a browser needs to answer a pointer or a slider by itself.

`comparison_data` gives a dict with NumPy arrays in it (f4, i4, i2, u2, u1; little-endian):

    n, rows, columns  of the token grid, raster order; of several views side by side, the cells
    cells           u2 (n,) the cell, row * columns + column, of each token of several views;
                      null for one view, where token and cell are the same
    cosine          f4 (n,) raw cosine with the question; null without one
    by              "clip" or "words", what the cosine compares
    squared_norms   f4 (n,) ||x||^2
    methods         {label: method}, in the order compared
      name, title     name: null for a set made by hand
      nested          whether the first k of `order` are the picks for budget k; a method that is
                      not nested is asked of the server (order null); a hand-made set is its order
      inside          whether it acts inside the language model, layer by layer: no set, no order
      order           u2 (n,) token indices as picked
      weight          f4 (n,) text weight as the method used it (rho, w, ...); null without text
      factors         null, or {"magnitude": "squared_norms" or null for 1, "text": f4 (n,)}:
                      the method picks the largest novelty x magnitude x text
    coordinates     {"rank": r, "step": s, "wide": i4 (n, p), "narrow": i2 (n, r - p),
                    "row_error": e}, or null: ask the server; null also where views share the
                    budget, since novelty is then to the picks of a token's own view

Both blocks of coordinates, side by side and times `step`, are the tokens' directions x / ||x|| in r
axes of their own, longest first (the zero token is zero), so that novelty, leftover shares and
projections can be had from them:

    u_i       = |c_i - its projection on the span of the picked ones|^2
    x_i       ~ sum of a_j x_j with a_j = b_j ||x_i|| / ||x_j||, c_i ~ sum of b_j c_j

No direction is off by more than `row_error` in length. A picked token whose residual is shorter
than `DEPENDENT` row errors lies in the span of those before it. Shares along the order of a method
with factors are then within `TOLERANCE` row errors of the exact ones, and those below row_error^2
are rounding. Other sets may hold tokens that all but depend on each other, where nothing that
short is certain: take the server's shares once it has answered.

`to_bytes` makes a file of it, so that the browser turns no text into numbers: 4 bytes with the
length of the head; the head, JSON in UTF-8; then, from the next multiple of 4 on, the arrays one
after the other, each from a multiple of 4. An array stands in the head as {"type", "from",
"count"}, `from` in bytes after the head, `count` in numbers. In a message, which is text
(`to_json`), it is {"type", "data": base64}.
"""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.selections import Exploration
from spare_demo.pruners.views import budget_groups
from spare_demo.tokens import VisualTokens

Array = NDArray[Any]

MOST_BYTES = 255_000
"""Of the file, without the picture; answers and words travel beside it."""
DEPENDENT = 3
TOLERANCE = 10
ROW_ERROR = 1e-4
"""Directions further off than this are not sent."""

_MOST_PARTS = 12_000  # of merged rows, patches and their shares

# Steps of the coordinates that are tried, finest first; float32 features hold no more.
_STEPS = tuple(2.0**-e for e in range(23, 13, -1))

_numbers = itertools.count()


def comparison_data(exploration: Exploration, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The dict described above, at most `most_bytes` as a file.

    Coordinates are as fine as fits, and left out where that is coarser than `ROW_ERROR`, or where
    each view has a share of the budget. Raises ValueError where even the rest does not fit.
    """
    view = exploration.view
    tokens = view.tokens
    data: dict[str, Any] = {
        "n": tokens.n,
        "rows": view.grid.rows,
        "columns": view.grid.cols,
        "cells": None if tokens.view is None else array(view.grid.cells, "u2"),
        "cosine": _floats(view.relevance),
        "by": "words" if tokens.by_words else "clip",
        "squared_norms": array(tokens.features.detach().double().square().sum(dim=1), "f4"),
        "methods": {label: _method(exploration, label) for label in exploration.methods},
        "coordinates": None,
    }
    room = most_bytes - len(to_bytes(data))
    if room < 0:
        raise ValueError(
            f"{tokens.n} tokens and {len(data['methods'])} methods do not fit {most_bytes:,} "
            "bytes. Compare fewer methods at a time."
        )
    if len(budget_groups(tokens)) == 1:
        # The names and numbers around them take less than 250.
        data["coordinates"] = coordinates(tokens, max(0, room - 250))
    return data


def coordinates(tokens: VisualTokens, most_bytes: int) -> dict[str, Any] | None:
    """Directions of the tokens in at most `most_bytes`, or None where too few."""
    if _surely_too_rough(tokens.features, most_bytes // (2 * tokens.n)):
        return None
    x = measures.compact(tokens.features).cpu()
    norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    unit = x / norms.masked_fill(norms == 0, 1.0)
    # However these are rounded they are orthonormal, so turning to them loses nothing.
    axes = torch.linalg.eigh(unit.T @ unit).eigenvectors.flip(1)
    whole = unit @ axes  # (n, min(n, d))
    largest = whole.abs().amax(dim=0)
    for step in _STEPS:
        rank = _last(largest >= step / 2)
        wide = _last(largest > 32_766 * step)
        if tokens.n * (4 * wide + 2 * (rank - wide)) <= most_bytes:
            break
    else:
        return None
    steps = (whole[:, :rank] / step).round()
    error = whole.clone()
    error[:, :rank] -= steps * step
    row_error = float(torch.linalg.vector_norm(error, dim=1).max())
    if row_error > ROW_ERROR:
        return None
    return {
        "rank": rank,
        "step": step,
        "wide": array(steps[:, :wide], "i4"),
        "narrow": array(steps[:, wide:], "i2"),
        "row_error": row_error,
    }


def _surely_too_rough(features: Tensor, most_rank: int) -> bool:
    """Whether some rows alone show, long before all are turned, that so few columns are too rough.

    The columns leave at least the smallest eigenvalues of the rows' inner products, all but the
    `most_rank` largest, in squared errors of these rows together (Eckart-Young).
    """
    n, width = features.shape
    count = 2 * most_rank + 8
    if width <= most_rank or count >= n:  # all of them fit, or to look takes as long as to turn
        return False
    rows = features[:: n // count][:count].detach().cpu().double()
    unit = torch.nn.functional.normalize(rows)
    left = torch.linalg.eigvalsh(unit @ unit.T)[: count - most_rank].sum()
    return bool(left > count * ROW_ERROR**2)


def _last(flags: Tensor) -> int:
    """How many columns there are up to the last flagged one."""
    places = flags.nonzero()
    return int(places.max()) + 1 if len(places) else 0


def array(values: Tensor, kind: str) -> Array:
    """An array as the browser reads it; kind: "f4", "i4", "i2", "u2" or "u1", little-endian."""
    return values.detach().cpu().numpy().astype(np.dtype(f"<{kind}"))


def source_arrays(sources: Tensor | None) -> dict[str, Any] | None:
    """Which patches are in which merged row, row by row.

    sources: (r, n) how much of each patch went into each row.
    Returns counts (r,), how many patches are in each row, and of all of them, row after row, the
    patch and its share. None where nothing is merged, and for more parts than a comparison has
    room for.
    """
    if sources is None:
        return None
    parts = sources.detach().cpu()
    rows, patches = parts.nonzero(as_tuple=True)
    if len(rows) > _MOST_PARTS:
        return None
    return {
        "counts": array((parts != 0).sum(dim=1), "u2"),
        "patches": array(patches, "u2"),
        "shares": array(parts[rows, patches], "f4"),
    }


def to_bytes(data: dict[str, Any]) -> bytes:
    """The file described above; bytes in the data become arrays of u1."""
    arrays = bytearray()

    def replace_arrays(value: Any) -> Any:
        if isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)
        if isinstance(value, np.ndarray):
            start = len(arrays)
            arrays.extend(_pad_to_four(value.tobytes()))
            return {"type": value.dtype.str[1:], "from": start, "count": value.size}
        if isinstance(value, list | tuple):
            return [replace_arrays(item) for item in value]
        if isinstance(value, dict):
            return {name: replace_arrays(item) for name, item in value.items()}
        return value

    head = json.dumps(replace_arrays(data), separators=(",", ":")).encode()
    return len(head).to_bytes(4, "little") + _pad_to_four(head) + bytes(arrays)


def to_json(kind: str, **data: Any) -> str:
    """A message for the page; js/core.js hands it to whoever waits for its kind."""
    return json.dumps({"kind": kind, **data}, default=_array_in_text)


def to_numbered_json(kind: str, **data: Any) -> str:
    """A message with a number of its own: it arrives even where it repeats the one before it."""
    return to_json(kind, number=next(_numbers), **data)


class MadeFile(NamedTuple):
    """A file for the browser to hand over, by its name there."""

    name: str
    media_type: str
    content: bytes


def _array_in_text(value: Array) -> dict[str, str]:
    data = base64.b64encode(value.tobytes()).decode("ascii")
    return {"type": value.dtype.str[1:], "data": data}


def _pad_to_four(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _method(exploration: Exploration, label: str) -> dict[str, Any]:
    method, full = exploration.methods[label], exploration.picks.get(label)
    if method.by_hand and not method.inside:
        full = exploration.selections(exploration.n)[label]
    data: dict[str, Any] = {
        "name": None if method.by_hand else method.name,
        "title": label if method.by_hand else method.title,
        "nested": method.nested,
        "inside": label in exploration.inside,
        "order": None if full is None else array(full.order, "u2"),
        "weight": _floats(exploration.weights[label]),
        "factors": None,
    }
    if factors := method.factors(exploration.view.tokens):
        magnitude, text = factors
        plain = bool((magnitude == 1).all())
        data["factors"] = {
            "magnitude": None if plain else "squared_norms",
            "text": array(text, "f4"),
        }
    return data


def _floats(values: Tensor | None) -> Array | None:
    return None if values is None else array(values, "f4")
