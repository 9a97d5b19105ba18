"""What two methods keep together and apart."""

from __future__ import annotations

from spare_demo.render.base import BLUE, VERMILION, Colour, Tokens, token_flags, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Display, Item, Photo
from spare_demo.render.legend import (
    PHOTO,
    Entry,
    ground_entries,
    hatch_entry,
    legend,
    on_canvas,
    outline_entry,
)
from spare_demo.render.marks import Hatch, Outline, line_width
from spare_demo.render.sentences import say

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
    colours: tuple[Colour, Colour] = (BLUE, VERMILION),
) -> Display:
    """Both, only A, only B, neither: each told by its outline, and without colour as well.

    Args:
        canvas: the photo and its grid.
        kept_a, kept_b: (k,) token indices, any order.
        label_a, label_b: the methods' names.
        jaccard: shared share of the two sets, |A and B| / |A or B|, 0..1.
        random_jaccard: what two random sets of these sizes share on average, 0..1.
        colours: of what only A and what only B has.

    Raises:
        ValueError: indices out of range or repeated.
    """
    n, (colour_a, colour_b) = canvas.grid.n, colours
    a, b = token_flags(kept_a, n), token_flags(kept_b, n)
    width = line_width(canvas.patch)
    # White on black, which is seen on any photo.
    shared_lines = ((_BLACK, width + 1, 0), (_WHITE, max(1, width - 1), 1))
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
        *ground_entries(canvas),
    ]
    padding = canvas.grid.padding.numpy()
    names = {"a": label_a, "b": label_b}
    sentence = say("both", **names, count=int(a.sum()), tokens=tokens_word(n), both=both)
    if a.sum() != b.sum():
        sentence += say("other count", count=int(b.sum()))
    sentence += "."
    if padding.any():
        count_a, count_b = int((a & padding).sum()), int((b & padding).sum())
        sentence += say("both in padding", **names, count_a=count_a, count_b=count_b)
    shared = say("jaccard", share=f"{jaccard:.2f}", chance=f"{random_jaccard:.2f}")
    sentence += f" {shared}."
    return on_canvas(canvas, items, legend(canvas, entries, shared), sentence)
