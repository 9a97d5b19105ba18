"""A comparison written down (`result.json`), and lists of picks read back.

Indices are in the order picked, numbers are raw, and nothing tells where on a disk the picture or
the model lay.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import platform
from importlib.metadata import version
from typing import Any

from PIL import Image
from torch import Tensor

import spare_demo
from spare_demo.analysis.cost import cost_rows
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import RANDOM_SEEDS
from spare_demo.models import Answer
from spare_demo.pruners import LayerPlan, Pruner
from spare_demo.pruners.inside.base import LayerSet
from spare_demo.render.png import png_bytes
from spare_demo.tokens import Selection

FORMAT = 2
"""Version of the layout. 2 added all that drawing it again needs; `reopen` reads 1 as well."""

PACKAGES = ("torch", "transformers", "open_clip_torch", "pillow", "numpy", "plotly")
"""Those whose version may change what is found or drawn."""


def versions() -> dict[str, str]:
    """What runs here, by name."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "spare_demo": spare_demo.__version__,
    }


def record(comparison: Result, with_picture: bool = False) -> dict[str, Any]:
    """Everything needed to check or repeat a comparison, as JSON-ready values.

    with_picture: also the photo itself, losslessly, so that it can be drawn again.
    """
    view, exploration = comparison.view, comparison.exploration
    request, curves = comparison.request, exploration.curves
    return {
        "format": FORMAT,
        "model": {"name": comparison.model, "revision": comparison.revision},
        "versions": versions(),
        "picture": {
            "width": view.photo.width,
            "height": view.photo.height,
            "sha256": digest(view.photo),
            **({"png": _base64(png_bytes(view.photo))} if with_picture else {}),
        },
        "question": view.question,
        "prompt": view.prompt,
        "settings": {
            "budget": comparison.budget,
            "max_new_tokens": request.max_new_tokens,
            "seed": request.seed,
            "aspect": request.aspect,
            "together": request.together,
            "relevance_layer": request.relevance.layer,
            "relevance_text": request.relevance.text,
        },
        "visual_tokens": exploration.n,
        "views": [  # LLaVA-NeXT's base view and tiles; else one
            {
                "first_token": start,
                "rows": part.rows,
                "columns": part.cols,
                "patch": part.patch,
                "scale": list(part.scale),
                "shift": list(part.shift),
            }
            for start, part in zip(view.grid.starts, view.grid.parts, strict=True)
        ],
        # Where the tokens of several views come from; see `geometry.MultiGrid`.
        "place_of_token": getattr(view.grid, "place", None),
        "encode_seconds": view.picture.encode_seconds,
        "relevance_seconds": view.relevance_seconds,
        "relevance": _numbers(exploration.view.relevance),
        "notes": list(exploration.notes),
        "selections": {
            label: _selection(comparison, label, selection)
            for label, selection in comparison.selections.items()
        },
        "plans": {
            label: _plan(plan, comparison.answers[label])
            for label, plan in comparison.plans.items()
        },
        "answers": {label: _answer(answer) for label, answer in comparison.answers.items()},
        "cost": [dataclasses.asdict(row) for row in cost_rows(comparison.answers)],
        "reconstruction": {
            "budgets": list(curves.budgets),
            "errors": {label: list(errors) for label, errors in curves.errors.items()},
            "points": {label: list(point) for label, point in curves.points.items()},
            "random": {
                "seeds": list(RANDOM_SEEDS),
                "mean": _numbers(curves.random.mean),
                "low": _numbers(curves.random.low),
                "high": _numbers(curves.random.high),
            },
            "svd_bound": _numbers(curves.bound),
        },
        "kl": None if comparison.kl is None else dataclasses.asdict(comparison.kl),
    }


