"""result.json of format 2 in the layout of format 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from spare_demo.comparison.request import UNPRUNED
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.options import title_of


def upgrade(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of format 3; raises whatever reading a part that is not there raises."""
    n, settings = data["visual_tokens"], dict(data["settings"])
    settings["relevance"] = {
        "layer": settings.pop("relevance_layer"),
        "text": settings.pop("relevance_text"),
    }
    selections, plans, answers = data["selections"], data["plans"], data["answers"]
    curves, kl = data["reconstruction"], data["kl"]
    size = [data["picture"]["width"], data["picture"]["height"]]
    parts = [_grid(part, size) for part in data["views"]]
    place = data["place_of_token"]
    every = {**selections, **plans}
    items = {label: every[label] for label in answers if label != UNPRUNED}
    return {
        **{name: data[name] for name in ("question", "prompt", "relevance", "notes")},
        **{name: data[name] for name in ("encode_seconds", "relevance_seconds")},
        "model": data["model"]["name"],
        "revision": data["model"]["revision"],
        "grid": parts[0] if place is None else {"parts": parts, "place": place},
        "settings": settings,
        "visual_tokens": n,
        "methods": {label: _method(label, item, n) for label, item in items.items()},
        "selections": {
            label: {name: item[name] for name in ("order", "gain", "margin")}
            | {"sources": _shares(item["sources"], n)}
            for label, item in selections.items()
        },
        "weights": {label: item["weight"] for label, item in selections.items()},
        "leftover": {label: item["leftover"] for label, item in selections.items()},
        "select_seconds": {
            label: item["select_seconds"]
            for label, item in selections.items()
            if item["select_seconds"] is not None
        },
        "plans": {label: _plan(item) for label, item in plans.items()},
        "answers": {
            label: answer | {"layer_sets": _layer_sets(plans.get(label, {}), n)}
            for label, answer in answers.items()
        },
        "reconstruction": curves | {"bound": curves["svd_bound"]},
        "kl": kl,
    }


def _grid(part: Mapping[str, Any], size: list[int]) -> dict[str, Any]:
    same = {name: part[name] for name in ("rows", "patch", "scale", "shift")}
    return {"photo_size": size, "cols": part["columns"], **same}


def _method(label: str, item: Mapping[str, Any], n: int) -> dict[str, Any]:
    name, inside = item["method"], "stops" in item
    values = {"name": name, "title": label, "settings": item["settings"], "inside": inside}
    method = _configured(item)
    if method is None:
        return values
    values["settings"] = dataclasses.asdict(method)  # with those that came later
    values["title"] = title_of(method)
    if inside:
        values["least_budget"] = method.lowest(n, len(item["per_layer"]))
        values["counting_note"] = method.counting_note
    return values


def _configured(item: Mapping[str, Any]) -> Any:
    """The method as it was set; None for a set made by hand, or one that this version lacks."""
    try:
        return dataclasses.replace(PRUNERS[item["method"]], **item["settings"])  # type: ignore[type-var]
    except (KeyError, TypeError, ValueError):
        return None


def _plan(item: Mapping[str, Any]) -> dict[str, Any]:
    method, counted = _configured(item), item["as_the_paper_counts"]
    if method is not None and method.counting_note and method.budget_is_average:
        counted = float(item["last_layer"])  # that format wrote the average over layers
    stops = [dict(zip(("layer", "keep", "merged"), stop, strict=True)) for stop in item["stops"]]
    return {
        "budget": item["budget"],
        "depth": len(item["per_layer"]),
        "stops": stops,
        "per_layer": item["per_layer"],
        "average": item["average"],
        "last": item["last_layer"],
        "counted": counted,
    }


def _layer_sets(item: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    return [
        {
            "layer": layer["from_layer"],
            "kept": layer["patches"],
            "sources": _shares(layer["sources"] or None, n),
        }
        for layer in item.get("kept", ())
    ]


def _shares(rows: list[Any] | None, n: int) -> dict[str, Any] | None:
    return None if rows is None else {"patches": n, "rows": rows}
