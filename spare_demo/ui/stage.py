"""The pictures of the stage as HTML: each a figure whose caption is also its alternative text."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from html import escape

from PIL import Image

from spare_demo import measures
from spare_demo.render import (
    BLUE,
    VERMILION,
    Rendered,
    difference,
    heatmap,
    kept_overlay,
    pick_order,
)
from spare_demo.ui.visit import Visit

RELEVANCE_LABEL = "Raw cosine with the question, in CLIP's space"
RELEVANCE_MEANING = "High means similar. SPARE and CDPruner, as released, favour low."

OVERVIEW = "All four"
LAYERS = (OVERVIEW, "Difference", "A", "B", "Order A", "Order B", "Relevance")


def stage_html(visit: Visit, budget: int, layer: str) -> str:
    """The chosen layer of a visit at a budget."""
    draw = {
        "Difference": _difference,
        "A": lambda visit, budget: _kept(visit, budget, "A"),
        "B": lambda visit, budget: _kept(visit, budget, "B"),
        "Order A": lambda visit, budget: _order(visit, budget, "A"),
        "Order B": lambda visit, budget: _order(visit, budget, "B"),
        "Relevance": lambda visit, budget: _relevance(visit),
    }
    if layer == OVERVIEW:
        names = ("Relevance", "Difference", "A", "B")
        figures = "".join(_figure(draw[name], visit, budget) for name in names)
        return f'<div class="overview">{figures}</div>'
    return _figure(draw[layer], visit, budget)


def _figure(draw: Callable[[Visit, int], Rendered | str], visit: Visit, budget: int) -> str:
    drawn = draw(visit, budget)
    if isinstance(drawn, str):
        return f'<figure class="nothing"><figcaption>{escape(drawn)}</figcaption></figure>'
    words = escape(drawn.sentence)
    width, height = drawn.image.size
    return (
        f'<figure><img alt="{words}" src="{_data_address(drawn.image)}" '
        f'width="{width}" height="{height}"><figcaption>{words}</figcaption></figure>'
    )


def _data_address(image: Image.Image) -> str:
    """The picture itself, losslessly; little compression, since it is made at each slider step."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _kept(visit: Visit, budget: int, slot: str) -> Rendered:
    selection = visit.exploration.selections(budget)[slot]
    colour = BLUE if slot == "A" else VERMILION
    return kept_overlay(visit.canvas, selection.kept, colour, f"{slot} {visit.titles[slot]}")


def _order(visit: Visit, budget: int, slot: str) -> Rendered:
    selection = visit.exploration.selections(budget)[slot]
    colour = BLUE if slot == "A" else VERMILION
    return pick_order(visit.canvas, selection.order, colour, f"{slot} {visit.titles[slot]}")


def _difference(visit: Visit, budget: int) -> Rendered:
    chosen = visit.exploration.selections(budget)
    a, b, n = chosen["A"], chosen["B"], visit.exploration.n
    shared = measures.overlap(a.kept, b.kept, n)
    chance = measures.expected_jaccard(n, len(a), len(b))
    names = [f"{slot} {visit.titles[slot]}" for slot in ("A", "B")]
    return difference(visit.canvas, a.kept, b.kept, names[0], names[1], shared.jaccard, chance)


def _relevance(visit: Visit) -> Rendered | str:
    values = visit.exploration.relevance
    if values is None:
        return "No relevance: there is no question, or this model has no CLIP text side."
    return heatmap(visit.canvas, values, RELEVANCE_LABEL, RELEVANCE_MEANING)
