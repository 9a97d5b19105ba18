"""The one place that knows how photo, model input and token grid lie on each other.

Three frames, all with x to the right, y down, and (0, 0) at the outer corner of the first pixel,
so that pixel i covers [i, i + 1) and has its centre at i + 0.5:

- photo: pixels of the upright photo as the visitor sees it;
- input: pixels of what the vision tower is given (size x size);
- grid: tokens, `patch` input pixels wide and high, counted in raster order.

Photo and input differ by a scale and a shift per axis, whether the photo was padded or cropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

Aspect = Literal["pad", "crop", "fixed", "any", "native"]
"""How a photo becomes input: the first two are `preprocess.fit`'s, "fixed" and "any" LLaVA-NeXT's
tiles, "native" a size of its own, as Qwen2.5-VL sees it."""
Box = tuple[float, float, float, float]  # x0, y0, x1, y1

# Rounding noise of the boxes, as a share of a token's area; the thinnest real overlap (one pixel
# of a 65,535-pixel picture) is some 10,000 times larger.
_TOUCH = 1e-9
# Rounding noise of an edge, in photo pixels.
_EDGE = 1e-6
GAP = 2
"""Empty columns of cells between two grids that are drawn side by side."""


@dataclass(frozen=True)
class Grid:
    """Where each visual token looks: rows x cols squares of `patch` input pixels.

    input = photo * scale + shift, per axis; `scale` in input pixels per photo pixel, `shift` in
    input pixels. All results are float64 on the CPU.
    """

    photo_size: tuple[int, int]  # (W, H), photo pixels
    rows: int
    cols: int
    patch: int  # input pixels
    scale: tuple[float, float]  # x, y
    shift: tuple[float, float]  # x, y

    @property
    def n(self) -> int:
        """Number of tokens."""
        return self.rows * self.cols

    @property
    def parts(self) -> tuple[Grid, ...]:
        """This grid; see `MultiGrid` for photos that are seen in several."""
        return (self,)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first token of each part."""
        return (0,)

    @property
    def cells(self) -> Tensor:
        """(n,) LongTensor: the cell of rows x cols that each token is drawn in."""
        return torch.arange(self.n)

    @property
    def boxes(self) -> Tensor:
        """(n, 4) x0, y0, x1, y1 of each token in photo pixels, raster order, not clipped."""
        (sx, sy), (ox, oy) = self.scale, self.shift
        x = (torch.arange(self.cols + 1, dtype=torch.float64) * self.patch - ox) / sx
        y = (torch.arange(self.rows + 1, dtype=torch.float64) * self.patch - oy) / sy
        row = torch.arange(self.rows).repeat_interleave(self.cols)
        col = torch.arange(self.cols).repeat(self.rows)
        return torch.stack([x[col], y[row], x[col + 1], y[row + 1]], dim=1)

    @property
    def inside(self) -> Tensor:
        """(n,) share of each token's area that lies on the photo, 0..1."""
        boxes = self.boxes
        size = torch.tensor(self.photo_size, dtype=torch.float64)
        low = boxes[:, :2].clamp(min=0)
        high = torch.minimum(boxes[:, 2:], size)
        share = ((high - low).clamp(min=0) / (boxes[:, 2:] - boxes[:, :2])).prod(dim=1)
        return share.masked_fill(share < _TOUCH, 0.0)

    @property
    def padding(self) -> Tensor:
        """(n,) bool: the token lies wholly outside the photo."""
        return self.inside == 0

    @property
    def extent(self) -> Box:
        """The rectangle all tokens together cover, in photo pixels."""
        (sx, sy), (ox, oy) = self.scale, self.shift
        width, height = self.cols * self.patch, self.rows * self.patch
        return -ox / sx, -oy / sy, (width - ox) / sx, (height - oy) / sy

    @property
    def seen(self) -> Box:
        """The part of the photo that the tokens cover, in photo pixels."""
        x0, y0, x1, y1 = self.extent
        width, height = self.photo_size
        # An edge within rounding noise of the photo's is the photo's.
        return (
            x0 if x0 > _EDGE else 0.0,
            y0 if y0 > _EDGE else 0.0,
            x1 if x1 < width - _EDGE else float(width),
            y1 if y1 < height - _EDGE else float(height),
        )

    @property
    def canvas(self) -> Box:
        """The smallest rectangle that holds photo and tokens, in photo pixels."""
        x0, y0, x1, y1 = self.extent
        width, height = map(float, self.photo_size)
        return min(x0, 0.0), min(y0, 0.0), max(x1, width), max(y1, height)


