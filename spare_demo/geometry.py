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
from dataclasses import dataclass
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor

Aspect = Literal["pad", "crop", "fixed", "any", "native"]
"""How a photo becomes input: the first two are `fit`'s, "fixed" and "any" LLaVA-NeXT's tiles,
"native" a size of its own, as Qwen2.5-VL sees it."""
Box = tuple[float, float, float, float]  # x0, y0, x1, y1

# Rounding noise of the boxes, as a share of a token's area; the thinnest real overlap (one pixel
# of a 65,535-pixel picture) is some 10,000 times larger.
_TOUCH = 1e-9
# Rounding noise of an edge, in photo pixels.
_EDGE = 1e-6
GAP = 2
"""Empty columns of cells between two grids that are drawn side by side."""
# A padded or scaled picture beyond this many pixels is worked on piece by piece instead of whole.
_PIECE_PIXELS = 16_000_000
# A square beyond this many pixels takes a second or more to scale row by row.
_SLOW_PIXELS = 250_000_000


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
        return torch.where(share < _TOUCH, torch.zeros_like(share), share.clamp(max=1))

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
        width, height = self.photo_size
        return min(x0, 0.0), min(y0, 0.0), max(x1, float(width)), max(y1, float(height))

    def photo_to_input(self, points: Any) -> Tensor:
        """(..., 2) x, y in photo pixels -> the same points in input pixels."""
        scale = torch.tensor(self.scale, dtype=torch.float64)
        shift = torch.tensor(self.shift, dtype=torch.float64)
        return torch.as_tensor(points, dtype=torch.float64) * scale + shift

    def token_at(self, x: float, y: float) -> int | None:
        """The token at a point in photo pixels (for pixel i pass i + 0.5), None beyond the grid."""
        across, down = (self.photo_to_input([x, y]) / self.patch).tolist()
        if not (0 <= across < self.cols and 0 <= down < self.rows):  # NaN ends here as well
            return None
        return int(down) * self.cols + int(across)


