"""The base of all pictures: the photo at true geometry, its tokens as whole squares.

Everything expensive (scaling the photo) happens once per photo here; the drawing functions take a
`Canvas` and only paste and blend, so a slider can call them at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from spare_demo.images.geometry import Box, Grid, MultiGrid
from spare_demo.render.base import Flags, data_address

# The picture's long side, in canvas pixels: two and three times 336, large enough to read
# numbers on patches and small enough to send at every step of a slider.
SHORTEST, LONGEST = 672, 1008
# A strip of a photo is drawn longer than that, for its tokens to be seen, up to a limit.
_LEAST_TOKEN, _STRIP = 16, 4096
DIM = 0.35  # brightness left to a dropped patch
PALE = 0.2  # contrast left to a margin that the model never sees
# What a coloured map lies on has little contrast, since brightness there belongs to the values.
_SOFT, _SOFT_DARKEST = 0.65, 45

_GROUND = (250, 250, 250)  # between two views
_PAPER, _HATCH = 226, 192  # grey levels of padding and of the lines on it
_THUMBNAIL = 64  # drawn at half that size: sharp on screens of two pixels a point
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class Canvas:
    """A photo and its tokens, ready to be drawn on.

    Canvas pixels count from the picture's top left corner. Padding is hatched. Margins of the
    photo that no token covers are pale (on every one of the three pictures alike), because dark
    means "seen, and dropped". A photo that is seen in several views stands there as often, the
    views side by side, with all tokens of one size: a base view is small and squashed, as the
    model sees it.

    Attributes:
        grid: the geometry this was made from.
        patch: side of a token, in canvas pixels; a whole number, the same both ways.
        origin: x, y of the first cell's corner, in canvas pixels; rows x cols cells follow.
        photos: x0, y0, x1, y1 of what is drawn of the photo in each view, in canvas pixels.
        image, dim, grey: RGB pictures of the canvas: as it is; grey at 35 % brightness; grey of
            little contrast, to lay a map of colours on.
    """

    def __init__(self, photo: Image.Image, grid: Grid | MultiGrid) -> None:
        """photo: upright RGB, the one that `grid` was made for."""
        self.grid = grid
        self._cell: NDArray[np.int64] = grid.cells.numpy()
        self.patch = _patch_size(grid)
        panels = [_Panel(photo, part, self.patch) for part in grid.parts]
        columns = [int(self._cell[start]) % grid.cols for start in grid.starts]
        # A panel may have margins around its tokens: the widest on each side is left free.
        corners = [
            (column * self.patch - panel.origin[0], -panel.origin[1])
            for column, panel in zip(columns, panels, strict=True)
        ]
        self.origin = (-min(x for x, _ in corners), -min(y for _, y in corners))
        self._corners = [(x + self.origin[0], y + self.origin[1]) for x, y in corners]
        placed = list(zip(self._corners, panels, strict=True))
        self.size = (
            max(x + panel.size[0] for (x, _), panel in placed),
            max(y + panel.size[1] for (_, y), panel in placed),
        )
        self.photos = [
            (left + x, top + y, right + x, bottom + y)
            for (x, y), panel in placed
            for left, top, right, bottom in [panel.photo]
        ]
        pictures = zip(*(panel.pictures for panel in panels), strict=True)
        self.image, self.dim, self.grey = map(self._side_by_side, pictures)

    @cached_property
    def thumbnail(self) -> str:
        """The address of a small square picture of it, for a line of text."""
        small = ImageOps.pad(self.image, (_THUMBNAIL, _THUMBNAIL), color=_GROUND)
        return data_address(small)

    @property
    def cropped(self) -> bool:
        """Whether part of the photo lies outside every token."""
        return self.grid.seen != (0.0, 0.0, *map(float, self.grid.photo_size))

    def rectangle(self, token: int) -> tuple[int, int, int, int]:
        """x0, y0, x1, y1 of a token in canvas pixels, x1 and y1 just beyond it."""
        row, col = divmod(int(self._cell[token]), self.grid.cols)
        x, y = self.origin[0] + col * self.patch, self.origin[1] + row * self.patch
        return x, y, x + self.patch, y + self.patch

    def where(self, token: int) -> str:
        """A token's place in words, counted from 1: "row 2, column 5 of the tiles"."""
        parts, starts = self.grid.parts, self.grid.starts
        index = max(i for i, start in enumerate(starts) if start <= token)
        row, col = divmod(token - starts[index], parts[index].cols)
        words = f"row {row + 1}, column {col + 1}"
        if len(parts) == 1:
            return words
        return f"{words} of the {'tiles' if index else 'base view'}"

    def keep(self, flags: Flags, other: Image.Image | None = None) -> Image.Image:
        """The dimmed canvas with the flagged tokens (n,) as they are, or as in another picture of
        the canvas; a new RGB image."""
        mask = Image.new("L", self.size, 0)
        mask.paste(self.spread(flags.astype(np.uint8) * 255), self.origin)
        return Image.composite(other or self.image, self.dim, mask)

    def cells(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A view (rows, cols, patch, patch, 3) of the cells of a canvas-sized array (h, w, 3)."""
        (x, y), patch, rows, cols = self.origin, self.patch, self.grid.rows, self.grid.cols
        tokens = picture[y : y + rows * patch, x : x + cols * patch]
        return tokens.reshape(rows, patch, cols, patch, 3).transpose(0, 2, 1, 3, 4)

    def per_cell(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n, …) values of tokens -> (rows * cols, …) of cells, 0 in those between the views."""
        whole = np.zeros((self.grid.rows * self.grid.cols, *values.shape[1:]), values.dtype)
        whole[self._cell] = values
        return whole

    def spread(self, per_token: NDArray[np.uint8]) -> Image.Image:
        """(n,) or (n, 3) values -> picture of the cells, each token one flat square."""
        rows, cols = self.grid.rows, self.grid.cols
        values = self.per_cell(per_token)
        small = Image.fromarray(values.reshape(rows, cols, *values.shape[1:]))
        return small.resize((cols * self.patch, rows * self.patch), Image.Resampling.NEAREST)

    def _side_by_side(self, pictures: Sequence[Image.Image]) -> Image.Image:
        whole = Image.new("RGB", self.size, _GROUND)
        for corner, picture in zip(self._corners, pictures, strict=True):
            whole.paste(picture, corner)
        return whole


class _Panel:
    """One grid over the photo, with what lies around it.

    Attributes:
        patch, origin, size: as of `Canvas`.
        photo: x0, y0, x1, y1 of what is drawn of the photo, in pixels of this panel.
        pictures: the panel as it is, dimmed, and grey.
    """

    def __init__(self, photo: Image.Image, grid: Grid, patch: int) -> None:
        self.grid, self.patch = grid, patch
        self._token = _token_size(grid)
        region = _drawn_region(grid)
        extent = grid.extent
        before = [round((extent[i] - region[i]) / self._token[i] * patch) for i in (0, 1)]
        after = [round((region[i + 2] - extent[i + 2]) / self._token[i] * patch) for i in (0, 1)]
        self.origin = (before[0], before[1])
        across, down = grid.cols * patch, grid.rows * patch
        self.size = (before[0] + across + after[0], before[1] + down + after[1])
        self.pictures = self._draw(photo, region)

    def _to_panel(self, x: float, y: float) -> tuple[float, float]:
        """A point in photo pixels -> pixels of this panel."""
        x0, y0, _, _ = self.grid.extent
        across = self.origin[0] + (x - x0) / self._token[0] * self.patch
        return across, self.origin[1] + (y - y0) / self._token[1] * self.patch

    def _draw(self, photo: Image.Image, region: Box) -> list[Image.Image]:
        width, height = self.size
        hatch = hatch_pattern(width, height)
        (x0, y0, x1, y1), (across, down) = region, map(float, photo.size)
        shown = (max(x0, 0.0), max(y0, 0.0), min(x1, across), min(y1, down))
        left, top = (max(0, round(v)) for v in self._to_panel(shown[0], shown[1]))
        right, bottom = (round(v) for v in self._to_panel(shown[2], shown[3]))
        right, bottom = min(max(right, left + 1), width), min(max(bottom, top + 1), height)
        self.photo = (left, top, right, bottom)
        place = np.s_[top:bottom, left:right]
        colour = hatch.copy()
        colour[place] = np.asarray(_scale(photo, (right - left, bottom - top), shown))
        luma = colour[place].astype(np.float32) @ _LUMA

        dim = hatch.copy()
        grey = (hatch * _SOFT + _SOFT_DARKEST).astype(np.uint8)
        grey[place] = np.rint(luma * _SOFT + _SOFT_DARKEST)[..., None]
        dim[place] = np.rint(luma * DIM)[..., None]
        pale = hatch.copy()
        pale[place] = np.rint(PALE * luma + (1 - PALE) * 240)[..., None]
        (x, y), patch = self.origin, self.patch
        tokens = np.s_[y : y + self.grid.rows * patch, x : x + self.grid.cols * patch]
        pictures = []
        for whole in (colour, dim, grey):
            picture = pale.copy()
            picture[tokens] = whole[tokens]
            pictures.append(Image.fromarray(picture))
        return pictures


def _token_size(grid: Grid) -> tuple[float, float]:
    """Width and height of a token, in photo pixels."""
    return grid.patch / grid.scale[0], grid.patch / grid.scale[1]


def _patch_size(grid: Grid | MultiGrid) -> int:
    """Side of a token in canvas pixels, such that the picture is neither too small nor too big."""
    if isinstance(grid, MultiGrid):
        return max(1, LONGEST // max(grid.rows, grid.cols))
    region, token = _drawn_region(grid), _token_size(grid)
    spans = [(region[i + 2] - region[i]) / token[i] for i in (0, 1)]  # tokens
    long_side = max(region[2] - region[0], region[3] - region[1])
    # The tokens are what is looked at: margins do not count towards the least size.
    least = SHORTEST * max(spans) / max(grid.rows, grid.cols)
    patch = min(max(long_side, least), LONGEST) / max(spans)
    return max(1, int(max(patch, min(_LEAST_TOKEN, _STRIP / max(spans)))))


def hatch_pattern(width: int, height: int) -> NDArray[np.uint8]:
    """(height, width, 3) of the grey diagonal hatch that stands for padding."""
    down, across = np.ogrid[:height, :width]
    paper = np.where((across + down) % 12 < 2, _HATCH, _PAPER).astype(np.uint8)
    return np.repeat(paper[..., None], 3, axis=2)


def _drawn_region(grid: Grid) -> Box:
    """The grid's canvas, without the far ends of a cropped strip.

    On each side at most half the length of the token area stays as margin: what the model sees of
    a 1:200 panorama would otherwise be a speck.
    """
    (x0, y0, x1, y1), (left, top, right, bottom) = grid.extent, grid.canvas
    across, down = (x1 - x0) / 2, (y1 - y0) / 2
    left, top = max(left, x0 - across), max(top, y0 - down)
    return left, top, min(right, x1 + across), min(bottom, y1 + down)


def _scale(photo: Image.Image, size: tuple[int, int], box: Box) -> Image.Image:
    """The part `box` of the photo at `size`; a photo of few pixels keeps them square and crisp."""
    enlarged = min(size[0] / (box[2] - box[0]), size[1] / (box[3] - box[1]))
    whole = abs(enlarged - round(enlarged)) < 1e-3 and enlarged > 1.5
    if whole or enlarged >= 4:
        return photo.resize(size, Image.Resampling.NEAREST, box=box)
    # Enlarged, Lanczos would draw bright and dark rims along edges that the photo does not have.
    smooth = Image.Resampling.BILINEAR if enlarged > 1 else Image.Resampling.LANCZOS
    return photo.resize(size, smooth, box=box, reducing_gap=3.0)
