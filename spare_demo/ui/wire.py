"""One comparison in as few bytes as a browser needs to answer a pointer or a slider by itself.

`compact` gives a dict that is JSON as it stands. A numeric array in it is
{"type": "f4" | "i4" | "i2" | "u2" | "u1", "data": base64 of little-endian values}:

    format          1
    n, rows, columns  of the token grid, raster order; of several views side by side, the cells
    cells           u2 (n,) the cell, row * columns + column, of each token of several views;
                      null for one view, where token and cell are the same
    view            u1 (n,) which view (crop) a token belongs to; null for one view
    cosine          f4 (n,) raw cosine with the question; null without one
    squared_norms   f4 (n,) ||x||^2
    methods         {label: method}, in the order compared
      name, title     name: null for a set made by hand
      nested          whether the first k of `order` are the picks for budget k; a method that is
                      not nested is asked of the server (order null); a hand-made set is its order
      inside          whether it acts inside the language model, layer by layer: no set, no order
      order           u2 (n,) token indices as picked
      gain            f4 (n,) the criterion's value at each pick; null where there is none
      weight          f4 (n,) text weight as the method used it (rho, w, ...); null without text
      factors         null, or {"magnitude": "squared_norms" or null for 1, "text": f4 (n,)}:
                      the method picks the largest novelty x magnitude x text
    coordinates     {"rank": r, "step": s, "wide": i4 (n, p), "narrow": i2 (n, r - p),
                    "row_error": e}, or null: ask the server

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
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.selections import Exploration
from spare_demo.tokens import VisualTokens

FORMAT = 1
MOST_BYTES = 340_000
"""Of the whole dict as JSON; answers and words travel beside it."""
DEPENDENT = 3
TOLERANCE = 10
ROW_ERROR = 1e-4
"""Directions further off than this are not sent."""

_MOST_PARTS = 12_000  # of merged rows, patches and their shares

# Steps of the coordinates that are tried, finest first; float32 features hold no more.
_STEPS = tuple(2.0**-e for e in range(23, 13, -1))


def compact(exploration: Exploration, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The dict described above, at most `most_bytes` as JSON.

    Coordinates are as fine as fits, and left out where that is coarser than `ROW_ERROR`. Raises
    ValueError where even the rest does not fit.
    """
    view = exploration.view
    tokens = view.tokens
    told: dict[str, Any] = {
        "format": FORMAT,
        "n": tokens.n,
        "rows": view.grid.rows,
        "columns": view.grid.cols,
        "cells": None if tokens.view is None else packed(view.grid.cells, "u2"),
        "view": None if tokens.view is None else packed(tokens.view, "u1"),
        "cosine": _floats(exploration.view.relevance),
        "squared_norms": packed(tokens.features.detach().double().square().sum(dim=1), "f4"),
        "methods": {label: _method(exploration, label) for label in exploration.methods},
        "coordinates": None,
    }
    room = most_bytes - size_of(told)
    if room < 0:
        raise ValueError(
            f"{tokens.n} tokens and {len(told['methods'])} methods do not fit {most_bytes:,} "
            "bytes. Compare fewer methods at a time."
        )
    # base64 makes 4 bytes of 3; the names and numbers around it take less than 200.
    told["coordinates"] = coordinates(tokens, max(0, room - 200) * 3 // 4)
    return told


def coordinates(tokens: VisualTokens, most_bytes: int) -> dict[str, Any] | None:
    """Directions of the tokens in at most `most_bytes` before base64, or None where too few."""
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
        "wide": packed(steps[:, :wide], "i4"),
        "narrow": packed(steps[:, wide:], "i2"),
        "row_error": row_error,
    }


def _last(flags: Tensor) -> int:
    """How many columns there are up to the last flagged one."""
    places = flags.nonzero()
    return int(places.max()) + 1 if len(places) else 0


def packed(values: Tensor, kind: str) -> dict[str, str]:
    """An array as the browser reads it; kind: "f4", "i4", "i2", "u2" or "u1", little-endian."""
    array = values.detach().cpu().numpy().astype(np.dtype(f"<{kind}"))
    return {"type": kind, "data": base64.b64encode(array.tobytes()).decode("ascii")}


def packed_sources(sources: Tensor | None) -> dict[str, Any] | None:
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
        "counts": packed((parts != 0).sum(dim=1), "u2"),
        "patches": packed(patches, "u2"),
        "shares": packed(parts[rows, patches], "f4"),
    }


def size_of(told: dict[str, Any]) -> int:
    """Bytes of the dict as JSON."""
    return len(json.dumps(told, separators=(",", ":")).encode())


def _method(exploration: Exploration, label: str) -> dict[str, Any]:
    method, full = exploration.methods[label], exploration.full.get(label)
    if method.by_hand and not method.inside:
        full = exploration.selections(exploration.n)[label]
    told: dict[str, Any] = {
        "name": None,
        "title": label,
        "nested": False,
        "inside": label in exploration.inside,
        "order": None if full is None else packed(full.order, "u2"),
        "gain": None if full is None else _floats(full.gain),
        "weight": _floats(exploration.weights[label]),
        "factors": None,
    }
    if not method.by_hand:
        told |= {"name": method.name, "title": method.title, "nested": method.nested}
        factors = method.factors(exploration.view.tokens)
        if factors is not None:
            plain = bool((factors[0] == 1).all())
            told["factors"] = {
                "magnitude": None if plain else "squared_norms",
                "text": packed(factors[1], "f4"),
            }
    return told


def _floats(values: Tensor | None) -> dict[str, str] | None:
    return None if values is None else packed(values, "f4")
