"""Shared by every drawing function: flags of tokens, number formats, and pictures as bytes."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spare_demo.tokens.checks import Indices, as_indices

Flags = NDArray[np.bool_]


def token_flags(tokens: Indices, n: int) -> Flags:
    """(n,) bool, True for the tokens listed."""
    flags = np.zeros(n, np.bool_)
    flags[as_indices(tokens).numpy()] = True
    return flags


def number(value: float, signed: bool = False, scale: float | None = None) -> str:
    """Three significant digits of `scale` (None: of the value itself), plain where readable.

    Numbers that are read side by side share a scale and so their decimals.
    """
    size = abs(value if scale is None else scale)
    if size == 0 or value == 0:
        return "0"
    digits = 2 - int(np.floor(np.log10(size)))
    plain = -4 <= digits <= 6
    text = f"{value:.{max(digits, 0)}f}" if plain else f"{value:.2e}"
    if float(text) == 0:  # what is rounded to 0 has no sign
        return text.lstrip("-")
    return f"+{text}" if signed and value > 0 else text


def png_bytes(image: Image.Image, **settings: Any) -> bytes:
    """The picture as a PNG file; settings are those of Pillow's PNG writer."""
    file = io.BytesIO()
    image.save(file, "PNG", **settings)
    return file.getvalue()


def data_address(image: Image.Image, **settings: Any) -> str:
    """The picture itself as the address of a picture, for HTML and SVG; settings as `png_bytes`."""
    data = base64.b64encode(png_bytes(image, **settings)).decode("ascii")
    return f"data:image/png;base64,{data}"