@dataclass(frozen=True)
class MultiGrid:
    """Several grids over one photo, their tokens one grid after the other.

    LLaVA-NeXT's base view (the whole photo in one square) comes first, then the tiles, joined into
    one grid of finer tokens. What it shares with `Grid` means the same, over all tokens.
    """

    parts: tuple[Grid, ...]
    place: tuple[int, ...]
    """Of each token, its number among the patches of all views: the base view's, then the tiles'
    one after the other, each in raster order. Tokens that unpadding left out have none."""

    @property
    def view(self) -> tuple[int, ...]:
        """Of each token, the crop of the photo it was seen in: 0 the base view, then the tiles."""
        return tuple(place // self.parts[0].n for place in self.place)

    @property
    def photo_size(self) -> tuple[int, int]:
        """W, H in photo pixels."""
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
        """(n,) LongTensor: the cell of rows x cols that each token is drawn in."""
        return torch.cat(
            [
                (
                    torch.arange(part.rows)[:, None] * self.cols + column + torch.arange(part.cols)
                ).flatten()
                for part, column in zip(self.parts, self.columns, strict=True)
            ]
        )

    @property
    def n(self) -> int:
        """Number of tokens."""
        return sum(part.n for part in self.parts)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first token of each part."""
        return tuple(sum(part.n for part in self.parts[:i]) for i in range(len(self.parts)))

    @property
    def boxes(self) -> Tensor:
        """(n, 4) x0, y0, x1, y1 of each token in photo pixels, not clipped."""
        return torch.cat([part.boxes for part in self.parts])

    @property
    def inside(self) -> Tensor:
        """(n,) share of each token's area that lies on the photo, 0..1."""
        return torch.cat([part.inside for part in self.parts])

    @property
    def padding(self) -> Tensor:
        """(n,) bool: the token lies wholly outside the photo."""
        return self.inside == 0

    @property
    def extent(self) -> Box:
        """The rectangle all tokens together cover, in photo pixels."""
        return _around([part.extent for part in self.parts])

    @property
    def seen(self) -> Box:
        """The part of the photo that the tokens cover, in photo pixels."""
        return _around([part.seen for part in self.parts])

    @property
    def canvas(self) -> Box:
        """The smallest rectangle that holds photo and tokens, in photo pixels."""
        return _around([part.canvas for part in self.parts])

    def token_at(self, x: float, y: float) -> int | None:
        """The finest token at a point in photo pixels, None beyond all grids."""
        for part, start in reversed(list(zip(self.parts, self.starts, strict=True))):
            if (token := part.token_at(x, y)) is not None:
                return start + token
        return None


def tiled(
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
    fine = Grid(
        photo_size,
        rows - 2 * cut_rows,
        cols - 2 * cut_cols,
        patch,
        (fitted[0] / width, fitted[1] / height),
        (float(left - cut_cols * patch), float(top - cut_rows * patch)),
    )
    if not fine.n:
        return MultiGrid((base,), tuple(range(base.n)))
    place = list(range(base.n))
    for row in range(cut_rows, rows - cut_rows):
        for col in range(cut_cols, cols - cut_cols):
            tile = 1 + row // side * (cols // side) + col // side
            place.append(tile * base.n + row % side * side + col % side)
    return MultiGrid((base, fine), tuple(place))


def _around(boxes: list[Box]) -> Box:
    """The smallest rectangle that holds them all."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def fit(
    photo: Image.Image, size: int, patch: int, aspect: Aspect, fill: tuple[int, int, int]
) -> tuple[Image.Image, Grid]:
    """Scale an upright RGB photo to what the vision tower takes, and say where its tokens lie.

    "pad" is the original LLaVA-1.5: expand to a square with the colour `fill` (there
    int(255 * CLIP mean)), photo in the middle, then bicubic to size x size. "crop" is Hugging
    Face's CLIPImageProcessor: shortest edge to `size` by bicubic, then the central square. Both
    give the same pixels as those do (at most one grey level apart for strips so long that the
    square or the stretched strip would fill the memory, and is never made).

    Args:
        photo: RGB, upright.
        size, patch: side of the input and of one token, in input pixels.
        aspect: "pad" or "crop".
        fill: colour of the padding, 0..255.

    Returns:
        the size x size RGB input, and its grid of (size // patch) ** 2 tokens.

    Raises:
        ValueError: a photo that is not RGB, an unknown aspect, or a patch larger than the input.
    """
    if photo.mode != "RGB":
        raise ValueError(f"fit takes an RGB photo, not {photo.mode}; open it with open_picture.")
    if not 1 <= patch <= size:
        raise ValueError(f"a patch of {patch} does not fit an input of {size} pixels.")
    if aspect == "pad":
        image, scale, shift = _pad(photo, size, fill)
    elif aspect == "crop":
        image, scale, shift = _crop(photo, size)
    else:
        raise ValueError(f'unknown aspect {aspect!r}: choose "pad" or "crop".')
    tokens = size // patch
    return image, Grid(photo.size, tokens, tokens, patch, scale, shift)


_Fitted = tuple[Image.Image, tuple[float, float], tuple[float, float]]  # input, scale, shift


def _pad(photo: Image.Image, size: int, fill: tuple[int, int, int]) -> _Fitted:
    width, height = photo.size
    side = max(width, height)
    left, top = (side - width) // 2, (side - height) // 2
    scale = size / side
    shift = (left * scale, top * scale)
    if height > width and side * side > _SLOW_PIXELS:  # one grey level apart at most
        low = Image.new("RGB", (side, size), fill)
        low.paste(photo.resize((width, size), Image.Resampling.BICUBIC), (left, 0))
        return low.resize((size, size), Image.Resampling.BICUBIC), (scale, scale), shift
    # Pillow resizes along x and then along y, row by row; doing the same in strips of rows gives
    # the same bytes while a 1:200 panorama never becomes a square of its length.
    narrow = Image.new("RGB", (size, side), fill)
    rows = max(1, _PIECE_PIXELS // side)
    for y in range(0, height, rows):
        strip = photo.crop((0, y, width, min(y + rows, height)))
        if width < side:
            padded = Image.new("RGB", (side, strip.height), fill)
            padded.paste(strip, (left, 0))
            strip = padded
        narrow.paste(strip.resize((size, strip.height), Image.Resampling.BICUBIC), (0, top + y))
    return narrow.resize((size, size), Image.Resampling.BICUBIC), (scale, scale), shift


def _crop(photo: Image.Image, size: int) -> _Fitted:
    width, height = photo.size
    short, long = min(width, height), max(width, height)
    stretched = int(size * long / short)
    new_width, new_height = (size, stretched) if width <= height else (stretched, size)
    left, top = (new_width - size) // 2, (new_height - size) // 2
    scale = (new_width / width, new_height / height)
    if new_width * new_height <= _PIECE_PIXELS:
        whole = photo.resize((new_width, new_height), Image.Resampling.BICUBIC)
        image = whole.crop((left, top, left + size, top + size))
    else:  # a strip so long that only its middle is computed: one grey level apart at most
        box = (left / scale[0], top / scale[1])
        end = ((left + size) / scale[0], (top + size) / scale[1])
        image = photo.resize(
            (size, size),
            Image.Resampling.BICUBIC,
            box=(*box, min(end[0], width), min(end[1], height)),
        )
    return image, scale, (float(-left), float(-top))
