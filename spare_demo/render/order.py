"""In which order a method picked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from spare_demo.render.base import Tokens, token_list, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import Colour, hue_ramp
from spare_demo.render.display import ColourBar, Display, Item, Photo, Text
from spare_demo.render.legend import FAINT, INK, on_canvas, strip_height, strip_width, text_size
from spare_demo.render.marks import Fill, Outline, line_width
from spare_demo.render.sentences import say
from spare_demo.render.text import shorten

NUMBERED = 64  # most picks that carry their rank; more would be a page of digits
PICKED_OPACITY = 0.8  # of a picked token's colour


def pick_order(canvas: Canvas, order: Tokens, colour: Colour, label: str) -> Display:
    """Picked tokens from dark (first) to light (last) in the method's hue, numbered while few.

    order: (k,) token indices in the order they were picked. colour, label: the method's.
    """
    n = canvas.grid.n
    picks = token_list(order)
    k = len(picks)
    shades = hue_ramp(colour, np.arange(k) / max(1, k - 1))
    fill, flags = np.zeros((n, 3), np.uint8), np.zeros(n, np.bool_)
    fill[picks], flags[picks] = shades, True

    items: list[Item] = [
        Photo(0, 0, canvas.dim),
        Fill(canvas, flags, fill, PICKED_OPACITY),
        Outline(canvas, flags, (255, 255, 255), max(1, line_width(canvas.patch) // 2)),
    ]
    if k <= NUMBERED:
        items += _ranks(canvas, picks.tolist(), shades)

    sentence = say("order", label=label, count=k, tokens=tokens_word(n))
    if k:
        sentence += say("first", where=canvas.where(int(picks[0])))
        if canvas.grid.padding.any():
            ranks = np.flatnonzero(canvas.grid.padding.numpy()[picks]) + 1
            sentence += say("padding rank", rank=ranks[0]) if ranks.size else say("no padding")
    return on_canvas(canvas, items, _strip(canvas, colour, label, k), sentence + ".")


def _ranks(canvas: Canvas, picks: list[int], shades: np.ndarray) -> Iterator[Text]:
    size = max(6, round(canvas.patch * 0.5))
    for rank, (token, shade) in enumerate(zip(picks, shades, strict=True), start=1):
        x0, y0, x1, y1 = canvas.rectangle(token)
        dark = shade.astype(float) @ (0.299, 0.587, 0.114) < 128
        ink = (255, 255, 255) if dark else (0, 0, 0)
        yield Text((x0 + x1) / 2, (y0 + y1) / 2, str(rank), size, ink, "mm")


def _strip(canvas: Canvas, colour: Colour, label: str, k: int) -> tuple[list[Item], int]:
    width, size, y = strip_width(canvas), text_size(canvas), canvas.size[1]
    pad = round(size * 0.6)
    words = shorten(f"{label}: order of the {tokens_word(k)} kept", width - 2 * pad, size)
    items: list[Item] = [Text(pad, y + round(size * 1.05), words, size, INK)]
    if k > 1:
        left, right, top, bottom = pad, width - pad, round(size * 1.9), round(size * 2.7)
        below = y + bottom + size * 1.1
        items += [
            ColourBar(left, y + top, right, y + bottom, partial(hue_ramp, colour)),
            Text(left, below, "first (1)", size, FAINT),
            Text(right, below, f"last ({k})", size, FAINT, "rm"),
        ]
    return items, strip_height(canvas)
