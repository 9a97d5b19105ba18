"""A link of the page: a visit's settings as an address, and an address back in the controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import gradio as gr

from spare_demo.models import Model
from spare_demo.settings import Settings
from spare_demo.ui import panels, tuning
from spare_demo.ui.examples import Example
from spare_demo.ui.permalink import State, Views, decode, encode
from spare_demo.ui.session import Visit

# What a link calls a control, and what the page calls it.
_CONTROLS = {
    "question": "question", "method_a": "method_a", "method_b": "method_b", "budget": "budget",
    "seed": "seed", "aspect": "aspect", "relevance_layer": "tower_layer", "relevance_text": "text",
    "views": "views",
}  # fmt: skip


def link_of(visit: Visit, model: Model, offered: Sequence[Example]) -> str:
    """The query of an address that opens this visit's settings; the page adds the budget."""
    number, choices = visit.example, visit.choices
    state = State(
        method_a=choices.method_a,
        method_b=choices.method_b,
        question=visit.exploration.view.question or None,
        example=None if number is None else Path(offered[number].path).name,
        seed=choices.seed,
        aspect=visit.key[1],
        relevance_layer=choices.relevance.layer,
        relevance_text=choices.relevance.text,
        views=("together" if choices.together else "shares") if model.several_views else None,
        model=_named(model),
    )
    return encode(state)


def opened(
    query: Mapping[Any, Any], model: Model, settings: Settings, offered: Sequence[Example]
) -> dict[str, Any]:
    """The page's controls as a link's ``query`` has them, and a notice of what it cannot open."""
    names = [Path(example.path).name for example in offered]
    found, stale = decode(
        {str(key): str(value) for key, value in query.items()},
        tokens=model.most_tokens,
        layers=model.layers,
        question=settings.check_question,
        examples=names,
        aspects=list(model.aspects),
        views=get_args(Views) if model.several_views else (),
        model=_named(model),
    )
    values = {part: getattr(found, name) for name, part in _CONTROLS.items()}
    shown = {part: value for part, value in values.items() if value is not None}
    for part in ("method_a", "method_b"):
        if ":" in shown.get(part, ""):  # with settings, which the menu does not list
            told = shown[part]
            menu = tuning.menu(model.reason_against, told)
            shown[part] = gr.update(choices=menu, value=told)
    if found.example:
        example = offered[names.index(found.example)]
        shown = {"image": example.path, "question": example.question} | shown
    elif found.question:
        shown["image"] = None
        stale.append("A link carries no picture. Choose one and press Ask.")
    return shown | {"notice": panels.message_html(" ".join(stale))}


def _named(model: Model) -> str:
    return f"{model.name}@{model.revision}"
