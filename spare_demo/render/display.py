"""A picture as a list of what it shows, drawn as pixels or written as SVG from the same list.

Photos stay pixels in both; lines, colours, numbers and words are vectors in SVG, so that words stay
words and lines stay sharp at any size. An item knows how it is painted and how it is written. All
positions are in units of the display, of which a PNG has `Display.scale` pixels each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from spare_demo.render.base import data_address
from spare_demo.render.colours import WHITE, Colour, hex_of
from spare_demo.render.text import LEADING, drawable, font

Point = tuple[float, float]
Anchor = Literal["lm", "mm", "rm", "ls", "ms", "rs"]
"""Of words: left, middle or right of them, on their middle or their baseline."""

_STOPS = 17  # of a bar of colours in SVG


class Item(Protocol):
    """Something that a display shows."""

    def paint(self, image: Image.Image, scale: int) -> None:
        """Draw it into the picture."""

    def svg(self) -> str:
        """The same as elements of an SVG file."""


@dataclass(frozen=True, eq=False)
class Display:
    """One picture.

    Attributes:
        width, height: in units.
        items: from the lowest to the topmost.
        sentence: what the picture shows: its alternative text and its caption.
        ground: colour behind everything.
        scale: PNG pixels per unit.
    """

    width: int
    height: int
    items: Sequence[Item]
    sentence: str
    ground: Colour = WHITE
    scale: int = 1

    @cached_property
    def image(self) -> Image.Image:
        """The picture as pixels, RGB."""
        size = (self.width * self.scale, self.height * self.scale)
        image = Image.new("RGB", size, self.ground)
        for item in self.items:
            item.paint(image, self.scale)
        return image

    @property
    def svg(self) -> str:
        """The text of an SVG file."""
        size = f'width="{self.width}" height="{self.height}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {self.width} {self.height}" role="img" '
            'font-family="system-ui, Helvetica, Arial, sans-serif">'
            f"<title>{escape(self.sentence)}</title>"
            f'<rect {size} fill="{hex_of(self.ground)}"/>'
            + "".join(item.svg() for item in self.items)
            + "</svg>\n"
        )


@dataclass(frozen=True, eq=False)
class Photo:
    """A picture in its place."""

    x: int
    y: int
    picture: Image.Image
    width: int = 0
    height: int = 0
    """Its own size if 0."""

    def paint(self, image: Image.Image, scale: int) -> None:
        shown = self.picture.convert("RGB").resize(self._size, Image.Resampling.LANCZOS)
        image.paste(shown, (self.x, self.y))

    def svg(self) -> str:
        """In its own resolution."""
        width, height = self._size
        return (
            f'<image x="{self.x}" y="{self.y}" width="{width}" height="{height}" '
            f'href="{data_address(self.picture.convert("RGB"))}"/>'
        )

    @property
    def _size(self) -> tuple[int, int]:
        return self.width or self.picture.width, self.height or self.picture.height


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: int
    y: int
    width: int
    height: int
    colour: Colour

    def paint(self, image: Image.Image, scale: int) -> None:
        """Its last row and column are within it."""
        corner = (self.x + self.width - 1, self.y + self.height - 1)
        ImageDraw.Draw(image).rectangle((self.x, self.y, *corner), fill=self.colour)

    def svg(self) -> str:
        return rect(self.x, self.y, self.width, self.height, hex_of(self.colour))


@dataclass(frozen=True)
class Text:
    """A line of words.

    upright: read from bottom to top, around its middle.
    """

    x: float
    y: float
    words: str
    size: int
    colour: Colour
    anchor: Anchor = "lm"
    upright: bool = False

    def paint(self, image: Image.Image, scale: int) -> None:
        """In letters that Pillow's font has."""
        words, face = drawable(self.words), font(self.size * scale)
        x, y = self.x * scale, self.y * scale
        if not self.upright:
            draw = ImageDraw.Draw(image)
            draw.text((x, y), words, fill=self.colour, font=face, anchor=self.anchor)
            return
        size = (math.ceil(face.getlength(words)), 2 * self.size * scale)
        strip = Image.new("RGB", size, WHITE)
        draw = ImageDraw.Draw(strip)
        draw.text((0, size[1] // 2), words, fill=self.colour, font=face, anchor="lm")
        rotated = strip.rotate(90, expand=True)
        image.paste(rotated, (round(x - rotated.width * 0.6), round(y - rotated.height / 2)))

    def svg(self) -> str:
        """The words as they are, also in letters that Pillow's font lacks.

        As wide as in the PNG, since the fonts of some machines would run out of the picture.
        """
        place = f'x="{self.x:g}" y="{self.y:g}"'
        if self.upright:
            place = f'transform="translate({self.x:g} {self.y:g}) rotate(-90)"'
        side = {"l": "start", "m": "middle", "r": "end"}[self.anchor[0]]
        look = ' dominant-baseline="central"' if self.anchor[1] == "m" else ""
        if len(self.words) > 1 and (width := font(self.size).getlength(drawable(self.words))):
            look += f' textLength="{width:.4g}" lengthAdjust="spacingAndGlyphs"'
        return (
            f'<text {place} font-size="{self.size}" fill="{hex_of(self.colour)}" '
            f'text-anchor="{side}"{look}>{escape(self.words)}</text>'
        )


@dataclass(frozen=True)
class Line:
    """A line through points; dash: units drawn and left out, None for none."""

    points: tuple[Point, ...]
    colour: Colour
    width: float = 1.0
    dash: tuple[float, float] | None = None

    def paint(self, image: Image.Image, scale: int) -> None:
        """Piece by piece where it is dashed."""
        draw, width = ImageDraw.Draw(image), round(self.width * scale)
        for piece in self._pieces():
            scaled = [(x * scale, y * scale) for x, y in piece]
            draw.line(scaled, fill=self.colour, width=width, joint="curve")

    def svg(self) -> str:
        dash = f' stroke-dasharray="{self.dash[0]:g} {self.dash[1]:g}"' if self.dash else ""
        return (
            f'<polyline points="{_path(self.points)}" fill="none" stroke="{hex_of(self.colour)}" '
            f'stroke-width="{self.width:g}"{dash}/>'
        )

    def _pieces(self) -> list[Sequence[Point]]:
        """The pieces that are drawn; a dash goes on from corner to corner."""
        if self.dash is None:
            return [self.points]
        x, y = np.array(self.points, np.float64).T
        way = np.concatenate([[0.0], np.hypot(np.diff(x), np.diff(y)).cumsum()])  # to each point
        pieces: list[Sequence[Point]] = []
        for start in np.arange(0, way[-1], sum(self.dash)):
            end = min(start + self.dash[0], way[-1])
            stops = [start, *way[(start < way) & (way < end)], end]
            ends = zip(np.interp(stops, way, x), np.interp(stops, way, y), strict=True)
            pieces.append([(float(across), float(down)) for across, down in ends])
        return pieces


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: tuple[Point, ...]
    colour: Colour

    def paint(self, image: Image.Image, scale: int) -> None:
        scaled = [(x * scale, y * scale) for x, y in self.points]
        ImageDraw.Draw(image).polygon(scaled, fill=self.colour)

    def svg(self) -> str:
        return f'<polygon points="{_path(self.points)}" fill="{hex_of(self.colour)}"/>'


Colours = Callable[[NDArray[np.float64]], NDArray[np.uint8]]
"""(m,) shares from 0 to 1 -> (m, 3) colours."""


@dataclass(frozen=True, eq=False)
class ColourBar:
    """Colours from left to right."""

    left: int
    top: int
    right: int
    bottom: int
    colours: Colours

    def paint(self, image: Image.Image, scale: int) -> None:
        """A colour for each column."""
        width, height = self.right - self.left, self.bottom - self.top
        row = Image.fromarray(self.colours(np.linspace(0, 1, width))[None])
        image.paste(row.resize((width, height)), (self.left, self.top))

    def svg(self) -> str:
        """A gradient; there is one bar in a picture."""
        stops = "".join(
            f'<stop offset="{index / (_STOPS - 1):g}" stop-color="{hex_of(colour)}"/>'
            for index, colour in enumerate(self.colours(np.linspace(0, 1, _STOPS)))
        )
        width, height = self.right - self.left, self.bottom - self.top
        bar = rect(self.left, self.top, width, height, "url(#bar)")
        return f'<defs><linearGradient id="bar">{stops}</linearGradient></defs>{bar}'


def add_lines(
    items: list[Item], x: int, y: int, lines: Sequence[str], size: int, colour: Colour
) -> int:
    """Adds lines of words below each other, from y on; returns where they end."""
    step = size * LEADING
    for index, line in enumerate(lines):
        items.append(Text(x, y + (index + 0.5) * step, line, size, colour))
    return y + round(step * len(lines))


def rect(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    """A rectangle of an SVG file; more: further attributes."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"{more}/>'


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
