"""The settings of a comparison as the query part of an address, and back.

    ?a=spare&b=cdpruner&k=32&q=What+number+…&scene=wide-1025.png&seed=0&model=built-in@1a2b3c

Only settings travel, and the name of one of the shipped examples: never a visitor's picture, nor
anything that says which it was. Whoever reads one back may have another version of the program, so
every part is judged by itself: what holds is used, and what does not is named in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args
from urllib.parse import urlencode

import gradio as gr

from spare_demo.comparison.request import Request, name_of
from spare_demo.models import Model
from spare_demo.pruners.options import read_method, title_of
from spare_demo.relevance import GuidanceText, TextPieces
from spare_demo.settings import Settings
from spare_demo.ui import panels, tuning
from spare_demo.ui.examples import Example

MOST_CHARACTERS = 8_000
"""Longer addresses are cut off on their way by some servers."""

_TOGETHER = {"shares": False, "together": True}
_NO_METHOD = "there is no method {} here, or not with these settings; the page's default is used."
_STALE = {
    "a": f"A: {_NO_METHOD}",
    "b": f"B: {_NO_METHOD}",
    "k": "A budget of {} does not fit this model's {tokens} tokens.",
    "seed": "The seed {} is not a whole number that this page accepts.",
    "scene": "The example {} is not among those for this model; choose another.",
    "fit": "This model cannot fit a picture by {}.",
    "layer": "Relevance cannot be read from layer {}.",
    "text": "Relevance cannot read the text by {}.",
    "by": "There is no text guidance by {}.",
    "views": "A budget cannot be shared by {} among this model's views.",
    "positions": "Kept tokens cannot have {} positions in this model.",
    "depth": "This language model has no layer {}; its last one is shown.",
}
"""What is said of a value that does not hold here, by its key."""


def encode(request: Request, model: Model, example: str | None) -> str:
    """The query part, without "?", of an address that asks the same; the page adds the budget.

    request: its methods by slot. model: the one that runs. example: file name of the shipped
    example that is looked at, None for any other picture.
    """
    a, b = map(name_of, request.labelled.values())
    by = request.relevance.guidance_text
    views = next(word for word, value in _TOGETHER.items() if value == request.together)
    values = {
        "a": a,
        "b": b,
        "q": request.question or None,
        "scene": example,
        "seed": request.seed,
        "fit": request.aspect,
        "layer": request.relevance.layer,
        "text": request.relevance.text,
        "by": None if by == "clip" else by,
        "views": views if model.several_views else None,
        "positions": request.positions,
        "model": _name_of(model),
    }
    return urlencode({key: value for key, value in values.items() if value is not None})


def decode(
    query: Mapping[str, str], model: Model, settings: Settings, examples: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """A query's keys and values -> what holds here, and what is stale, in sentences.

    What holds is named as the page's controls are, beside "example" and "depth" (the layer of the
    language model looked at, from 1; the page's script sets it).

    Args:
        query: keys that are not a link's (a Space adds some) and empty values do not count.
        model: the one that runs, which bounds what holds.
        settings: bound the question.
        examples: file names of the shipped examples for this model.
    """
    values: dict[str, Any] = {}
    stale: list[str] = []
    tokens, views = model.most_tokens, _TOGETHER if model.several_views else {}
    fields: dict[str, tuple[str, Callable[[str], Any]]] = {
        "a": ("method_a", _method),
        "b": ("method_b", _method),
        "k": ("budget", _whole(1, tokens)),
        "seed": ("seed", _whole(0, 2**32 - 1)),
        "scene": ("example", _one_of(examples)),
        "fit": ("aspect", _one_of(model.aspects)),
        "layer": ("relevance_layer", _one_of((-1, -2))),
        "text": ("relevance_text", _one_of(get_args(TextPieces))),
        "by": ("guidance_text", _one_of(get_args(GuidanceText))),
        "views": ("together", views.__getitem__),
        "positions": ("positions", _one_of(model.position_options)),
        "depth": ("depth", _whole(1, model.layers)),
    }
    for key, (name, read) in fields.items():
        if text := query.get(key):
            try:
                values[name] = read(text)
            except (ValueError, LookupError):
                stale.append(_STALE[key].format(_quote(text), tokens=tokens))
    try:
        if question := settings.check_question(query.get("q", "")):
            values["question"] = question
    except ValueError as error:
        stale.append(str(error))
    made_with = query.get("model")
    if made_with and made_with != _name_of(model):
        stale.append(
            f"The link was made with the model {_quote(made_with)}; this is {_name_of(model)}, so "
            "picks and answers may differ."
        )
    return values, stale


def controls_of_link(
    query: Mapping[Any, Any], model: Model, settings: Settings, examples: Sequence[Example]
) -> dict[str, Any]:
    """The page's controls as a link's ``query`` has them, and a notice of what it cannot open."""
    names = [example.name for example in examples]
    sent = {str(key): value for key, value in query.items() if isinstance(value, str)}
    changed = bool(sent.get("lost")) and sent.get("model") != _name_of(model)
    if changed:  # the other settings may have been the earlier model's own
        sent = {key: sent[key] for key in ("a", "b", "q", "seed", "lost") if key in sent}
    values, stale = decode(sent, model, settings, names)
    scene = values.get("example")
    controls = {n: v for n, v in values.items() if n not in ("example", "depth")}
    by = values.get("guidance_text", "clip")
    against = partial(model.reason_against, guidance_text=by)
    for part in sorted({"method_a", "method_b"} & controls.keys()):
        method = controls[part]
        if against(read_method(method)):
            del controls[part]
            stale.append(
                f"{part[-1].upper()}: {title_of(read_method(method))} cannot run "
                "on this model; the page's default is used."
            )
        # With settings, which the menu does not list, or on a model that lacks it by CLIP.
        elif ":" in method or by != "clip":
            menu = tuning.menu(against, method)
            controls[part] = gr.update(choices=menu, value=method)
    if scene:
        example = examples[names.index(scene)]
        controls = {"image": example.path, "question": example.question} | controls
    elif "question" in controls or sent.get("lost"):
        controls["image"] = None
        if sent.get("lost"):  # of js/lost.js, which brings the picture
            stale.append(
                "Press Ask to see your comparison with this model."
                if changed
                else "The page was reloaded. Press Ask to see your comparison again."
            )
        elif not query.get("scene"):  # of an example the notice says why it is not here
            stale.append("A link carries no picture. Choose one and press Ask.")
    return controls | {"notice": panels.message_html(" ".join(stale))}


def _name_of(model: Model) -> str:
    return f"{model.name}@{model.revision}"


def _method(text: str) -> str:
    read_method(text)
    return text


def _one_of(values: Iterable[Any]) -> Callable[[str], Any]:
    return {str(value): value for value in values}.__getitem__


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) <= 12
        if not plain or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return read


def _quote(text: str) -> str:
    """A stranger's words, short enough to be shown in a sentence."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return repr(plain if len(plain) <= 40 else plain[:39] + "…")
