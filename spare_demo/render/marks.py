"""Outlines and corner marks of tokens: all at a token's edge, the patch inside stays untouched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spare_demo.render.base import Flags
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import Colour, hex_of
from spare_demo.render.display import rect

Cells = NDArray[np.uint8]  # (rows, cols, patch, patch, 3), a view into the picture


def line_width(patch: int) -> int:
    """Width of an outline for tokens of `patch` canvas pixels."""
    return max(1 if patch < 12 else 2, round(patch / 13))


def outline(cells: Cells, flags: Flags, colour: Colour, width: int, inset: int = 0) -> None:
    """Draw, in place, a line of `width` canvas pixels along the inner edge of the flagged tokens.

    Args:
        cells: (rows, cols, patch, patch, 3) view, as `Canvas.cells` gives it.
        flags: (n,) bool.
        inset: canvas pixels between the token's edge and the line. Without inset, two flagged
            neighbours share one line instead of drawing it twice as wide.
    """
    rows, cols, patch = cells.shape[:3]
    own = flags.reshape(rows, cols)
    padded = np.pad(own, 1)
    shared_width = width if inset else max(1, width // 2)
    neighbours = {
        "up": padded[:-2, 1:-1],
        "down": padded[2:, 1:-1],
        "left": padded[1:-1, :-2],
        "right": padded[1:-1, 2:],
    }
    along = slice(inset, patch - inset)
    for side, neighbour in neighbours.items():
        for edge, thick in ((own & ~neighbour, width), (own & neighbour, shared_width)):
            start = inset if side in ("up", "left") else patch - inset - thick
            across = slice(start, start + thick)
            row, col = np.nonzero(edge)
            if side in ("up", "down"):
                cells[row, col, across, along] = colour
            else:
                cells[row, col, along, across] = colour


def corner_hatch(cells: Cells, flags: Flags, colour: Colour) -> None:
    """Draw, in place, diagonal stripes in the top right corner of the flagged tokens (n,)."""
    rows, cols, patch = cells.shape[:3]
    y, x = np.ogrid[:patch, :patch]
    depth = x - y - (patch - max(3, patch * 2 // 5))
    stripe = max(1, patch // 14)
    pattern = (depth >= 0) & (depth // stripe % 2 == 0)
    row, col = np.nonzero(flags.reshape(rows, cols))
    inside_y, inside_x = np.nonzero(pattern)
    cells[row[:, None], col[:, None], inside_y[None, :], inside_x[None, :]] = colour


@dataclass(frozen=True, eq=False)
class Outline:
    """A line along the inner edge of the flagged tokens of a canvas; see `outline`."""

    canvas: Canvas
    flags: Flags
    colour: Colour
    width: int
    inset: int = 0

    def paint(self, image: Image.Image, scale: int) -> None:
        """Neighbours share one line."""
        pixels = np.array(image)
        flags = self.canvas.per_cell(self.flags)
        outline(self.canvas.cells(pixels), flags, self.colour, self.width, self.inset)
        image.paste(Image.fromarray(pixels))

    def svg(self) -> str:
        """A square for each token, in one path."""
        shift = self.inset + self.width / 2
        squares = []
        for token in np.flatnonzero(self.flags):
            x0, y0, x1, _ = self.canvas.rectangle(int(token))
            side = x1 - x0 - 2 * shift
            squares.append(f"M{x0 + shift:g} {y0 + shift:g}h{side:g}v{side:g}h{-side:g}z")
        if not squares:
            return ""
        return (
            f'<path d="{"".join(squares)}" fill="none" stroke="{hex_of(self.colour)}" '
            f'stroke-width="{self.width}"/>'
        )


@dataclass(frozen=True, eq=False)
class Hatch:
    """Diagonal stripes in the top right corner of the flagged tokens of a canvas."""

    canvas: Canvas
    flags: Flags
    colour: Colour

    def paint(self, image: Image.Image, scale: int) -> None:
        pixels = np.array(image)
        corner_hatch(self.canvas.cells(pixels), self.canvas.per_cell(self.flags), self.colour)
        image.paste(Image.fromarray(pixels))

    def svg(self) -> str:
        """Two lines for each token, in one path."""
        lines = []
        for token in np.flatnonzero(self.flags):
            _, y0, x1, _ = self.canvas.rectangle(int(token))
            reach = self.canvas.patch * 0.4
            for part in (reach, reach / 2):
                lines.append(f"M{x1 - part:g} {y0}L{x1} {y0 + part:g}")
        if not lines:
            return ""
        width = max(1, self.canvas.patch // 14)
        return f'<path d="{"".join(lines)}" stroke="{hex_of(self.colour)}" stroke-width="{width}"/>'


@dataclass(frozen=True, eq=False)
class Fill:
    """Colours over the flagged tokens of a canvas, through which the grey photo is seen.

    colours: (n, 3). opacity: of the colours, 0 to 1.
    """

    canvas: Canvas
    flags: Flags
    colours: NDArray[np.uint8]
    opacity: float

    def paint(self, image: Image.Image, scale: int) -> None:
        colours, (x, y) = self.canvas.spread(self.colours), self.canvas.origin
        ground = self.canvas.grey.crop((x, y, x + colours.width, y + colours.height))
        mask = self.canvas.spread(self.flags.astype(np.uint8) * 255)
        image.paste(Image.blend(ground, colours, self.opacity), (x, y), mask)

    def svg(self) -> str:
        rects = []
        for token in np.flatnonzero(self.flags):
            (x, y, *_), side = self.canvas.rectangle(int(token)), self.canvas.patch
            opacity = f' fill-opacity="{self.opacity}"'
            rects.append(rect(x, y, side, side, hex_of(self.colours[token]), opacity))
        return "".join(rects)


@dataclass(frozen=True)
class Swatch:
    """A square of the legend, which looks as a token does.

    patch: side of a token. lines: (colour, width, inset) of each outline. hatch: its colour, None
    for none.
    """

    x: int
    y: int
    side: int
    patch: int
    fill: Colour
    lines: tuple[tuple[Colour, int, int], ...] = ()
    hatch: Colour | None = None

    def paint(self, image: Image.Image, scale: int) -> None:
        pixels = np.full((self.side, self.side, 3), self.fill, np.uint8)
        cell: Cells = pixels.reshape(1, 1, self.side, self.side, 3)
        flag = np.ones(1, np.bool_)
        if self.hatch is not None:
            corner_hatch(cell, flag, self.hatch)
        for colour, width, inset in self.lines:
            outline(cell, flag, colour, width, inset)
        image.paste(Image.fromarray(pixels), (self.x, self.y))

    def svg(self) -> str:
        """Squares within each other, and a triangle in the corner."""
        x, y, side = self.x, self.y, self.side
        parts = [rect(x, y, side, side, hex_of(self.fill))]
        if self.hatch is not None:
            far, reach = x + side, round(side * 0.6)
            corner = f"{far - reach},{y} {far},{y} {far},{y + reach}"
            parts.append(f'<polygon points="{corner}" fill="{hex_of(self.hatch)}"/>')
        for colour, width, inset in self.lines:
            shift = inset + width / 2
            inner = side - 2 * shift
            line = f' stroke="{hex_of(colour)}" stroke-width="{width}"'
            parts.append(rect(x + shift, y + shift, inner, inner, "none", line))
        return "".join(parts)
