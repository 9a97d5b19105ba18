"""A comparison read back from `result.json`, to be looked at and drawn again without its model.

Everything that was found is there, except the tensors it was found in: features, logits and the
prompt's ids are empty, and nothing can be asked of them. A file of another version is opened as
far as it goes, and says what differs.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from spare_demo import measures
from spare_demo.change import KlCurves
from spare_demo.chosen import Chosen
from spare_demo.comparison import Comparison
from spare_demo.cost import UNPRUNED
from spare_demo.exploration import Curves, Exploration
from spare_demo.fitting import fit
from spare_demo.geometry import Grid, MultiGrid
from spare_demo.models import Answer, Picture, View
from spare_demo.pictures import open_picture
from spare_demo.pruners import PRUNERS, LayerPlan, LayerPruner, Pruner
from spare_demo.pruners.plan import LayerSet, Stop
from spare_demo.record import FORMAT, digest, versions
from spare_demo.relevance import RelevanceOptions
from spare_demo.tokens import Selection, VisualTokens, as_indices

_GREY = (160, 160, 160)


@dataclass(frozen=True, eq=False)
class Reopened:
    """What was in the file.

    Attributes:
        comparison: as it was found; its model and revision are the file's.
        methods: what was run under each label, hand-made sets included, to be run again.
        text: the file as it was.
        notes: what differs from this version, and what could not be opened, in sentences.
        pictured: whether the picture is the true one; else it is a grey one.
    """

    comparison: Comparison
    methods: Chosen
    text: str
    notes: tuple[str, ...]
    pictured: bool


def reopen(text: str, photo: Image.Image | None = None) -> Reopened:
    """Read a `result.json`.

    photo: the picture, for a file that does not hold it; upright RGB.

    Raises:
        ValueError: with a sentence to show: no such file, damaged, or a photo that is not the one.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable() from None
    if not isinstance(data, dict) or not isinstance(data.get("selections"), dict):
        raise _unreadable()
    notes = _differences(data)
    try:
        return _rebuilt(data, text, photo, notes)
    except _Refused as error:
        raise ValueError(str(error)) from None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError, OSError):
        newer = data.get("format") != FORMAT
        raise ValueError(" ".join(notes)) if newer and notes else _unreadable() from None


class _Refused(Exception):
    pass


def _rebuilt(
    data: Mapping[str, Any], text: str, photo: Image.Image | None, notes: list[str]
) -> Reopened:
    told, n = data["settings"], int(data["visual_tokens"])
    picture = _photo(data["picture"], photo, notes)
    grid = _grid(data, picture)
    if grid.n != n:
        raise ValueError
    tokens = VisualTokens(features=torch.zeros(n, 1))
    seen = Picture(
        photo=picture,
        pixel_values=torch.empty(0),
        grid=grid,
        features=tokens.features,
        hidden={},
        encode_seconds=float(data["encode_seconds"]),
    )
    view = View(
        picture=seen,
        question=str(data["question"]),
        prompt=str(data["prompt"]),
        input_ids=torch.empty(1, 0, dtype=torch.long),
        tokens=tokens,
        relevance_seconds=float(data["relevance_seconds"]),
        text_stretches=0,
        text_words=(),
        layers=len(data["answers"][UNPRUNED]["kept_per_layer"]),
    )
    selections = {label: _selection(item, n) for label, item in data["selections"].items()}
    inside = data.get("plans", {})
    plans = {label: _plan(label, item, n, view.layers) for label, item in inside.items()}
    methods: Chosen = {label: plan.method for label, plan in plans.items()}
    for label, item in data["selections"].items():
        methods[label] = _method(label, item, selections[label], notes)
    if set(data["answers"]) != {UNPRUNED, *methods}:
        raise ValueError
    methods = {label: methods[label] for label in data["answers"] if label != UNPRUNED}
    seconds = {
        label: float(item["select_seconds"])
        for label, item in data["selections"].items()
        if item.get("select_seconds") is not None
    }
    found = Exploration(view, methods, dict(selections), seconds, tuple(data["notes"]))
    # What is computed from the features elsewhere is here what the file says.
    found.__dict__["relevance"] = _tensor(data.get("relevance"), n)
    found.__dict__["weights"] = {
        label: _tensor(item.get("weight"), n) for label, item in data["selections"].items()
    }
    found.__dict__["curves"] = _curves(data["reconstruction"])
    comparison = Comparison(
        exploration=found,
        selections=selections,
        plans=plans,
        answers={
            label: _answer(item, inside.get(label, {}).get("kept", ()), n)
            for label, item in data["answers"].items()
        },
        model=str(data["model"]["name"]),
        revision=str(data["model"]["revision"]),
        budget=int(told["budget"]),
        max_new_tokens=int(told["max_new_tokens"]),
        seed=int(told["seed"]),
        aspect=told["aspect"],
        relevance=RelevanceOptions(told["relevance_layer"], told["relevance_text"]),
        together=bool(told.get("together", False)),
        kl=_kl(data.get("kl")),
    )
    comparison.__dict__["leftover"] = {
        label: _tensor(item.get("leftover"), n) for label, item in data["selections"].items()
    }
    pictured = photo is not None or "png" in data["picture"]
    return Reopened(comparison, methods, text, tuple(notes), pictured)


