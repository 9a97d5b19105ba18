"""The pictures as SVG: the photo as pixels, and every outline, colour, number and word as vectors.

They show what the functions of the same name elsewhere in this folder show, from the same `Canvas`
(one user unit is one canvas pixel), and carry the same sentence as their description. For papers:
the words stay words, and the lines stay sharp at any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from spare_demo.render.base import (
    BLUE,
    VERMILION,
    Colour,
    Flags,
    Tokens,
    hex_of,
    number,
    token_flags,
    token_list,
)
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import cividis, hue_ramp
from spare_demo.render.heatmap import OPACITY, side_by_side
from spare_demo.render.legend import (
    DROPPED,
    FAINT,
    INK,
    MIXED,
    PANEL,
    PHOTO,
    ground_entries,
    strip_height,
    strip_width,
    text_size,
)
from spare_demo.render.marks import line_width
from spare_demo.render.merged import merged_ground
from spare_demo.render.order import NUMBERED, PICKED_OPACITY
from spare_demo.render.png import data_address
from spare_demo.render.text import drawable, font

_INK, _FAINT, _WHITE, _BLACK = hex_of(INK), hex_of(FAINT), "#ffffff", "#000000"
_STOPS = 17  # of a colour bar


def kept_svg(canvas: Canvas, kept: Tokens, colour: Colour, label: str, sentence: str) -> str:
    """`kept_overlay` as SVG."""
    flags = token_flags(kept, canvas.grid.n)
    count = int(flags.sum())
    sheet = _Sheet(canvas, canvas.keep(flags), sentence)
    sheet.outline(flags, hex_of(colour), line_width(canvas.patch))
    sheet.legend(
        [
            _Key(f"{label} kept {count}", hex_of(colour)),
            _Key(f"dropped {canvas.grid.n - count}"),
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
    sheet = _Sheet(canvas, canvas.keep(flags), sentence)
    sheet.outline(flags, hex_of(colour), line_width(canvas.patch))
    sheet.hatch(mixed & ~flags, hex_of(colour))
    entries = [_Key(f"{label} still has {int(flags.sum())}", hex_of(colour))]
    if rows:
        into = f"{rows} row" if rows == 1 else f"{rows} rows"
        words = f"merged {int(mixed.sum())} into {into}"
        entries.append(_Key(words, hex_of(colour), hatched=True))
    sheet.legend([*entries, _Key(f"dropped {int((~flags & ~mixed).sum())}")])
    return sheet.text()


def merged_svg(
    canvas: Canvas, sources: Tensor, order: Tokens, colour: Colour, label: str, sentence: str
) -> str:
    """`merged_overlay` as SVG."""
    picture, own, grown, mixed = merged_ground(canvas, sources, order)
    sheet = _Sheet(canvas, picture, sentence)
    sheet.hatch(grown, hex_of(colour))
    sheet.outline(own, hex_of(colour), line_width(canvas.patch))
    alone, unused = int((own & ~grown).sum()), int((~own & ~mixed).sum())
    sheet.legend(
        [
            _Key(f"{label}: as they are {alone}", hex_of(colour)),
            _Key(f"others mixed in {int(grown.sum())}", hex_of(colour), hatched=True),
            _Key(f"only mixed in {int(mixed.sum())}", fill=hex_of(MIXED)),
            _Key(f"no part {unused}"),
        ]
    )
    return sheet.text()


def difference_svg(
    canvas: Canvas, kept_a: Tokens, kept_b: Tokens, label_a: str, label_b: str, sentence: str
) -> str:
    """`difference` as SVG."""
    n = canvas.grid.n
    a, b = token_flags(kept_a, n), token_flags(kept_b, n)
    sheet, width = _Sheet(canvas, canvas.keep(a | b), sentence), line_width(canvas.patch)
    sheet.outline(a & b, _BLACK, width + 1)
    sheet.outline(a & b, _WHITE, max(1, width - 1), inset=1)
    sheet.outline(a & ~b, hex_of(BLUE), width)
    sheet.hatch(b & ~a, hex_of(VERMILION))
    sheet.outline(b & ~a, hex_of(VERMILION), width)
    both, only_a, only_b = (int(x.sum()) for x in (a & b, a & ~b, b & ~a))
    sheet.legend(
        [
            _Key(f"both {both}", _BLACK),
            _Key(f"only {label_a} {only_a}", hex_of(BLUE)),
            _Key(f"only {label_b} {only_b}", hex_of(VERMILION), hatched=True),
            _Key(f"neither {n - both - only_a - only_b}"),
        ]
    )
    return sheet.text()


def order_svg(canvas: Canvas, order: Tokens, colour: Colour, label: str, sentence: str) -> str:
    """`pick_order` as SVG."""
    picks = token_list(order, canvas.grid.n).tolist()
    sheet = _Sheet(canvas, canvas.dim, sentence)
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
    values: Sequence[float] | NDArray[np.floating],
    title: str,
    value_range: tuple[float, float] | None,
    sentence: str,
) -> str:
    """`heatmap` as SVG. values: (n,) finite numbers within `value_range`; None is their own."""
    numbers = np.asarray(values, np.float64)
    low, high = value_range or (float(numbers.min()), float(numbers.max()))
    shares = (numbers - low) / (high - low) if high > low else np.full_like(numbers, 0.5)
    sheet = _Sheet(canvas, canvas.grey, sentence)
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


class _Key(NamedTuple):
    """A square of the legend: outlined like a kept token, else filled like another."""

    words: str
    edge: str | None = None
    fill: str = hex_of(DROPPED)
    hatched: bool = False


class _Sheet:
    """An SVG being written: the picture, marks on its tokens, and a strip below."""

    def __init__(self, canvas: Canvas, picture: Image.Image, sentence: str) -> None:
        self.canvas, self._sentence = canvas, sentence
        self._size, self._width, self._top = text_size(canvas), strip_width(canvas), canvas.size[1]
        self._height = self._top + strip_height(canvas)
        self._parts = [_image(picture)]

    def outline(self, flags: Flags, colour: str, width: int, inset: int = 0) -> None:
        """A line along the inner edge of the flagged tokens."""
        shift = inset + width / 2
        squares = []
        for token in np.flatnonzero(flags):
            x0, y0, x1, _ = self.canvas.rectangle(int(token))
            side = x1 - x0 - 2 * shift
            squares.append(f"M{x0 + shift:g} {y0 + shift:g}h{side:g}v{side:g}h{-side:g}z")
        if squares:
            self._parts.append(
                f'<path d="{"".join(squares)}" fill="none" stroke="{colour}" '
                f'stroke-width="{width}"/>'
            )

    def hatch(self, flags: Flags, colour: str) -> None:
        """Two diagonal lines across the top right corner of the flagged tokens."""
        lines = []
        for token in np.flatnonzero(flags):
            _, y0, x1, _ = self.canvas.rectangle(int(token))
            reach = self.canvas.patch * 0.4
            for part in (reach, reach / 2):
                lines.append(f"M{x1 - part:g} {y0}L{x1} {y0 + part:g}")
        if lines:
            width = max(1, self.canvas.patch // 14)
            self._parts.append(
                f'<path d="{"".join(lines)}" stroke="{colour}" stroke-width="{width}"/>'
            )

    def fill(self, token: int, colour: str, opacity: float) -> None:
        x0, y0, x1, y1 = self.canvas.rectangle(token)
        self._parts.append(
            f'<rect x="{x0}" y="{y0}" width="{x1 - x0}" height="{y1 - y0}" fill="{colour}" '
            f'fill-opacity="{opacity}"/>'
        )

    def number(self, token: int, text: str, colour: str) -> None:
        x0, y0, x1, y1 = self.canvas.rectangle(token)
        size = self.canvas.patch * 0.5
        self._write((x0 + x1) / 2, (y0 + y1) / 2 + size * 0.35, text, colour, "middle", size)

    def legend(self, entries: Sequence[_Key]) -> None:
        """Squares and words, two to a line, and what lies around the tokens where there is any."""
        side, size = self._size * 1.25, self._size
        around = ground_entries(self.canvas)
        count = len(entries) + len(around)
        places = [
            (size * 0.6 + self._width / 2 * (i % 2), self._top + size * (0.6 + 1.7 * (i // 2)))
            for i in range(count)
        ]
        lines = (count + 1) // 2
        self._height = max(self._height, self._top + round(size * (1.2 + 1.7 * lines)))
        for (x, y), (words, edge, fill, hatched) in zip(places, entries, strict=False):
            look = f'fill="{hex_of(PHOTO) if edge else fill}"'
            look += f' stroke="{edge}" stroke-width="2"' if edge else ""
            self._parts.append(
                f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{side - 2:g}" height="{side - 2:g}" '
                f"{look}/>"
            )
            if hatched:
                reach = side * 0.6
                far, low = x + side, y + reach
                corner = f"{far - reach:g},{y:g} {far:g},{y:g} {far:g},{low:g}"
                self._parts.append(f'<polygon points="{corner}" fill="{edge}"/>')
            self._write(x + side + size * 0.45, y + side * 0.78, words, _INK)
        for (x, y), entry in zip(places[len(entries) :], around, strict=True):
            self._parts.append(_image(entry.swatch, f'x="{x:g}" y="{y:g}" '))
            self._write(x + side + size * 0.45, y + side * 0.78, entry.text, _INK)

    def bar(
        self, title: str, colours: NDArray[np.uint8], ticks: Sequence[tuple[float, str]]
    ) -> None:
        """A title and a bar of colours from left to right, with words at shares 0..1 of it."""
        pad, size = self._size * 0.6, self._size
        left, right = pad, self._width - pad
        self._write(left, self._top + size * 1.4, title, _INK)
        stops = "".join(
            f'<stop offset="{index / (len(colours) - 1):g}" stop-color="{hex_of(colour)}"/>'
            for index, colour in enumerate(colours)
        )
        self._parts.append(
            f'<defs><linearGradient id="bar">{stops}</linearGradient></defs>'
            f'<rect x="{left:g}" y="{self._top + size * 1.9:g}" width="{right - left:g}" '
            f'height="{size * 0.8:g}" fill="url(#bar)"/>'
        )
        points = [left + share * (right - left) for share, _ in ticks]
        widths = [font(size).getlength(drawable(words)) for _, words in ticks]
        for x, (_, words) in zip(
            side_by_side(points, widths, left, right, size * 0.6), ticks, strict=True
        ):
            self._write(x, self._top + size * 4, words, _FAINT, "middle")

    def text(self) -> str:
        size = f'width="{self._width}" height="{self._height}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {self._width} {self._height}" role="img" '
            'font-family="system-ui, Helvetica, Arial, sans-serif">'
            f'<title>{escape(self._sentence)}</title><rect {size} fill="{hex_of(PANEL)}"/>'
            + "".join(self._parts)
            + "</svg>\n"
        )

    def _write(
        self, x: float, y: float, text: str, colour: str, anchor: str = "start", size: float = 0
    ) -> None:
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size or self._size:g}" fill="{colour}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )


def _image(picture: Image.Image, where: str = "") -> str:
    return (
        f'<image {where}width="{picture.width}" height="{picture.height}" '
        f'href="{data_address(picture, optimize=True)}"/>'
    )
