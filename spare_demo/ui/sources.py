"""Where the content of merged tokens came from, as HTML.

Of a method that merges inside the language model, what the layer looked at has, once there is an
answer.
"""

from __future__ import annotations

from html import escape

from spare_demo.models import Answer
from spare_demo.render.base import data_address
from spare_demo.render.colours import BLUE, VERMILION
from spare_demo.render.display import Display
from spare_demo.render.maps import source_map
from spare_demo.render.overlay import layer_overlay, selection_overlay
from spare_demo.ui.visit import SLOTS, Visit

_COLOURS = dict(zip(SLOTS, (BLUE, VERMILION), strict=True))
_MOST = 10**9  # far beyond any number of tokens
_NONE = "Neither A nor B merges tokens: each token that the language model gets is a single patch."


def merged_html(visit: Visit, budget: int, token: float | None, layer: float | None = None) -> str:
    """The figures of the slots that merge; a sentence where none does.

    token: 0 or None for all merged tokens, else its place from 1 in the language model's order; of
        a method inside the language model its place among the merged ones.
    layer: of the language model, from 0; None for the last one.

    Raises ValueError, with a sentence to show, where the token is none.
    """
    if not all(value is None or _is_place(value) for value in (token, layer)):
        raise ValueError("Type the token's number: 0 for all of them, or 1 and up.")
    selections = visit.exploration.selections(budget)
    figures = []
    for slot, colour in _COLOURS.items():
        label, selection = visit.titles[slot], selections.get(slot)
        display: Display | None = None
        if selection is None:  # inside the language model, where the layers have their own
            answer = visit.result.answers.get(slot)
            if answer is not None and visit.result.budget == budget:
                display = _in_layer(visit, slot, answer, token, layer)
            elif visit.exploration.methods[slot].merges:
                words = (
                    f"What {label} merges at a budget of {budget} is known once it has answered."
                )
                figures.append(f'<p class="note">{escape(words)}</p>')
        elif selection.sources is not None and token:
            display = source_map(visit.canvas, selection.sources, int(token) - 1, label)
        elif selection.sources is not None:
            display = selection_overlay(visit.canvas, selection, colour, label)
        if display is not None:
            figures.append(_figure(display))
    return "".join(figures) or f'<p class="note">{_NONE}</p>'


def _is_place(value: object) -> bool:
    """Whether it can be the place of a token or of a layer, existing or not."""
    return isinstance(value, int | float) and abs(value) < _MOST


def _in_layer(
    visit: Visit, slot: str, answer: Answer, token: float | None, layer: float | None
) -> Display | None:
    """What is merged in a layer of the language model; None where no layer merges."""
    if not any(layer_set.merged_rows for layer_set in answer.layer_sets):
        return None
    depth = len(answer.kept_per_layer)
    at = depth - 1 if layer is None else max(0, min(int(layer), depth - 1))
    layer_set = answer.set_at(at)
    assert layer_set is not None  # layer 0 has a set
    label = visit.titles[slot]
    if not token:
        return layer_overlay(visit.canvas, layer_set, at, depth, _COLOURS[slot], label)
    where = f"In layer {at + 1} of {depth} {label}"
    if layer_set.sources is None:
        raise ValueError(f"{where} has merged nothing. Move the layer slider to another layer.")
    return source_map(visit.canvas, layer_set.sources, int(token) - 1, where)


def _figure(display: Display) -> str:
    picture = data_address(display.image, compress_level=3)
    words, (width, height) = escape(display.sentence), display.image.size
    return (
        f'<figure><img alt="{words}" src="{picture}" width="{width}" '
        f'height="{height}" style="max-width: 100%; height: auto">'
        f"<figcaption>{words}</figcaption></figure>"
    )
