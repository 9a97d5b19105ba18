"""Which tokens one method kept."""

from __future__ import annotations

from spare_demo.render.base import Colour, Tokens, token_flags, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Display, Item, Photo
from spare_demo.render.legend import Entry, ground_entries, legend, on_canvas, outline_entry
from spare_demo.render.marks import Outline, line_width
from spare_demo.render.sentences import say


def kept_overlay(canvas: Canvas, kept: Tokens, colour: Colour, label: str) -> Display:
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
    count = int(flags.sum())
    padding = canvas.grid.padding.numpy()
    entries = [
        outline_entry(canvas, f"{label} kept {count}", colour),
        Entry(f"dropped {n - count}"),
        *ground_entries(canvas),
    ]
    sentence = say("kept", label=label, count=count, tokens=tokens_word(n))
    note = f"{count / n:.1%} of the tokens"
    if padding.any():
        in_padding = int((flags & padding).sum())
        sentence += say("in padding", count=in_padding, lie="lies" if in_padding == 1 else "lie")
        note += f", {in_padding} in padding"
    items: list[Item] = [
        Photo(0, 0, canvas.keep(flags)),
        Outline(canvas, flags, colour, line_width(canvas.patch)),
    ]
    return on_canvas(canvas, items, legend(canvas, entries, note), sentence + ".")
