"""What two methods keep together and apart."""

from __future__ import annotations

import numpy as np
from PIL import Image

from spare_demo.render.base import (
    BLUE,
    VERMILION,
    Colour,
    Rendered,
    Tokens,
    token_flags,
    tokens_word,
)
from spare_demo.render.canvas import Canvas
from spare_demo.render.legend import (
    DROPPED,
    PHOTO,
    Entry,
    below,
    ground_entries,
    legend,
    swatch,
    swatch_size,
)
from spare_demo.render.marks import Cells, corner_hatch, line_width, outline

_BLACK: Colour = (0, 0, 0)
_WHITE: Colour = (255, 255, 255)


def difference(
    canvas: Canvas,
    kept_a: Tokens,
    kept_b: Tokens,
    label_a: str,
    label_b: str,
    jaccard: float,
    random_jaccard: float,
) -> Rendered:
    """Both, only A, only B, neither: each told by its outline, and without colour as well.

    Args:
        canvas: the photo and its grid.
        kept_a, kept_b: (k,) token indices, any order.
        label_a, label_b: the methods' names.
        jaccard: shared share of the two sets, |A and B| / |A or B|, 0..1.
        random_jaccard: what two random sets of these sizes share on average, 0..1.

    Raises:
        ValueError: indices out of range or repeated.
    """
    n = canvas.grid.n
    a, b = token_flags(kept_a, n), token_flags(kept_b, n)
    pixels = np.array(canvas.keep(a | b))
    cells, width = canvas.cells(pixels), line_width(canvas.patch)
    shared_cells, a_cells, b_cells = (canvas.per_cell(x) for x in (a & b, a & ~b, b & ~a))
    _white_on_black(cells, shared_cells, width)
    outline(cells, a_cells, BLUE, width)
    corner_hatch(cells, b_cells, VERMILION)
    outline(cells, b_cells, VERMILION, width)

    both, only_a, only_b = (int(x.sum()) for x in (a & b, a & ~b, b & ~a))
    entries = [
        Entry(_both_swatch(canvas, width), f"both {both}"),
        Entry(swatch(canvas, PHOTO, BLUE), f"only {label_a} {only_a}"),
        Entry(swatch(canvas, PHOTO, VERMILION, hatch=True), f"only {label_b} {only_b}"),
        Entry(swatch(canvas, DROPPED), f"neither {n - both - only_a - only_b}"),
        *ground_entries(canvas),
    ]
    padding = canvas.grid.padding.numpy()
    sentence = (
        f"{label_a} kept {int(a.sum())} of {tokens_word(n)}; "
        f"{both} of them {label_b} kept too"
        + (f" (of its {int(b.sum())})." if a.sum() != b.sum() else ".")
    )
    if padding.any():
        sentence += (
            f" {int((a & padding).sum())} of {label_a}'s and {int((b & padding).sum())} of "
            f"{label_b}'s lie in padding."
        )
    shared = f"Jaccard {jaccard:.2f} (two random picks: {random_jaccard:.2f})"
    sentence += f" {shared}."
    return Rendered(below(Image.fromarray(pixels), legend(canvas, entries, shared)), sentence)


def _white_on_black(cells: Cells, flags: np.ndarray, width: int) -> None:
    outline(cells, flags, _BLACK, width + 1)
    outline(cells, flags, _WHITE, max(1, width - 1), inset=1)


def _both_swatch(canvas: Canvas, width: int) -> Image.Image:
    side = swatch_size(canvas)
    pixels = np.full((side, side, 3), PHOTO, np.uint8)
    _white_on_black(pixels.reshape(1, 1, side, side, 3), np.ones(1, np.bool_), width)
    return Image.fromarray(pixels)
