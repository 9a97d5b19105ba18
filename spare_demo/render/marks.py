"""Outlines and corner marks of tokens: all at a token's edge, the patch inside stays untouched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spare_demo.render.base import Colour, Flags

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
    framed = np.pad(own, 1)
    shared_width = width if inset else max(1, width // 2)
    neighbours = {
        "up": framed[:-2, 1:-1],
        "down": framed[2:, 1:-1],
        "left": framed[1:-1, :-2],
        "right": framed[1:-1, 2:],
    }
    along = slice(inset, patch - inset)
    for side, neighbour in neighbours.items():
        for chosen, thick in ((own & ~neighbour, width), (own & neighbour, shared_width)):
            start = inset if side in ("up", "left") else patch - inset - thick
            across = slice(start, start + thick)
            row, col = np.nonzero(chosen)
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
