"""Which tokens one layer of the language model still has, where they leave on the way."""

from __future__ import annotations

from spare_demo.render.base import Colour, Tokens, token_flags, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Display, Item, Photo
from spare_demo.render.legend import (
    DROPPED,
    Entry,
    ground_entries,
    hatch_entry,
    legend,
    on_canvas,
    outline_entry,
)
from spare_demo.render.marks import Hatch, Outline, line_width
from spare_demo.render.sentences import say


def layer_overlay(
    canvas: Canvas,
    kept: Tokens,
    merged: Tokens,
    rows: int,
    layer: int,
    depth: int,
    colour: Colour,
    label: str,
    grown: bool = False,
) -> Display:
    """Kept patches as they are with a thin outline; those merged into other rows with a hatch.

    Args:
        canvas: the photo and its grid.
        kept: (k,) indices of the tokens that have a row of their own in the layer.
        merged: (m,) indices of tokens that only live on in rows mixed from several.
        rows: how many rows are mixed from several tokens.
        layer, depth: which layer, from 0, of how many.
        colour: the method's colour, RGB 0..255.
        label: the method's name.
        grown: whether those rows are kept tokens' own; else they stand beside them.

    Raises:
        ValueError: indices out of range or repeated.
    """
    n = canvas.grid.n
    flags, merged_flags = token_flags(kept, n), token_flags(merged, n)
    count, dropped = int(flags.sum()), int((~flags & ~merged_flags).sum())
    entries = [outline_entry(canvas, f"{label} still has {count}", colour)]
    tokens = tokens_word(n)
    sentence = say("layer", layer=layer + 1, depth=depth, label=label, count=count, tokens=tokens)
    if rows:
        into = f"{rows} row" if rows == 1 else f"{rows} rows"
        part = int(merged_flags.sum())
        entries.append(hatch_entry(canvas, f"merged {part} into {into}", colour, DROPPED))
        mixed = str(rows) if grown else into
        sentence += say("layer grown" if grown else "layer merged", rows=mixed, others=part)
    entries += [Entry(f"dropped {dropped}"), *ground_entries(canvas)]
    note = f"layer {layer + 1} of {depth}: {count if grown else count + rows} of {n} rows"
    items: list[Item] = [
        Photo(0, 0, canvas.keep(flags)),
        Outline(canvas, flags, colour, line_width(canvas.patch)),
        Hatch(canvas, merged_flags & ~flags, colour),
    ]
    return on_canvas(canvas, items, legend(canvas, entries, note), sentence + ".")
