"""Shared by every drawing function: token indices, number formats, and pictures as bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

Flags = NDArray[np.bool_]
Tokens = Sequence[int] | NDArray[Any] | torch.Tensor


def token_list(tokens: Tokens, n: int) -> NDArray[np.int64]:
    """(k,) token indices in the order given.

    Raises:
        ValueError: an index below 0 or not below n, a repeat, or something that is not an index.
    """
    array = tokens.detach().cpu().numpy() if isinstance(tokens, torch.Tensor) else tokens
    indices = np.atleast_1d(np.asarray(array))
    if indices.size == 0:
        return np.zeros(0, np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError("Token indices must be a list of whole numbers.")
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(f"Token indices must lie between 0 and {n - 1}.")
    if np.unique(indices).size != indices.size:
        raise ValueError("A token index occurs twice; list every token once.")
    return indices.astype(np.int64)


def token_flags(tokens: Tokens, n: int) -> Flags:
    """(n,) bool, True for the tokens listed. Raises as `token_list`."""
    flags = np.zeros(n, np.bool_)
    flags[token_list(tokens, n)] = True
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


def tokens_word(count: int) -> str:
    """ "1 token", "2 tokens"."""
    return f"{count} token" if count == 1 else f"{count} tokens"


def png_bytes(image: Image.Image, **settings: Any) -> bytes:
    """The picture as a PNG file; settings are those of Pillow's PNG writer."""
    file = io.BytesIO()
    image.save(file, "PNG", **settings)
    return file.getvalue()


def data_address(image: Image.Image, **settings: Any) -> str:
    """The picture itself as the address of a picture, for HTML and SVG; settings as `png_bytes`."""
    data = base64.b64encode(png_bytes(image, **settings)).decode("ascii")
    return f"data:image/png;base64,{data}"
