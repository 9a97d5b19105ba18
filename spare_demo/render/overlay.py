"""What became of each token, by one method or by two: kept, merged with others, or dropped.

Of every function here: `canvas` is the photo and its grid, `colour` the method's, `label` its name.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from PIL import Image

from spare_demo import measures
from spare_demo.pruners.plan import LayerSet
from spare_demo.render.base import Flags, token_flags
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import BLACK, BLUE, PALETTE, VERMILION, WHITE, Colour
from spare_demo.render.display import Display, Item, Photo
from spare_demo.render.legend import (
    DROPPED,
    MIXED,
    PHOTO,
    Entry,
    hatch_entry,
    legend,
    on_canvas,
    outline_entry,
)
from spare_demo.render.marks import Hatch, Outline, line_width
from spare_demo.render.sentences import say
from spare_demo.table import counted, percent_of_all, tokens_word
from spare_demo.tokens import Selection
from spare_demo.tokens.checks import Indices

# The first two colours of the palette are those of two methods.
_QUESTION_COLOURS = (PALETTE[3], PALETTE[4])


def selection_overlay(canvas: Canvas, selection: Selection, colour: Colour, label: str) -> Display:
    """`merged_overlay` where the selection says what it merged, else `kept_overlay`."""
    if selection.sources is None:
        return kept_overlay(canvas, selection.kept, colour, label)
    return merged_overlay(canvas, selection.sources, selection.order, colour, label)


def kept_overlay(canvas: Canvas, kept: Indices, colour: Colour, label: str) -> Display:
    """Kept patches as they are with a thin outline, dropped ones grey at 35 % brightness.

    kept: (k,) token indices, any order.
    """
    n = canvas.grid.n
    flags = token_flags(kept, n)
    count = int(flags.sum())
    padding = canvas.grid.padding.numpy()
    entries = [
        outline_entry(canvas, f"{label} kept {count}", colour),
        Entry(f"dropped {n - count}"),
    ]
    sentence = say("kept", label=label, count=count, tokens=tokens_word(n))
    note = f"{percent_of_all(count / n, 1)} of the tokens"
    if padding.any():
        in_padding = int((flags & padding).sum())
        sentence += say("in padding", count=in_padding, lie="lies" if in_padding == 1 else "lie")
        note += f", {in_padding} in padding"
    items: list[Item] = [
        Photo(0, 0, canvas.keep(flags)),
        Outline(canvas, flags, colour, line_width(canvas.patch)),
    ]
    return on_canvas(canvas, items, legend(canvas, entries, note), sentence + ".")


def merged_overlay(
    canvas: Canvas, sources: torch.Tensor, order: Indices, colour: Colour, label: str
) -> Display:
    """Outlined: patches that have a row of their own, marked in the corner where others were
    mixed into it. Half bright: patches that are only mixed into rows of others. Dark: no part.

    Args:
        sources: (r, n) how much of each patch went into each row, >= 0.
        order: (k,) the patches that rows grew from.
    """
    n, rows = canvas.grid.n, len(sources)
    parts = sources.detach().cpu().numpy()
    own = token_flags(order, n)
    # A patch's own row is the one that holds it whole, by itself or with others.
    home = (parts == 1).argmax(axis=0)
    with_others = own & ((parts[home] > 0).sum(axis=1) > 1)
    only_mixed = ~own & (parts > 0).any(axis=0)
    grown, mixed = int(with_others.sum()), int(only_mixed.sum())
    alone, without = int(own.sum()) - grown, rows - int(own.sum())
    unused = n - int(own.sum()) - mixed
    entries = [
        outline_entry(canvas, f"unchanged {alone}", colour),
        hatch_entry(canvas, f"others mixed in {grown}", colour),
        Entry(f"only mixed in {mixed}", MIXED),
        Entry(f"unused {unused}"),
    ]
    note = f"{label}: {rows} merged tokens of {n}"
    if without:
        note += f", {without} of no single patch"
    others = {"grown": grown, "without": without, "mixed": mixed, "unused": unused}
    sentence = say("merged", label=label, tokens=tokens_word(n), rows=rows, alone=alone, **others)
    items: list[Item] = [
        Photo(0, 0, _half_bright(canvas, own, only_mixed)),
        Outline(canvas, own, colour, line_width(canvas.patch)),
        Hatch(canvas, with_others, colour),
    ]
    return on_canvas(canvas, items, legend(canvas, entries, note), sentence)


def _half_bright(canvas: Canvas, kept: Flags, half: Flags) -> Image.Image:
    """The dimmed canvas with some tokens (n,) as they are, and some half way between."""
    pixels = np.array(canvas.keep(kept))
    between = canvas.cells(np.asarray(Image.blend(canvas.dim, canvas.image, 0.5)))
    where = canvas.per_cell(half).reshape(canvas.grid.rows, canvas.grid.cols)
    canvas.cells(pixels)[where] = between[where]
    return Image.fromarray(pixels)


def layer_overlay(
    canvas: Canvas, layer_set: LayerSet, layer: int, depth: int, colour: Colour, label: str
) -> Display:
    """Kept patches as they are with a thin outline; those merged into other rows with a marked
    corner.

    layer_set: what the layer got. layer, depth: which one, from 0, of how many.
    """
    n, rows = canvas.grid.n, layer_set.merged_rows
    flags, merged = token_flags(layer_set.kept, n), token_flags(layer_set.merged, n)
    count, others = int(flags.sum()), int(merged.sum())
    entries = [outline_entry(canvas, f"{label} still has {count}", colour)]
    tokens = tokens_word(n)
    sentence = say("layer", layer=layer + 1, depth=depth, label=label, count=count, tokens=tokens)
    if rows:
        into = counted(rows, "row")
        entries.append(hatch_entry(canvas, f"merged {others} into {into}", colour, DROPPED))
        from_others = counted(others, "other")
        if layer_set.grown:
            sentence += say("layer grown", rows=rows, others=from_others)
        else:
            sentence += say("layer merged", rows=into, others=from_others)
    entries.append(Entry(f"dropped {n - count - others}"))
    note = f"layer {layer + 1} of {depth}: {len(layer_set)} of {n} rows"
    items: list[Item] = [
        Photo(0, 0, canvas.keep(flags)),
        Outline(canvas, flags, colour, line_width(canvas.patch)),
        Hatch(canvas, merged, colour),
    ]
    return on_canvas(canvas, items, legend(canvas, entries, note), sentence + ".")


def difference(
    canvas: Canvas,
    kept_a: Indices,
    kept_b: Indices,
    label_a: str,
    label_b: str,
    colours: tuple[Colour, Colour] = (BLUE, VERMILION),
) -> Display:
    """Both, only A, only B, neither: each told by its outline, and without colour as well.

    Args:
        kept_a, kept_b: (k,) token indices, any order.
        colours: of what only A and what only B has.
    """
    n, (colour_a, colour_b) = canvas.grid.n, colours
    a, b = token_flags(kept_a, n), token_flags(kept_b, n)
    width = line_width(canvas.patch)
    # White on black, which is seen on any photo.
    shared_lines = ((BLACK, width + 1, 0), (WHITE, max(1, width - 1), 1))
    items: list[Item] = [
        Photo(0, 0, canvas.keep(a | b)),
        *(Outline(canvas, a & b, *line) for line in shared_lines),
        Outline(canvas, a & ~b, colour_a, width),
        Hatch(canvas, b & ~a, colour_b),
        Outline(canvas, b & ~a, colour_b, width),
    ]

    both, only_a, only_b = (int(x.sum()) for x in (a & b, a & ~b, b & ~a))
    entries = [
        Entry(f"both {both}", PHOTO, shared_lines),
        outline_entry(canvas, f"only {label_a} {only_a}", colour_a),
        hatch_entry(canvas, f"only {label_b} {only_b}", colour_b),
        Entry(f"neither {n - both - only_a - only_b}"),
    ]
    padding = canvas.grid.padding.numpy()
    names = {"a": label_a, "b": label_b}
    counts = {"tokens": tokens_word(int(a.sum())), "count": int(b.sum()), "both": both}
    template = "both" if a.sum() == b.sum() else "both of two counts"
    sentence = say(template, **names, **counts)
    if padding.any():
        count_a, count_b = int((a & padding).sum()), int((b & padding).sum())
        sentence += say("both in padding", **names, count_a=count_a, count_b=count_b)
    shared = _jaccard_text(kept_a, kept_b, n)
    sentence += f" {shared}."
    return on_canvas(canvas, items, legend(canvas, entries, shared), sentence)


def question_difference(canvas: Canvas, first: Indices, second: Indices, label: str) -> Display:
    """Which of a method's picks moved when another question was asked.

    first, second: (k,) token indices kept for each question.
    """
    names = ("1st question", "2nd question")
    display = difference(canvas, first, second, *names, _QUESTION_COLOURS)
    n = canvas.grid.n
    a, b = (token_flags(kept, n) for kept in (first, second))
    both, came = int((a & b).sum()), int((b & ~a).sum())
    were, were_others = ("was" if count == 1 else "were" for count in (both, came))
    sentence = (
        f"Of the {tokens_word(int(a.sum()))} that {label} kept for the first question, {both} "
        f"{were} kept for the second too; {counted(came, 'other')} {were_others} kept instead. "
        f"{_jaccard_text(first, second, n)}."
    )
    return replace(display, sentence=sentence)


def _jaccard_text(a: Indices, b: Indices, n: int) -> str:
    """The Jaccard index of two sets of n tokens, beside that of two random ones of their sizes."""
    share, chance = measures.jaccard(a, b, n), measures.expected_jaccard(n, len(a), len(b))
    return say("jaccard", share=f"{share:.2f}", chance=f"{chance:.2f}")
