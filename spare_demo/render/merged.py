"""What the language model gets of a method that merges: which patches, and mixed into what."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from spare_demo.render.base import Colour, Flags, Tokens, token_flags, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Display, Item, Photo
from spare_demo.render.heatmap import heatmap
from spare_demo.render.legend import (
    MIXED,
    Entry,
    ground_entries,
    hatch_entry,
    legend,
    on_canvas,
    outline_entry,
)
from spare_demo.render.marks import Hatch, Outline, line_width
from spare_demo.render.overlay import kept_overlay
from spare_demo.render.sentences import say
from spare_demo.tokens import Selection


def selection_overlay(canvas: Canvas, selection: Selection, colour: Colour, label: str) -> Display:
    """`merged_overlay` where the selection says what it merged, else `kept_overlay`."""
    if selection.sources is None:
        return kept_overlay(canvas, selection.kept, colour, label)
    return merged_overlay(canvas, selection.sources, selection.order, colour, label)


def merged_overlay(
    canvas: Canvas, sources: torch.Tensor, order: Tokens, colour: Colour, label: str
) -> Display:
    """Outlined: patches that have a row of their own, hatched in the corner where others were
    mixed into it. Half bright: patches that are only mixed into rows of others. Dark: no part.

    Args:
        canvas: the photo and its grid.
        sources: (r, n) how much of each patch went into each row, >= 0.
        order: (k,) the patches that rows grew from.
        colour: the method's colour, RGB 0..255.
        label: the method's name.

    Raises:
        ValueError: indices out of range or repeated, or sources for another number of patches.
    """
    picture, own, with_others, only_mixed = _ground(canvas, sources, order)
    items: list[Item] = [
        Photo(0, 0, picture),
        Outline(canvas, own, colour, line_width(canvas.patch)),
        Hatch(canvas, with_others, colour),
    ]
    n, rows = canvas.grid.n, len(sources)
    alone, without = int((own & ~with_others).sum()), rows - int(own.sum())
    unused = n - int(own.sum()) - int(only_mixed.sum())
    entries = [
        outline_entry(canvas, f"as they are {alone}", colour),
        hatch_entry(canvas, f"others mixed in {int(with_others.sum())}", colour),
        Entry(f"only mixed in {int(only_mixed.sum())}", MIXED),
        Entry(f"no part {unused}"),
        *ground_entries(canvas),
    ]
    note = f"{label}: {rows} merged tokens of {n}"
    if without:
        note += f", {without} of no single patch"
    sentence = say(
        "merged",
        label=label,
        tokens=tokens_word(n),
        rows=rows,
        alone=alone,
        grown=int(with_others.sum()),
        without=without,
        mixed=int(only_mixed.sum()),
        unused=unused,
    )
    return on_canvas(canvas, items, legend(canvas, entries, note), sentence)


def _ground(
    canvas: Canvas, sources: torch.Tensor, order: Tokens
) -> tuple[Image.Image, Flags, Flags, Flags]:
    """What `merged_overlay` marks, and the picture below its marks.

    Returns:
        the picture; (n,) which patches have a row of their own; which of these with others mixed
        in; which are only mixed into rows of others.
    """
    n = canvas.grid.n
    parts = sources.detach().cpu().numpy()
    if parts.ndim != 2 or parts.shape[1] != n:
        raise ValueError(f"Sources need one column per token, {n} in all.")
    own = token_flags(order, n)
    # A patch's own row is the one that holds it whole, by itself or with others.
    home = (parts == 1).argmax(axis=0)
    with_others = own & ((parts[home] > 0).sum(axis=1) > 1)
    only_mixed = ~own & (parts > 0).any(axis=0)
    pixels = np.array(canvas.keep(own))
    half = canvas.cells(np.asarray(Image.blend(canvas.dim, canvas.image, 0.5)))
    where = canvas.per_cell(only_mixed).reshape(canvas.grid.rows, canvas.grid.cols)
    canvas.cells(pixels)[where] = half[where]
    return Image.fromarray(pixels), own, with_others, only_mixed


def source_map(canvas: Canvas, sources: torch.Tensor, row: int, label: str) -> Display:
    """How much of each patch went into one merged row.

    Args:
        sources: (r, n) as `merged_overlay` has them.
        row: 0 .. r - 1, in the order that the language model gets the rows.
        label: the method's name.

    Raises:
        ValueError: there is no such row, or sources for another number of patches.
    """
    if not 0 <= row < len(sources):
        raise ValueError(
            f"There is no merged token {row + 1}. Choose one from 1 to {len(sources)}."
        )
    weights = sources[row]
    count = int((weights > 0).sum())
    what = f"{label}'s token {row + 1} of {len(sources)}: how much of each patch went into it"
    if count == 0:
        meaning = "None of any: it is the vision tower's class token."
    else:
        meaning = f"It holds parts of {tokens_word(count)}; 1 is a whole one, 0 none of it."
    return heatmap(canvas, weights, what, meaning, (0.0, max(1.0, float(weights.max()))))
