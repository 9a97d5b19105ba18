"""Which tokens one method kept."""

from __future__ import annotations

import numpy as np
from PIL import Image

from spare_demo.render.base import Colour, Rendered, Tokens, token_flags, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.legend import DROPPED, PHOTO, Entry, below, ground_entries, legend, swatch
from spare_demo.render.marks import line_width, outline


def kept_overlay(canvas: Canvas, kept: Tokens, colour: Colour, label: str) -> Rendered:
    """Kept patches as they are with a thin outline, dropped ones grey at 35 % brightness.

    Args:
        canvas: the photo and its grid.
        kept: (k,) token indices, any order.
        colour: the method's colour, RGB 0..255.
        label: the method's name.

    Raises:
        ValueError: indices out of range or repeated.
    """
    n = canvas.grid.n
    flags = token_flags(kept, n)
    pixels = np.array(canvas.keep(flags))
    outline(canvas.cells(pixels), canvas.per_cell(flags), colour, line_width(canvas.patch))
    count = int(flags.sum())
    padding = canvas.grid.padding.numpy()
    entries = [
        Entry(swatch(canvas, PHOTO, colour), f"{label} kept {count}"),
        Entry(swatch(canvas, DROPPED), f"dropped {n - count}"),
        *ground_entries(canvas),
    ]
    sentence, note = f"{label} kept {count} of {tokens_word(n)}", f"{count / n:.1%} of the tokens"
    if padding.any():
        in_padding = int((flags & padding).sum())
        sentence += f"; {in_padding} of them {'lies' if in_padding == 1 else 'lie'} in padding"
        note += f", {in_padding} in padding"
    image = below(Image.fromarray(pixels), legend(canvas, entries, note))
    return Rendered(image, sentence + ".")
