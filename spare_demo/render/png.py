"""A picture as PNG: the bytes of a file, and the address that holds them all."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image


def png_bytes(image: Image.Image, **settings: Any) -> bytes:
    """The picture as a PNG file; settings are those of Pillow's PNG writer."""
    file = io.BytesIO()
    image.save(file, "PNG", **settings)
    return file.getvalue()


def data_address(image: Image.Image, **settings: Any) -> str:
    """The picture itself as the address of a picture, for HTML and SVG; settings as `png_bytes`."""
    data = base64.b64encode(png_bytes(image, **settings)).decode("ascii")
    return f"data:image/png;base64,{data}"
