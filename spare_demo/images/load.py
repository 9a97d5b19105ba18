"""Opens what a visitor hands over: any picture file becomes one upright RGB picture, or a sentence.

Strangers send files, so size is judged from the header, before a single pixel is decoded, and only
plain raster formats are tried (Pillow would hand an EPS file to an interpreter). Kinds whose cost
cannot be counted beforehand are decoded in a process of their own, with bounds. Every refusal is
a `PictureError` whose message can be shown as it stands: no path, no traceback, and the next step.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngImageFile

from spare_demo.images.bounded_process import run_bounded
from spare_demo.images.file_parts import TIFF_HEADS, has_too_many_parts, tags_exceed

Source = str | os.PathLike[str] | bytes | bytearray | IO[bytes] | Image.Image

# Long enough for any JPEG; a 1 x 40,000,000 strip would pass the pixel limit and still need
# gigabytes once it is scaled to what a vision tower sees.
MAX_SIDE = 65_535

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "AVIF", "PPM", "ICO", "JPEG2000")
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")

# How files start whose cost their parts do not tell: of TIFF and ICO, whose tiles and pictures may
# be larger than what they announce; of BMP and PNM, parts of which Pillow reads in Python; of
# JPEG 2000 and AVIF.
_COSTLY = (*TIFF_HEADS, b"\0\0\1\0", b"BM", b"P", b"\0\0\0\x0cjP", b"\xff\x4f\xff\x51")
_AVIF = b"ftyp"  # after the length of its own box

_EMPTY = "The file is empty. Choose another one."
_MISSING = "The picture could not be opened. Choose it again."
_NOT_A_PICTURE = (
    "This file is not a picture that can be read here. Save it as PNG or JPEG and choose that."
)
_DAMAGED = "The picture file is cut off or damaged. Save it again as PNG or JPEG and choose that."
_OVERLOADED = (
    "The picture file has too many parts: more scans, tags or comments than a camera or a program "
    "writes. Save it again as PNG or JPEG and choose that."
)
_TOO_COSTLY = (
    "The picture takes more time or memory to open than one picture may. Save it again as PNG or "
    "JPEG and choose that."
)


class PictureError(ValueError):
    """A picture that cannot be used; the message says what to do next and may be shown as is."""


def file_digest(path: str | Path) -> str:
    """sha256 of a file's bytes: uploads are told apart by what they hold, not by name."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def photo_digest(photo: Image.Image) -> str:
    """sha256 of the upright RGB pixels: the same for one picture in any lossless format."""
    return hashlib.sha256(photo.tobytes()).hexdigest()


def open_picture(source: Source, max_pixels: int = 40_000_000) -> Image.Image:
    """Open a picture as the visitor sees it: upright, RGB, first frame, transparency on white.

    Args:
        source: path, bytes, binary file object, or a Pillow image (left as it was).
        max_pixels: largest width * height that is decoded; Pillow's own limit holds as well.

    Returns:
        a new RGB image without metadata (a photo's GPS position travels no further).

    Raises:
        PictureError: no picture, empty, damaged, or too large; judged from the header.
        MemoryError: this machine has no memory left for it.
    """
    if isinstance(source, Image.Image):
        return _decode(source, max_pixels)
    if isinstance(source, bytes | bytearray):
        return _open_stream(io.BytesIO(source), max_pixels)
    if isinstance(source, str | os.PathLike):
        try:
            with open(source, "rb") as stream:
                return _open_stream(stream, max_pixels)
        except PictureError:
            raise
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            raise PictureError(_MISSING) from error
    if not hasattr(source, "read") or isinstance(source, io.TextIOBase):
        raise PictureError(
            'A picture is a path, the bytes of a picture file, a file opened in mode "rb", or a '
            f"Pillow image, not {type(source).__name__}. PIL.Image.fromarray makes one of an array."
        )
    return _open_stream(source, max_pixels)


def open_local_picture(source: Source, max_pixels: int = 40_000_000) -> Image.Image:
    """As `open_picture`, for whoever runs the program: a refusal names the file."""
    try:
        return open_picture(source, max_pixels)
    except PictureError as error:
        if not isinstance(source, str | os.PathLike):
            raise
        name, cause = os.fspath(source), error.__cause__
        if isinstance(cause, FileNotFoundError):
            raise PictureError(f"There is no file {name}.") from None
        if isinstance(cause, OSError) and str(error) == _MISSING:
            raise PictureError(f"{name} could not be opened: {cause.strerror}.") from None
        raise PictureError(f"{name}: {error}") from None


def _open_stream(stream: IO[bytes], max_pixels: int) -> Image.Image:
    try:
        if not stream.seekable():
            stream = io.BytesIO(stream.read())
        stream.seek(0)
        head = stream.read(16)
        stream.seek(0)
    except (OSError, ValueError) as error:
        raise PictureError(_MISSING) from error
    if not head:
        raise PictureError(_EMPTY)
    if has_too_many_parts(stream):
        raise PictureError(_OVERLOADED)
    if head.startswith(_COSTLY) or head[4:8] == _AVIF:
        return _decode_apart(stream.read(), max_pixels)
    return decode_file(stream, max_pixels)