def read_pick_lists(text: str, label: str) -> dict[str, Selection]:
    """A file of picks -> selections by label; that they fit the picture is checked when used.

    The file holds one list (which gets `label`), {label: list, …}, or a whole result.json.

    Raises:
        ValueError: with a sentence to show: not lists of whole numbers, none at all, or repeats.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_a_list() from None
    if isinstance(data, list):
        return {label: _selection_of(data)}
    if isinstance(data, dict) and isinstance(data.get("selections"), dict):
        data = {
            # Picks can be imported, the rows that they were merged into cannot.
            f"{name} (unmerged)" if isinstance(item, dict) and item.get("sources") else name: (
                item.get("order") if isinstance(item, dict) else item
            )
            for name, item in data["selections"].items()
        }
    if not isinstance(data, dict) or not data or UNPRUNED in data:
        raise _not_a_list()
    return {name: _selection_of(indices) for name, indices in data.items()}


def digest(photo: Image.Image) -> str:
    """sha256 of the upright RGB pixels: the same for one picture in any lossless format."""
    return hashlib.sha256(photo.tobytes()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _selection(comparison: Result, label: str, selection: Selection) -> dict[str, Any]:
    exploration = comparison.exploration
    method = exploration.methods[label]
    settings = dataclasses.asdict(method) if isinstance(method, Pruner) else {}  # type: ignore[call-overload]
    return {
        "method": method.name if isinstance(method, Pruner) else None,  # None: made by hand
        "settings": settings,
        "order": selection.order.tolist(),
        "gain": _numbers(selection.gain),
        "near_ties": selection.near_ties,
        "margin": None  # null: no other token was left
        if selection.margin is None
        else [value if math.isfinite(value) else None for value in selection.margin.tolist()],
        "sources": _sources(selection.sources),
        "weight": _numbers(exploration.weights[label]),
        "leftover": _numbers(comparison.leftover[label]),
        "select_seconds": exploration.seconds_to_select(label, comparison.budget),
    }


def _sources(sources: Tensor | None) -> list[list[list[float]]] | None:
    """For each merged row, in the language model's order, [patch, how much of it went in], …; a
    row without any is the class token's."""
    if sources is None:
        return None
    return [
        [[int(patch), float(row[patch])] for patch in row.nonzero().flatten()]
        for row in sources.cpu()
    ]


def _plan(plan: LayerPlan, answer: Answer) -> dict[str, Any]:
    return {
        "method": plan.method.name,
        "settings": dataclasses.asdict(plan.method),  # type: ignore[call-overload]
        "budget": plan.budget,
        "per_layer": list(plan.per_layer),
        "stops": [[stop.layer, stop.keep, stop.merged] for stop in plan.stops],
        "average": plan.average,
        "as_the_paper_counts": plan.counted,
        "last_layer": plan.last,
        "kept": [_layer_set(found) for found in answer.layer_sets],
    }


def _layer_set(found: LayerSet) -> dict[str, Any]:
    """From which layer on, the patches kept, and what each merged row after them is made of."""
    return {
        "from_layer": found.layer,
        "patches": found.kept.tolist(),
        "sources": _sources(found.sources) or [],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "prompt_tokens": answer.prompt_tokens,
        "visual_tokens": answer.visual_tokens,
        "newline_tokens": answer.newline_tokens,
        "prefill_seconds": answer.prefill_seconds,
        "prefill_operations": answer.prefill_operations,
        "decode_seconds": answer.decode_seconds,
        "kv_cache_bytes": answer.kv_cache_bytes,
        "allocated_bytes": answer.allocated_bytes,
        "kept_per_layer": list(answer.kept_per_layer),
        "average_visual_tokens": answer.average_visual_tokens,
        "ended": answer.ended,
        "log_probabilities": list(answer.log_probabilities),
    }


def _numbers(values: Tensor | None) -> list[float] | None:
    return None if values is None else [float(value) for value in values]


def _selection_of(indices: object) -> Selection:
    whole = isinstance(indices, list | tuple) and all(type(index) is int for index in indices)
    if not whole:
        raise _not_a_list()
    return Selection(indices)  # type: ignore[arg-type]  # a list is read as the tensor it means


def _not_a_list() -> ValueError:
    return ValueError(
        "These picks could not be read. Give patch indices as a list of whole numbers, such as "
        "[3, 17, 240]."
    )
