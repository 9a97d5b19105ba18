"""Where the content of merged tokens came from: a folded panel of its own at the page's end.

Of a method that merges inside the language model, what its last layer has, once it answered.
"""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

import gradio as gr

from spare_demo.chosen import read_budget
from spare_demo.render import BLUE, VERMILION, Rendered, layer_overlay, merged_overlay, source_map
from spare_demo.render.base import Colour
from spare_demo.ui import panels
from spare_demo.ui.visit import SLOTS, Visit

_NONE = (
    "Neither A nor B merges tokens: what the language model gets of them are patches as they are."
)


def merged_panel(visit: gr.State, budget: gr.Slider) -> None:
    """Draws what A and B merged at the slider's budget, all of it or one token, when asked."""
    with gr.Accordion("Merged tokens: where they came from", open=False, elem_id="merged"):
        with gr.Row():
            token = gr.Number(
                0,
                label="Token",
                info="0 shows all of them; from 1 on, what went into that one.",
                elem_id="merged-token",
            )
            show = gr.Button("Show", size="sm", min_width=80, elem_id="merged-show")
        drawn = gr.HTML(elem_id="merged-drawn")
    for event in (show.click, token.submit):
        event(
            merged_html,
            [visit, budget, token],
            drawn,
            show_progress="hidden",
            api_visibility="private",
        )


def merged_html(visit: Visit, budget: Any, token: float | None) -> str:
    """The figures of the slots that merge; a sentence where none does or the token is none.

    token: 0 or None for all merged tokens, else its place from 1 in the language model's order; of
        a method inside the language model its place among the merged ones.
    """
    try:
        chosen = visit.exploration.selections(read_budget(budget, visit.exploration.n))
        figures = []
        for slot, colour in zip(SLOTS, (BLUE, VERMILION), strict=True):
            label = f"{slot} {visit.titles[slot]}"
            if slot not in chosen:  # inside the language model, where the layers have their own
                if drawn := _last_layer(visit, slot, token, colour, label):
                    figures.append(_figure(drawn))
                continue
            selection = chosen[slot]
            if selection.sources is None:
                continue
            if token:
                drawn = source_map(visit.canvas, selection.sources, int(token) - 1, label)
            else:
                drawn = merged_overlay(
                    visit.canvas, selection.sources, selection.order, colour, label
                )
            figures.append(_figure(drawn))
    except ValueError as error:
        return panels.message_html(str(error))
    return "".join(figures) or f'<p class="note">{_NONE}</p>'


def _last_layer(
    visit: Visit, slot: str, token: float | None, colour: Colour, label: str
) -> Rendered | None:
    """What is merged in the last layer of the language model; None without any, or an answer."""
    answer = visit.answers.get(slot)
    if answer is None or not answer.layer_sets or answer.layer_sets[-1].sources is None:
        return None
    found, depth = answer.layer_sets[-1], len(answer.kept_per_layer)
    assert found.sources is not None
    if token:
        return source_map(visit.canvas, found.sources, int(token) - 1, f"In the last layer {label}")
    rows = found.merged_rows
    return layer_overlay(
        visit.canvas, found.kept, found.merged, rows, depth - 1, depth, colour, label
    )


def _figure(drawn: Rendered) -> str:
    file = io.BytesIO()
    drawn.image.save(file, "PNG", compress_level=3)
    picture = base64.b64encode(file.getvalue()).decode()
    words, (width, height) = escape(drawn.sentence), drawn.image.size
    return (
        f'<figure><img alt="{words}" src="data:image/png;base64,{picture}" width="{width}" '
        f'height="{height}" style="max-width: 100%; height: auto">'
        f"<figcaption>{words}</figcaption></figure>"
    )