def _differences(data: Mapping[str, Any]) -> list[str]:
    """What another version made otherwise, in sentences."""
    notes = []
    if data.get("format") != FORMAT:
        age = (
            "a newer"
            if isinstance(data.get("format"), int) and data["format"] > FORMAT
            else ("an older")
        )
        notes.append(
            f"This result was made by {age} version of the program (format {data.get('format')!r}, "
            f"here {FORMAT}); what both know is shown."
        )
    made, here = data.get("versions"), versions()
    if isinstance(made, Mapping):
        other = [
            f"{name} {made[name]} (here {here[name]})"
            for name in here
            if name in made and made[name] != here[name]
        ]
        if other:
            notes.append(
                f"It was made with {', '.join(other)}: pictures may differ from the first ones in "
                "single pixels, and answers in their words."
            )
    return notes


def _photo(told: Mapping[str, Any], photo: Image.Image | None, notes: list[str]) -> Image.Image:
    size = (int(told["width"]), int(told["height"]))
    if "png" in told:
        photo = open_picture(base64.b64decode(told["png"], validate=True))
    elif photo is None:
        if not 1 <= size[0] * size[1] <= 40_000_000:
            raise ValueError
        notes.append(
            "The file does not hold the picture, so grey stands in its place. Give the picture as "
            "well to see it."
        )
        return Image.new("RGB", size, _GREY)
    if photo.size != size or digest(photo) != told["sha256"]:
        raise _Refused(
            "The picture is not the one this result was made of. Give the one it was made of."
        )
    return photo


def _grid(data: Mapping[str, Any], photo: Image.Image) -> Grid | MultiGrid:
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


def _selection(item: Mapping[str, Any], n: int) -> Selection:
    """The picks; merged rows come back by what went into them, without their features."""
    margin = item.get("margin")
    if margin is not None:
        margin = _tensor([math.inf if value is None else value for value in margin])
    features, sources = None, None
    if item.get("sources") is not None:
        sources = _shares(item["sources"], n)
        features = torch.zeros(len(sources), 1)
    order, gain = item["order"], _tensor(item.get("gain"))
    return Selection(order, gain, features, sources, margin).check(n)


def _method(
    label: str, item: Mapping[str, Any], selection: Selection, notes: list[str]
) -> Pruner | Selection:
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


def _plan(label: str, item: Mapping[str, Any], n: int, depth: int) -> LayerPlan:
    """The schedule of a method inside the language model, as it was."""
    try:
        method: Any = dataclasses.replace(PRUNERS[item["method"]], **item["settings"])  # type: ignore[type-var]
    except (KeyError, TypeError, ValueError):
        method = None
    if not isinstance(method, LayerPruner):
        raise _Refused(
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


def _answer(item: Mapping[str, Any], sets: Sequence[Mapping[str, Any]], n: int) -> Answer:
    """The fields that this version has and the file knows; logits were never in it.

    sets: the tokens of each layer, of a method inside the language model.
    """
    known = {field.name for field in dataclasses.fields(Answer)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in item.items()
        if name in known
    }
    layer_sets = tuple(_layer_set(found, n) for found in sets)
    return Answer(**values, first_logits=torch.empty(0), layer_sets=layer_sets)


def _curves(told: Mapping[str, Any]) -> Curves:
    random = told["random"]
    parts = [_tensor(random[name]) for name in ("mean", "low", "high")]
    bound = _tensor(told["svd_bound"])
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


def _kl(told: Mapping[str, Any] | None) -> KlCurves | None:
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


def _tensor(values: Sequence[float] | None, n: int | None = None) -> Tensor | None:
    if values is None:
        return None
    tensor = torch.tensor([float(value) for value in values], dtype=torch.float64)
    if n is not None and len(tensor) != n:
        raise ValueError
    return tensor


def _unreadable() -> ValueError:
    return ValueError(
        "This is no result.json of this program, or it is damaged. Give the file that a comparison "
        "wrote."
    )
