"""A photo becomes the square that a CLIP vision tower takes; `geometry` says what lies where on it.

However long and thin the photo is, no square of its length is made.
"""

from __future__ import annotations

from PIL import Image

from spare_demo.images.geometry import Aspect, Grid

# A padded or scaled picture beyond this many pixels is worked on piece by piece instead of whole.
_PIECE_PIXELS = 16_000_000
# A square beyond this many pixels takes a second or more to scale row by row.
_SLOW_PIXELS = 250_000_000


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
    """
    image, scale, shift = _pad(photo, size, fill) if aspect == "pad" else _crop(photo, size)
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
        right, bottom = min((left + size) / scale[0], width), min((top + size) / scale[1], height)
        box = (left / scale[0], top / scale[1], right, bottom)
        image = photo.resize((size, size), Image.Resampling.BICUBIC, box=box)
    return image, scale, (float(-left), float(-top))
