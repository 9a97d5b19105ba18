"""The pictures as SVG: the photo as pixels, and every outline, colour, number and word as vectors.

They show what the functions of the same name elsewhere in this folder show, from the same `Canvas`
(one user unit is one canvas pixel), and carry the same sentence as their description. For papers:
the words stay words, and the lines stay sharp at any size.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from spare_demo.render.base import (
    BLUE,
    VERMILION,
    Colour,
    Tokens,
    hex_of,
    number,
    token_flags,
    token_list,
)
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import cividis, hue_ramp
from spare_demo.render.heatmap import OPACITY, Values, as_numbers
from spare_demo.render.legend import DROPPED, MIXED
from spare_demo.render.marks import line_width
from spare_demo.render.merged import merged_ground
from spare_demo.render.order import NUMBERED, PICKED_OPACITY
from spare_demo.render.svg_sheet import Key, Sheet

_WHITE, _BLACK = "#ffffff", "#000000"
_STOPS = 17  # of a colour bar


def kept_svg(canvas: Canvas, kept: Tokens, colour: Colour, label: str, sentence: str) -> str:
    """`kept_overlay` as SVG."""
    flags = token_flags(kept, canvas.grid.n)
    count = int(flags.sum())
    sheet = Sheet(canvas, canvas.keep(flags), sentence)
    sheet.outline(flags, hex_of(colour), line_width(canvas.patch))
    sheet.legend(
        [
            Key(f"{label} kept {count}", hex_of(colour)),
            Key(f"dropped {canvas.grid.n - count}"),
        ]
    )
    return sheet.text()


def layer_svg(
    canvas: Canvas,
    kept: Tokens,
    merged: Tokens,
    rows: int,
    colour: Colour,
    label: str,
    sentence: str,
) -> str:
    """`layer_overlay` as SVG; the sentence says which layer it is."""
    n = canvas.grid.n
    flags, mixed = token_flags(kept, n), token_flags(merged, n)
    sheet = Sheet(canvas, canvas.keep(flags), sentence)
    sheet.outline(flags, hex_of(colour), line_width(canvas.patch))
    sheet.hatch(mixed & ~flags, hex_of(colour))
    entries = [Key(f"{label} still has {int(flags.sum())}", hex_of(colour))]
    if rows:
        into = f"{rows} row" if rows == 1 else f"{rows} rows"
        words = f"merged {int(mixed.sum())} into {into}"
        entries.append(Key(words, hex_of(colour), hex_of(DROPPED), hatched=True))
    sheet.legend([*entries, Key(f"dropped {int((~flags & ~mixed).sum())}")])
    return sheet.text()


def merged_svg(
    canvas: Canvas, sources: Tensor, order: Tokens, colour: Colour, label: str, sentence: str
) -> str:
    """`merged_overlay` as SVG."""
    picture, own, grown, mixed = merged_ground(canvas, sources, order)
    sheet = Sheet(canvas, picture, sentence)
    sheet.hatch(grown, hex_of(colour))
    sheet.outline(own, hex_of(colour), line_width(canvas.patch))
    alone, unused = int((own & ~grown).sum()), int((~own & ~mixed).sum())
    sheet.legend(
        [
            Key(f"{label}: as they are {alone}", hex_of(colour)),
            Key(f"others mixed in {int(grown.sum())}", hex_of(colour), hatched=True),
            Key(f"only mixed in {int(mixed.sum())}", fill=hex_of(MIXED)),
            Key(f"no part {unused}"),
        ]
    )
    return sheet.text()


def difference_svg(
    canvas: Canvas, kept_a: Tokens, kept_b: Tokens, label_a: str, label_b: str, sentence: str
) -> str:
    """`difference` as SVG."""
    n = canvas.grid.n
    a, b = token_flags(kept_a, n), token_flags(kept_b, n)
    sheet, width = Sheet(canvas, canvas.keep(a | b), sentence), line_width(canvas.patch)
    sheet.outline(a & b, _BLACK, width + 1)
    sheet.outline(a & b, _WHITE, max(1, width - 1), inset=1)
    sheet.outline(a & ~b, hex_of(BLUE), width)
    sheet.hatch(b & ~a, hex_of(VERMILION))
    sheet.outline(b & ~a, hex_of(VERMILION), width)
    both, only_a, only_b = (int(x.sum()) for x in (a & b, a & ~b, b & ~a))
    sheet.legend(
        [
            Key(f"both {both}", _BLACK),
            Key(f"only {label_a} {only_a}", hex_of(BLUE)),
            Key(f"only {label_b} {only_b}", hex_of(VERMILION), hatched=True),
            Key(f"neither {n - both - only_a - only_b}"),
        ]
    )
    return sheet.text()


def order_svg(canvas: Canvas, order: Tokens, colour: Colour, label: str, sentence: str) -> str:
    """`pick_order` as SVG."""
    picks = token_list(order, canvas.grid.n).tolist()
    sheet = Sheet(canvas, canvas.dim, sentence)
    shades = hue_ramp(colour, np.arange(len(picks)) / max(1, len(picks) - 1))
    for rank, (token, shade) in enumerate(zip(picks, shades, strict=True), start=1):
        sheet.fill(token, hex_of(shade), PICKED_OPACITY)
        if len(picks) <= NUMBERED:
            dark = shade.astype(float) @ (0.299, 0.587, 0.114) < 128
            sheet.number(token, str(rank), _WHITE if dark else _BLACK)
    sheet.outline(token_flags(picks, canvas.grid.n), _WHITE, max(1, line_width(canvas.patch) // 2))
    bar = hue_ramp(colour, np.linspace(0, 1, _STOPS))
    ends = [(0.0, "first (1)"), (1.0, f"last ({len(picks)})")] if len(picks) > 1 else []
    sheet.bar(f"{label}: order of the {len(picks)} kept", bar, ends)
    return sheet.text()


def map_svg(
    canvas: Canvas,
    values: Values,
    title: str,
    value_range: tuple[float, float] | None,
    sentence: str,
) -> str:
    """`heatmap` as SVG. values: (n,) finite numbers within `value_range`; None is their own."""
    numbers = as_numbers(values)
    low, high = value_range or (float(numbers.min()), float(numbers.max()))
    shares = (numbers - low) / (high - low) if high > low else np.full_like(numbers, 0.5)
    sheet = Sheet(canvas, canvas.grey, sentence)
    for token, shade in enumerate(cividis(shares)):
        sheet.fill(token, hex_of(shade), OPACITY)
    signed, scale = low < 0, max(abs(low), abs(high))
    marks = {low: number(low, signed, scale), high: number(high, signed, scale)}
    if low < 0 < high:
        marks[0.0] = "0"
    mean = float(numbers.mean())
    marks[mean] = f"mean {number(mean, signed, scale)}"
    ticks = [((v - low) / (high - low) if high > low else 0.5, t) for v, t in marks.items()]
    sheet.bar(title, cividis(np.linspace(0, 1, _STOPS)), sorted(ticks))
    return sheet.text()
