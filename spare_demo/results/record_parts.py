"""The parts of a `result.json` as the objects they were written from; `reopen` puts them together.

What is missing or of the wrong kind raises whatever reading it raises; `Refused` alone has a
sentence to show.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from spare_demo import measures
from spare_demo.comparison.result import KlCurves
from spare_demo.comparison.selections import Curves
from spare_demo.images.geometry import Grid, MultiGrid
from spare_demo.images.preprocess import fit
from spare_demo.models import Answer
from spare_demo.pruners import PRUNERS, LayerPlan, LayerPruner, Pruner
from spare_demo.pruners.inside.base import LayerSet, Stop
from spare_demo.tokens import Selection, as_indices


class Refused(Exception):
    """Something in the file cannot be opened here; the message says what to do next."""


def grid_of(data: Mapping[str, Any], photo: Image.Image) -> Grid | MultiGrid:
    """Where the tokens lie on the photo."""
    views = data.get("views")
    if views is None:  # format 1: a square grid, and how the photo was fitted
        side, aspect = int(data["grid"]["rows"]), data["settings"]["aspect"]
        return fit(photo, 14 * side, 14, aspect, (0, 0, 0))[1]
    parts = tuple(
        Grid(
            photo.size,
            int(part["rows"]),
            int(part["columns"]),
            int(part["patch"]),
            _pair(part["scale"]),
            _pair(part["shift"]),
        )
        for part in views
    )
    if data["place_of_token"] is None:
        return parts[0]
    return MultiGrid(parts, tuple(int(place) for place in data["place_of_token"]))


def _pair(values: Sequence[float]) -> tuple[float, float]:
    x, y = (float(value) for value in values)
    return x, y


def selection_of(item: Mapping[str, Any], n: int) -> Selection:
    """The picks; merged rows come back by what went into them, without their features."""
    margin = item.get("margin")
    if margin is not None:
        margin = numbers_of([math.inf if value is None else value for value in margin])
    features, sources = None, None
    if item.get("sources") is not None:
        sources = _shares(item["sources"], n)
        features = torch.zeros(len(sources), 1)
    order, gain = item["order"], numbers_of(item.get("gain"))
    return Selection(order, gain, features, sources, margin).check(n)


def method_of(
    label: str, item: Mapping[str, Any], selection: Selection, notes: list[str]
) -> Pruner | Selection:
    """What was run under the label; where it is not in this version its set, and a note says so."""
    name = item.get("method")
    if name is None:
        return selection
    try:
        return dataclasses.replace(PRUNERS[name], **item["settings"])  # type: ignore[type-var]
    except (KeyError, TypeError, ValueError):
        notes.append(
            f"The method {str(name)[:40]!r} with these settings is not in this version: its tokens "
            f"are shown as a set of its own, {label!r}."
        )
        return selection


def plan_of(label: str, item: Mapping[str, Any], n: int, depth: int) -> LayerPlan:
    """The schedule of a method inside the language model, as it was."""
    try:
        method: Any = dataclasses.replace(PRUNERS[item["method"]], **item["settings"])  # type: ignore[type-var]
    except (KeyError, TypeError, ValueError):
        method = None
    if not isinstance(method, LayerPruner):
        raise Refused(
            f"The method {str(item['method'])[:40]!r}, which acts inside the language model, is "
            "not in this version. Make the comparison again without it."
        )
    stops = tuple(Stop(*(int(number) for number in stop)) for stop in item["stops"])
    return LayerPlan(method, n, depth, int(item["budget"]), stops)


def _layer_set(item: Mapping[str, Any], n: int) -> LayerSet:
    sources = _shares(item["sources"], n).float() if item["sources"] else None
    return LayerSet(int(item["from_layer"]), as_indices(item["patches"]), sources)


def _shares(rows: Sequence[Sequence[Sequence[float]]], n: int) -> Tensor:
    """[[patch, share], …] of each merged row -> (r, n)."""
    sources = torch.zeros(len(rows), n, dtype=torch.float64)
    for row, parts in zip(sources, rows, strict=True):
        for patch, share in parts:
            row[int(patch)] = share
    return sources


def _of(*kinds: type) -> Callable[[Any], Any]:
    """Reads a value as it is, if it is of one of these kinds."""

    def read(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError
        return value

    return read


# How the fields of an `Answer` are read, by their annotations.
_KINDS: dict[str, Callable[[Any], Any]] = {
    "str": _of(str),
    "int": _of(int),
    "float": _of(int, float),
    "tuple[int, ...]": lambda values: tuple(map(_of(int), values)),
    "tuple[float, ...]": lambda values: tuple(map(_of(int, float), values)),
}


def answer_of(item: Mapping[str, Any], sets: Sequence[Mapping[str, Any]], n: int) -> Answer:
    """The fields that this version has and the file knows; logits were never in it.

    sets: the tokens of each layer, of a method inside the language model.
    """
    values: dict[str, Any] = {
        field.name: _KINDS.get(str(field.type), lambda value: value)(item[field.name])
        for field in dataclasses.fields(Answer)
        if field.name in item
    }
    if not values["kept_per_layer"]:
        raise ValueError
    layer_sets = tuple(_layer_set(found, n) for found in sets)
    return Answer(**values, first_logits=torch.empty(0), layer_sets=layer_sets)


def curves_of(told: Mapping[str, Any]) -> Curves:
    """The reconstruction errors."""
    random = told["random"]
    parts = [numbers_of(random[name]) for name in ("mean", "low", "high")]
    bound = numbers_of(told["svd_bound"])
    if bound is None or any(part is None for part in parts):
        raise ValueError
    mean, low, high = (part for part in parts if part is not None)
    return Curves(
        tuple(int(k) for k in told["budgets"]),
        {label: tuple(float(e) for e in errors) for label, errors in told["errors"].items()},
        {label: (int(k), float(error)) for label, (k, error) in told["points"].items()},
        measures.Spread(mean, low, high),
        bound,
    )


def kl_of(told: Mapping[str, Any] | None) -> KlCurves | None:
    """How far the first word moved at every budget; None where that was not measured."""
    if told is None:
        return None
    mean, low, high = (tuple(float(value) for value in part) for part in told["random"])
    return KlCurves(
        tuple(int(k) for k in told["budgets"]),
        {
            label: tuple(None if value is None else float(value) for value in curve)
            for label, curve in told["series"].items()
        },
        {label: (int(k), float(value)) for label, (k, value) in told["points"].items()},
        (mean, low, high),
        float(told["done"]),
    )


def numbers_of(values: Sequence[float] | None, n: int | None = None) -> Tensor | None:
    """Float64; ValueError unless there are `n` of them, where that is given."""
    if values is None:
        return None
    tensor = torch.tensor([float(value) for value in values], dtype=torch.float64)
    if n is not None and len(tensor) != n:
        raise ValueError
    return tensor
