"""A comparison read back from `result.json`, to be looked at and drawn again without its model.

Everything that was found is there, except the tensors it was found in: features, logits and the
prompt's ids are empty, and nothing can be asked of them. A file of another version is opened as
far as it goes, and says what differs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from spare_demo.comparison.request import UNPRUNED, Chosen, Request
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import Exploration
from spare_demo.images.load import open_picture
from spare_demo.models import Picture, View
from spare_demo.relevance import RelevanceOptions
from spare_demo.results.record import FORMAT, digest, versions
from spare_demo.results.record_parts import (
    Refused,
    answer_of,
    curves_of,
    grid_of,
    kl_of,
    method_of,
    numbers_of,
    plan_of,
    selection_of,
)
from spare_demo.tokens import VisualTokens

_GREY = (160, 160, 160)

# What reading a part raises that is missing, of another kind, or beyond any number.
_DAMAGE = (
    *(AttributeError, LookupError, TypeError, ValueError),
    *(ArithmeticError, RuntimeError, OSError),
)


@dataclass(frozen=True, eq=False)
class Reopened:
    """What was in the file.

    Attributes:
        comparison: as it was found; its model and revision are the file's. Its request, hand-made
            sets included, can be run again.
        notes: what differs from this version, and what could not be opened, in sentences.
        pictured: whether the picture is the true one; else it is a grey one.
    """

    comparison: Result
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
        return _rebuilt(data, photo, notes)
    except Refused as error:
        raise ValueError(str(error)) from None
    except _DAMAGE:
        if data.get("format") == FORMAT:
            raise _unreadable() from None
        raise ValueError(
            f"{_other_format(data)}, and this one cannot read it. Use the version that made it."
        ) from None


def _rebuilt(data: Mapping[str, Any], photo: Image.Image | None, notes: list[str]) -> Reopened:
    told, n = data["settings"], int(data["visual_tokens"])
    picture = _photo(data["picture"], photo, notes)
    grid = grid_of(data, picture)
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
    selections = {label: selection_of(item, n) for label, item in data["selections"].items()}
    inside = data.get("plans", {})
    plans = {label: plan_of(label, item, n, view.layers) for label, item in inside.items()}
    methods: Chosen = {label: plan.method for label, plan in plans.items()}
    for label, item in data["selections"].items():
        methods[label] = method_of(label, item, selections[label], notes)
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
    view.__dict__["relevance"] = numbers_of(data.get("relevance"), n)
    found.__dict__["weights"] = {
        label: numbers_of(item.get("weight"), n) for label, item in data["selections"].items()
    }
    found.__dict__["curves"] = curves_of(data["reconstruction"])
    request = Request(
        image=picture,
        question=view.question,
        methods=methods,
        budget=int(told["budget"]),
        max_new_tokens=int(told["max_new_tokens"]),
        seed=int(told["seed"]),
        aspect=told["aspect"],
        relevance=RelevanceOptions(told["relevance_layer"], told["relevance_text"]),
        together=bool(told.get("together", False)),
    )
    comparison = Result(
        request=request,
        exploration=found,
        selections=selections,
        plans=plans,
        answers={
            label: answer_of(item, inside.get(label, {}).get("kept", ()), n)
            for label, item in data["answers"].items()
        },
        model=str(data["model"]["name"]),
        revision=str(data["model"]["revision"]),
        kl=kl_of(data.get("kl")),
    )
    comparison.__dict__["leftover"] = {
        label: numbers_of(item.get("leftover"), n) for label, item in data["selections"].items()
    }
    pictured = photo is not None or "png" in data["picture"]
    return Reopened(comparison, tuple(notes), pictured)


def _differences(data: Mapping[str, Any]) -> list[str]:
    """What another version made otherwise, in sentences."""
    notes = []
    if data.get("format") != FORMAT:
        notes.append(f"{_other_format(data)}; what both know is shown.")
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


def _other_format(data: Mapping[str, Any]) -> str:
    """The beginning of a sentence about a file of another format."""
    told = data.get("format")
    age = "a newer" if isinstance(told, int) and told > FORMAT else "an older"
    return (
        f"This result was made by {age} version of the program (format {str(told)[:40]}, here "
        f"{FORMAT})"
    )


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
        raise Refused(
            "The picture is not the one this result was made of. Give the one it was made of."
        )
    return photo


def _unreadable() -> ValueError:
    return ValueError(
        "This is no result.json of this program, or it is damaged. Give the file that a comparison "
        "wrote."
    )
