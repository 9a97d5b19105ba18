"""One SVG file of a picture: the photo, marks on its tokens, and the strip that explains them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spare_demo.render.base import Flags, hex_of
from spare_demo.render.canvas import Canvas
from spare_demo.render.heatmap import side_by_side
from spare_demo.render.legend import (
    DROPPED,
    FAINT,
    INK,
    PANEL,
    PHOTO,
    ground_entries,
    strip_height,
    strip_width,
    text_size,
)
from spare_demo.render.png import data_address
from spare_demo.render.text import drawable, font

_INK, _FAINT = hex_of(INK), hex_of(FAINT)


class Key(NamedTuple):
    """A square of the legend: outlined, usually like a kept token; else usually like a dropped one.

    edge: colour of the outline, and of the hatch if `hatched`. fill: None for what is usual.
    """

    words: str
    edge: str | None = None
    fill: str | None = None
    hatched: bool = False


class Sheet:
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

    def legend(self, entries: Sequence[Key]) -> None:
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
            look = f'fill="{fill or hex_of(PHOTO if edge else DROPPED)}"'
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
