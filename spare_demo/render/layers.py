"""Which tokens one layer of the language model still has, where they leave on the way."""

from __future__ import annotations

import numpy as np
from PIL import Image

from spare_demo.render.base import Colour, Rendered, Tokens, token_flags, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.legend import DROPPED, PHOTO, Entry, below, ground_entries, legend, swatch
from spare_demo.render.marks import corner_hatch, line_width, outline


def layer_overlay(
    canvas: Canvas,
    kept: Tokens,
    merged: Tokens,
    rows: int,
    layer: int,
    depth: int,
    colour: Colour,
    label: str,
) -> Rendered:
    """Kept patches as they are with a thin outline; those merged into other rows with a hatch.

    Args:
        canvas: the photo and its grid.
        kept: (k,) indices of the tokens that the layer has as themselves.
        merged: (m,) indices of tokens that only live on in rows mixed from several.
        rows: how many such rows there are.
        layer, depth: which layer, from 0, of how many.
        colour: the method's colour, RGB 0..255.
        label: the method's name.

    Raises:
        ValueError: indices out of range or repeated.
    """
    n = canvas.grid.n
    flags, mixed = token_flags(kept, n), token_flags(merged, n)
    pixels = np.array(canvas.keep(flags))
    cells = canvas.cells(pixels)
    outline(cells, canvas.per_cell(flags), colour, line_width(canvas.patch))
    corner_hatch(cells, canvas.per_cell(mixed & ~flags), colour)
    count, gone = int(flags.sum()), int((~flags & ~mixed).sum())
    entries = [Entry(swatch(canvas, PHOTO, colour), f"{label} still has {count}")]
    sentence = f"In layer {layer + 1} of {depth} {label} still has {count} of {tokens_word(n)}"
    if rows:
        into = f"{rows} row" if rows == 1 else f"{rows} rows"
        part = int(mixed.sum())
        entries.append(
            Entry(swatch(canvas, DROPPED, colour, hatch=True), f"merged {part} into {into}")
        )
        sentence += f", and {into} merged from {part} others"
    entries += [Entry(swatch(canvas, DROPPED), f"dropped {gone}"), *ground_entries(canvas)]
    note = f"layer {layer + 1} of {depth}: {count + rows} of {n} rows"
    image = below(Image.fromarray(pixels), legend(canvas, entries, note))
    return Rendered(image, sentence + ".")