@dataclass(frozen=True)
class MultiGrid:
    """Several grids over one photo, their tokens one grid after the other.

    LLaVA-NeXT's base view (the whole photo in one square) comes first, then the tiles, joined into
    one grid of finer tokens. What it shares with `Grid` means the same, over all tokens.
    """

    parts: tuple[Grid, ...]
    place: tuple[int, ...] = field(repr=False)
    """Of each token, its number among the patches of all views: the base view's, then the tiles'
    one after the other, each in raster order. Tokens that unpadding left out have none."""

    @property
    def view(self) -> tuple[int, ...]:
        """Of each token, the crop of the photo it was seen in: 0 the base view, then the tiles."""
        return tuple(place // self.parts[0].n for place in self.place)

    @property
    def photo_size(self) -> tuple[int, int]:
        return self.parts[0].photo_size

    @property
    def rows(self) -> int:
        """Rows of cells, where the parts are drawn side by side with all tokens of one size."""
        return max(part.rows for part in self.parts)

    @property
    def cols(self) -> int:
        """Columns of cells, drawn like that: `GAP` empty ones stand between two parts."""
        return self.columns[-1] + self.parts[-1].cols

    @property
    def columns(self) -> tuple[int, ...]:
        """The column of cells that each part starts at; all start at row 0."""
        widths = [part.cols + GAP for part in self.parts]
        return tuple(sum(widths[:i]) for i in range(len(widths)))

    @property
    def cells(self) -> Tensor:
        cells = [
            torch.arange(part.rows)[:, None] * self.cols + column + torch.arange(part.cols)
            for part, column in zip(self.parts, self.columns, strict=True)
        ]
        return torch.cat([part.flatten() for part in cells])

    @property
    def n(self) -> int:
        return sum(part.n for part in self.parts)

    @property
    def starts(self) -> tuple[int, ...]:
        return tuple(sum(part.n for part in self.parts[:i]) for i in range(len(self.parts)))

    @property
    def boxes(self) -> Tensor:
        return torch.cat([part.boxes for part in self.parts])

    @property
    def inside(self) -> Tensor:
        return torch.cat([part.inside for part in self.parts])

    @property
    def padding(self) -> Tensor:
        return self.inside == 0

    @property
    def seen(self) -> Box:
        x0, y0, x1, y1 = zip(*(part.seen for part in self.parts), strict=True)
        return min(x0), min(y0), max(x1), max(y1)


def tile_grids(
    photo_size: tuple[int, int], target: tuple[int, int], size: int, patch: int, unpad: bool
) -> MultiGrid:
    """LLaVA-NeXT's two views: the photo squashed into one square, and enlarged over tiles.

    The second keeps the photo's proportions: scaled to fit `target`, each side rounded up, and
    centred in it. Sources: Hugging Face's LlavaNextImageProcessor and `unpad_image`.

    Args:
        photo_size: W, H in photo pixels.
        target: W, H of all tiles together, in input pixels, multiples of `size`.
        size, patch: side of a tile and of a token, in input pixels.
        unpad: leave out the rows or columns of tokens that padding fills on both sides, as stock
            LLaVA-NeXT does; False keeps all of them, as the papers' fixed setting.

    Returns:
        base and tiles; the base alone where unpadding leaves nothing of a strip.
    """
    (width, height), (across, down) = photo_size, target
    side = size // patch
    base = Grid(photo_size, side, side, patch, (size / width, size / height), (0.0, 0.0))
    scale = (across / width, down / height)
    if scale[0] < scale[1]:
        fitted = (across, min(math.ceil(height * scale[0]), down))
    else:
        fitted = (min(math.ceil(width * scale[1]), across), down)
    left, top = (across - fitted[0]) // 2, (down - fitted[1]) // 2
    rows, cols = down // size * side, across // size * side
    cut_rows = cut_cols = 0
    if unpad and width / height > cols / rows:
        cut_rows = (rows - int(round(height * (cols / width), 7))) // 2
    elif unpad:
        cut_cols = (cols - int(round(width * (rows / height), 7))) // 2
    scale = (fitted[0] / width, fitted[1] / height)
    shift = (float(left - cut_cols * patch), float(top - cut_rows * patch))
    fine = Grid(photo_size, rows - 2 * cut_rows, cols - 2 * cut_cols, patch, scale, shift)
    if not fine.n:
        return MultiGrid((base,), tuple(range(base.n)))
    place = list(range(base.n))
    for row in range(cut_rows, rows - cut_rows):
        for col in range(cut_cols, cols - cut_cols):
            tile = 1 + row // side * (cols // side) + col // side
            place.append(tile * base.n + row % side * side + col % side)
    return MultiGrid((base, fine), tuple(place))
