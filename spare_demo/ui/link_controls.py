"""A link of the page: a visit's settings as an address, and an address back in the controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.models import Model
from spare_demo.settings import Settings
from spare_demo.ui import panels, tuning
from spare_demo.ui.examples import Example
from spare_demo.ui.permalink import decode, encode
from spare_demo.ui.visit import Visit


def link_of(visit: Visit, model: Model, examples: Sequence[Example]) -> str:
    """The query of an address that opens this visit's settings; the page adds the budget."""
    example = None if visit.example is None else Path(examples[visit.example].path).name
    return encode(visit.request, model, example)


def controls_of_link(
    query: Mapping[Any, Any], model: Model, settings: Settings, examples: Sequence[Example]
) -> dict[str, Any]:
    """The page's controls as a link's ``query`` has them, and a notice of what it cannot open."""
    names = [Path(example.path).name for example in examples]
    sent = {str(key): str(value) for key, value in query.items()}
    values, stale = decode(sent, model, settings, names)
    scene = values.get("example")
    controls = {n: v for n, v in values.items() if n not in ("example", "depth", "model")}
    by = values.get("guidance_text", "clip")
    for part in {"method_a", "method_b"} & controls.keys():
        method = controls[part]
        # With settings, which the menu does not list, or on a model that lacks it by CLIP.
        if ":" in method or by != "clip":
            menu = tuning.menu(partial(model.reason_against, guidance_text=by), method)
            controls[part] = gr.update(choices=menu, value=method)
    if scene:
        example = examples[names.index(scene)]
        controls = {"image": example.path, "question": example.question} | controls
    elif "question" in controls:
        controls["image"] = None
        if not query.get("scene"):  # of an example the notice says why it is not here
            stale.append("A link carries no picture. Choose one and press Ask.")
    return controls | {"notice": panels.message_html(" ".join(stale))}