def _decode_apart(data: bytes, max_pixels: int) -> Image.Image:
    output = run_bounded("spare_demo.images.decode_program", data, str(max_pixels))
    if output is None:
        raise PictureError(_TOO_COSTLY)
    size, _, rest = output.partition(b"\n")
    if not size:
        raise PictureError(rest.decode())
    width, height = map(int, size.split())
    return Image.frombytes("RGB", (width, height), rest)


def decode_file(stream: IO[bytes], max_pixels: int) -> Image.Image:
    """The picture of a file, decoded in this process; else as `open_picture`."""
    Image.init()
    known = [name for name in _FORMATS if name in Image.OPEN]  # AVIF came with Pillow 11.3
    refusal = _DAMAGED if stream.read(8).startswith(_SIGNATURES) else _NOT_A_PICTURE
    stream.seek(0)
    with _refusing(refusal, max_pixels), Image.open(stream, formats=known) as image:
        return _decode(image, max_pixels)


@contextmanager
def _refusing(refusal: str, max_pixels: int) -> Iterator[None]:
    """What Pillow raises becomes a PictureError, with a sentence of its own for too large ones."""
    try:
        yield
    except (PictureError, MemoryError):  # no memory left says nothing about the file
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(_too_large(None, max_pixels)) from error
    except Exception as error:  # parsers of hostile files raise whatever they like
        raise PictureError(refusal) from error


def _decode(image: Image.Image, max_pixels: int) -> Image.Image:
    _check_size(image.size, max_pixels)
    raw_mode = image.tile[0].args if isinstance(image, PngImageFile) and image.tile else None
    with _refusing(_DAMAGED, max_pixels):
        image.load()
    if tags_exceed(_exif_of(image)):  # which may follow the pixels of a PNG
        raise PictureError(_OVERLOADED)
    _check_size(image.size, max_pixels)  # an ICO or GIF may hold more than it announced
    result = _to_rgb(_upright(_with_transparency_in_8_bits(image, raw_mode)))
    if result is image:
        result = image.copy()
    result.info = {}
    return result


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise PictureError(_DAMAGED)
    if width * height > max_pixels:
        raise PictureError(_too_large(size, max_pixels))
    if max(size) > MAX_SIDE:
        raise PictureError(
            f"The picture is {width} by {height} pixels; no side may be longer than "
            f"{MAX_SIDE:,} pixels. Crop it and choose that."
        )


def _too_large(size: tuple[int, int] | None, max_pixels: int) -> str:
    what = f"The picture is {size[0]} by {size[1]} pixels" if size else "The picture is too large"
    return (
        f"{what}; at most {max_pixels / 1e6:g} million pixels are accepted. "
        "Make it smaller and choose that."
    )


def _with_transparency_in_8_bits(image: Image.Image, raw_mode: object) -> Image.Image:
    """Pillow scales the pixels of a PNG to 8 bits, but not its one transparent colour.

    raw_mode: Pillow's name for how the pixels lie in the file.
    """
    colour = image.info.get("transparency")
    if colour is None or raw_mode not in ("L;2", "L;4", "RGB;16B"):
        return image
    image = image.copy()
    if raw_mode == "RGB;16B":
        image.info["transparency"] = tuple(level // 256 for level in colour)
    else:
        image.info["transparency"] = colour * {"L;2": 85, "L;4": 17}[raw_mode]
    return image


def _exif_of(image: Image.Image) -> bytes:
    """What Pillow will read how to turn the picture from."""
    exif, words = image.info.get("exif"), image.info.get("Raw profile type exif")
    if exif is None and isinstance(words, str):
        with suppress(ValueError):  # then Pillow cannot, either
            exif = bytes.fromhex("".join(words.split("\n")[3:]))
    return exif if isinstance(exif, bytes) else b""


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # broken EXIF says nothing: the pixels stand as stored
        return image


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16"):
        levels = np.asarray(image).astype(np.uint32)
        if "transparency" in image.info:
            levels[levels == image.info["transparency"]] = 65_535
        # level / 257, rounded, in the array itself: a large picture takes a quarter of a gigabyte
        levels *= 255
        levels += 32_895
        levels >>= 16
        return Image.fromarray(levels.astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        grey = _to_bytes_range(np.asarray(image).astype(np.float64))
        return Image.fromarray(np.rint(grey).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        # La goes through LA: Pillow knows no direct way from it to RGBA.
        rgba = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _to_bytes_range(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers without a declared range -> 0..255, by the smallest usual range that holds them.

    (h, w) float: within 0..1 they are shares, within 0..255 grey levels, within 0..65535 16-bit
    levels; beyond that, or with a sign, lowest..highest is stretched. NaN is black.
    """
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return np.zeros_like(values)
    low, high = float(finite.min()), float(finite.max())
    values = np.nan_to_num(values, nan=min(low, 0.0), posinf=high, neginf=low)
    if low < 0 or high > 65_535:
        low = float(values.min())
        return (values - low) * (255 / (high - low)) if high > low else np.zeros_like(values)
    if high <= 1:
        return values * 255
    return values if high <= 255 else values / 257
