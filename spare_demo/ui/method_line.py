"""The line under a method's menu: what the method does, with a sketch of its kind of choice."""

from __future__ import annotations

from html import escape

import gradio as gr

from spare_demo.pruners import PRUNERS, Method
from spare_demo.pruners.options import read_method
from spare_demo.ui.events import QUIET

_SIDE = 10  # of a patch in a sketch, in units of its own
# Four rows of four patches each: "#" kept, "+" mixed into a kept one, "." dropped. Inside the
# language model there are more of them at first and fewer later, so two stand side by side.
_SKETCHES = {
    "before": ("Some patches are kept, the others dropped.", ("#..#", ".#..", "..#.", "#...")),
    "merging": ("Kept patches take in some of the others.", ("#+.+", "+#+.", ".+#+", "+..#")),
    "inside": (
        "More patches in the first layers, fewer in later ones.",
        ("####.#..#", "####...#.", "####.#...", "####...#."),
    ),
    "controls": ("Patches are kept without a look at them.", ("#.#.", "....", "#.#.", "....")),
}


def method_line(menu: gr.Dropdown, value: str, slot: str) -> None:
    """Puts the line of the menu's method where the page is being built, and follows the menu.

    value: the menu's value at the start. slot: "a" or "b".
    """
    line = gr.HTML(line_html(value), elem_id=f"does-{slot}", elem_classes="does")
    menu.change(line_html, menu, line, queue=False, **QUIET)


def line_html(value: str) -> str:
    """The line as HTML.

    value: a method as menus have it. Raises ValueError for anything else.
    """
    method: Method = read_method(value, PRUNERS)
    # Some controls look at the patches, as the methods do that they are controls for.
    kind = "before" if method.group == "controls" and method.reads else method.group
    return f"<p>{sketch_svg(kind)}<span>{escape(method.summary)}</span></p>"


def sketch_svg(kind: str) -> str:
    """A drawing of what a kind of methods does; it is of no picture in particular."""
    words, rows = _SKETCHES[kind]
    kinds = {"#": "kept", "+": "mixed", ".": "dropped"}
    gap = 4 if kind == "inside" else len(rows[0])  # the column between two drawings
    squares = "".join(
        f'<rect class="{kinds[mark]}" x="{x * _SIDE + 1}" y="{y * _SIDE + 1}" '
        f'width="{_SIDE - 2}" height="{_SIDE - 2}"/>'
        for y, row in enumerate(rows)
        for x, mark in enumerate(row)
        if x != gap
    )
    width, height = _SIDE * len(rows[0]), _SIDE * len(rows)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="Sketch: {escape(words)}"><title>{escape(words)}</title>{squares}</svg>'
    )
