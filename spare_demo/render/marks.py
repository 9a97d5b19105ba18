"""Outlines and corner marks of tokens: all at a token's edge, the patch inside stays untouched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spare_demo.render.base import Flags
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import WHITE, Colour, hex_of
from spare_demo.render.display import rect

Cells = NDArray[np.uint8]  # (rows, cols, patch, patch, 3), a view into the picture


def line_width(patch: int) -> int:
    """Width of an outline for tokens of `patch` canvas pixels."""
    return max(1 if patch < 12 else 2, round(patch / 13))


def outline(cells: Cells, flags: Flags, colour: Colour, width: int, inset: int) -> None:
    """Draw, in place, a line of `width` canvas pixels along the inner edge of the flagged tokens.

    Args:
        cells: (rows, cols, patch, patch, 3) view, as `Canvas.cells` gives it.
        flags: (n,) bool.
        inset: canvas pixels between the token's edge and the line. Without inset, two flagged
            neighbours share one line instead of drawing it twice as wide.
    """
    rows, cols, patch = cells.shape[:3]
    for x, y, across, down, edge in _bars(flags.reshape(rows, cols), patch, width, inset):
        row, col = np.nonzero(edge)
        cells[row, col, y : y + down, x : x + across] = colour


def _bars(
    own: Flags, patch: int, width: int, inset: int
) -> Iterator[tuple[int, int, int, int, Flags]]:
    """What outlines are made of: x, y, width and height of a bar in its token, and which have it.

    own: (rows, cols), the flagged tokens. patch: side of a token. width, inset: as of `outline`.
    """
    padded = np.pad(own, 1)
    neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    shared_width = width if inset else max(1, width // 2)
    length = patch - 2 * inset
    for side, neighbour in zip(("top", "bottom", "left", "right"), neighbours, strict=True):
        for edge, thick in ((own & ~neighbour, width), (own & neighbour, shared_width)):
            start = inset if side in ("top", "left") else patch - inset - thick
            if side in ("top", "bottom"):
                yield inset, start, length, thick, edge
            else:
                yield start, inset, thick, length, edge


def corner_hatch(cells: Cells, flags: Flags, colour: Colour) -> None:
    """Draw, in place, the top right corner of the flagged tokens (n,) in a colour behind white.

    The white line is seen where the colour is not, in grey print and beside a patch of its own.
    """
    rows, cols, patch = cells.shape[:3]
    y, x = np.ogrid[:patch, :patch]
    depth = x - y - (patch - _reach(patch))
    edge = max(1, patch // 14)
    row, col = np.nonzero(flags.reshape(rows, cols))
    for part, paint in (((depth >= 0) & (depth < edge), WHITE), (depth >= edge, colour)):
        inside_y, inside_x = np.nonzero(part)
        cells[row[:, None], col[:, None], inside_y[None, :], inside_x[None, :]] = paint


def _reach(patch: int) -> int:
    """How far a corner mark goes along the sides of a token."""
    return max(3, patch * 3 // 5)


def _corners_svg(corners: Sequence[tuple[int, int]], patch: int, colour: Colour) -> str:
    """The same at each top right corner (x, y) of a token, in two paths."""
    reach = _reach(patch)
    triangles = "".join(f"M{x - reach} {y}H{x}V{y + reach}z" for x, y in corners)
    edges = "".join(f"M{x - reach} {y}L{x} {y + reach}" for x, y in corners)
    return (
        f'<path d="{triangles}" fill="{hex_of(colour)}"/>'
        f'<path d="{edges}" stroke="{hex_of(WHITE)}" stroke-width="{max(1, patch // 14)}"/>'
    )


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
        """The same bars, in one path."""
        (left, top), patch, grid = self.canvas.origin, self.canvas.patch, self.canvas.grid
        own = self.canvas.per_cell(self.flags).reshape(grid.rows, grid.cols)
        path = "".join(
            f"M{left + col * patch + x} {top + row * patch + y}h{across}v{down}h{-across}z"
            for x, y, across, down, edge in _bars(own, patch, self.width, self.inset)
            for row, col in np.argwhere(edge)
        )
        return path and f'<path d="{path}" fill="{hex_of(self.colour)}"/>'


@dataclass(frozen=True, eq=False)
class Hatch:
    """A mark in the top right corner of the flagged tokens of a canvas; see `corner_hatch`."""

    canvas: Canvas
    flags: Flags
    colour: Colour

    def paint(self, image: Image.Image, scale: int) -> None:
        pixels = np.array(image)
        corner_hatch(self.canvas.cells(pixels), self.canvas.per_cell(self.flags), self.colour)
        image.paste(Image.fromarray(pixels))

    def svg(self) -> str:
        boxes = [self.canvas.rectangle(int(token)) for token in np.flatnonzero(self.flags)]
        corners = [(x1, y0) for _, y0, x1, _ in boxes]
        return _corners_svg(corners, self.canvas.patch, self.colour) if corners else ""


@dataclass(frozen=True, eq=False)
class Fill:
    """Colours over the flagged tokens of a canvas, through which what lies below is seen.

    colours: (n, 3). opacity: of the colours, 0 to 1.
    """

    canvas: Canvas
    flags: Flags
    colours: NDArray[np.uint8]
    opacity: float

    def paint(self, image: Image.Image, scale: int) -> None:
        colours, (x, y) = self.canvas.spread(self.colours), self.canvas.origin
        ground = image.crop((x, y, x + colours.width, y + colours.height))
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
        """Squares within each other, and the mark in the corner."""
        x, y, side = self.x, self.y, self.side
        parts = [rect(x, y, side, side, hex_of(self.fill))]
        if self.hatch is not None:
            parts.append(_corners_svg([(x + side, y)], side, self.hatch))
        for colour, width, inset in self.lines:
            shift = inset + width / 2
            inner = side - 2 * shift
            line = f' stroke="{hex_of(colour)}" stroke-width="{width}"'
            parts.append(rect(x + shift, y + shift, inner, inner, "none", line))
        return "".join(parts)
