"""The pictures of the stage as HTML: each a figure whose caption is also its alternative text."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from PIL import Image

from spare_demo import measures
from spare_demo.render import (
    BLUE,
    VERMILION,
    Rendered,
    difference,
    kept_overlay,
    pick_order,
    relevance_map,
)
from spare_demo.render.colours import cividis
from spare_demo.ui.visit import Visit

OVERVIEW = "All four"
LAYERS = (OVERVIEW, "Difference", "A", "B", "Order A", "Order B", "Relevance")

Draw = Callable[[Visit, int], "Rendered | str"]


def stage_html(visit: Visit, budget: int, layer: str) -> str:
    """The chosen layer of a visit at a budget."""
    if layer == OVERVIEW:
        figures = "".join(_small_figure(name, visit, budget) for name in _SMALL)
        return f'<div class="overview">{figures}</div>'
    drawn = _DRAW[layer](visit, budget)
    if isinstance(drawn, str):
        return _nothing(drawn)
    words = escape(drawn.sentence)
    return f"<figure>{_img(drawn.image, words)}<figcaption>{words}</figcaption></figure>"


def _small_figure(name: str, visit: Visit, budget: int) -> str:
    """A picture without its own legend, too small to be read here; HTML says the same below it."""
    drawn = _DRAW[name](visit, budget)
    if isinstance(drawn, str):
        return _nothing(drawn)
    words = escape(drawn.sentence)
    bare = drawn.image.crop((0, 0, *visit.canvas.size))
    caption = f"{_key(name, visit)}{words}"
    return f"<figure>{_img(bare, words)}<figcaption>{caption}</figcaption></figure>"


def _key(name: str, visit: Visit) -> str:
    if name == "Relevance":
        return _bar(visit.exploration.relevance)
    if name == "Difference":
        return (
            '<span class="key both">both</span><span class="key a">only A</span>'
            '<span class="key b">only B</span><span class="key none">neither</span><br>'
        )
    return ""


def _bar(values: Any) -> str:
    """The colours of the map with their values: both ends, and zero and the mean as ticks."""
    low, high, mean = (float(v) for v in (values.min(), values.max(), values.mean()))
    stops = ",".join(f"rgb{tuple(int(c) for c in rgb)}" for rgb in cividis(np.linspace(0, 1, 9)))
    ticks = {"mean": mean, **({"0": 0.0} if low < 0 < high else {})}
    marks = "".join(
        f'<i style="left:{100 * (value - low) / (high - low or 1):.1f}%">{label}</i>'
        for label, value in ticks.items()
    )
    return (
        f'<span class="bar"><b>{low:+.3f}</b><span style="background:linear-gradient(to right,'
        f'{stops})">{marks}</span><b>{high:+.3f}</b></span>'
    )


def _nothing(sentence: str) -> str:
    return f'<figure class="nothing"><figcaption>{escape(sentence)}</figcaption></figure>'


def _img(image: Image.Image, words: str) -> str:
    width, height = image.size
    return f'<img alt="{words}" src="{_data_address(image)}" width="{width}" height="{height}">'


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
    return relevance_map(visit.canvas, values)


_SMALL = ("Relevance", "Difference", "A", "B")
_DRAW: dict[str, Draw] = {
    "Difference": _difference,
    "A": lambda visit, budget: _kept(visit, budget, "A"),
    "B": lambda visit, budget: _kept(visit, budget, "B"),
    "Order A": lambda visit, budget: _order(visit, budget, "A"),
    "Order B": lambda visit, budget: _order(visit, budget, "B"),
    "Relevance": lambda visit, budget: _relevance(visit),
}
