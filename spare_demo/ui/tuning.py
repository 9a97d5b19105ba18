"""The menu of methods, the line under it, and a method's settings as controls.

A menu's value is the method as `pruners.options.read_method` reads it: its name, and what is set
otherwise than usual. So a control changes nothing but the menu, and whoever reads the menu gets
the settings with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from spare_demo.pruners import PRUNERS, Method
from spare_demo.pruners.base import GROUPS
from spare_demo.pruners.options import fields_of, read_method, read_value, title_of, write_method
from spare_demo.relevance import GuidanceText
from spare_demo.ui import panels
from spare_demo.ui.events import QUIET
from spare_demo.ui.gradio_compat.parts import with_toast

NOT_HERE = " – not on this model: "
"""Between the title and the reason of a method that cannot run; js/menus.js disables it."""

HEADING = "— "
"""What the label of a group of methods begins with; js/menus.js disables it."""

Reasons = Callable[[Method], str | None]
"""`model.reason_against`, perhaps with its guidance_text given."""


def menu(against: Reasons, current: str = "") -> list[tuple[str, str]]:
    """(label, value) of every method under the heading of its group, and of `current`.

    Those that cannot run have the reason in their label. A heading's value is no method.

    against: of the model. current: a menu's value, which may have settings.
    """
    entries = []
    for group, heading in GROUPS.items():
        entries.append((f"{HEADING}{heading}", f"group:{group}"))
        for name, method in PRUNERS.items():
            if method.group != group:
                continue
            reason = against(method)
            entries.append((f"{method.title}{NOT_HERE}{reason}" if reason else method.title, name))
            if current.startswith(f"{name}:"):
                entries.append((title_of(read_method(current)), current))
    return entries


def able(name: str, against: Reasons) -> str:
    """The method, or its text-free form where the model cannot run it.

    Raises ValueError, listing the known ones, for a name that is none.
    """
    method = read_method(name)
    return name if against(method) is None else method.text_free or name


def settings_panel(
    dropdown: gr.Dropdown,
    against: Callable[..., str | None],
    guidance_text: gr.Radio,
    slot: str,
    demo: gr.Blocks,
) -> gr.State:
    """A folded panel with the settings of what the dropdown says, "" where there are none.

    against: `model.reason_against`. guidance_text: the control of that setting.

    Returns a state that changes whenever a setting did; by then the dropdown has it.
    """
    in_line: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "panels"}

    def follow_menu(value: str, shown: str, count: int) -> tuple[Any, Any]:
        """Another panel where the menu says what this one does not."""
        return (gr.skip(), gr.skip()) if value == shown else (value, count + 1)

    shown, panel_count, change_count = gr.State(dropdown.value), gr.State(0), gr.State(0)
    dropdown.change(follow_menu, [dropdown, shown, panel_count], [shown, panel_count], **QUIET)

    with gr.Accordion(f"Settings of {slot}", open=False, elem_id=f"tune-{slot.lower()}"):
        # One at a time: two panels that are made in one moment change one another's list of parts.
        @gr.render(
            inputs=[dropdown],
            triggers=[demo.load, panel_count.change],
            show_progress="hidden",
            **in_line,
        )
        def controls(value: str) -> None:
            try:
                method = read_method(value)
            except ValueError as error:
                gr.HTML(panels.message_html(str(error)))
                return
            name = value.partition(":")[0]
            gr.HTML(about_html(method))
            fields = [
                field
                for field in fields_of(method).values()
                if field.name != "seed"
                and isinstance(getattr(method, field.name), str | float | int)
            ]
            if not fields:
                gr.HTML('<p class="note">This method has no settings.</p>')
                return
            # Explicitly empty: what was here for another method would stay.
            message = gr.HTML("", elem_classes="message-place")
            parts = [_control(field, getattr(method, field.name)) for field in fields]

            def apply(current: str, count: int, by: GuidanceText, *values: Any) -> list[Any]:
                try:
                    value = choose(name, [field.name for field in fields], values)
                except ValueError as error:
                    return [gr.skip(), gr.skip(), gr.skip(), panels.message_html(str(error))]
                if value == current:
                    return [gr.skip(), gr.skip(), gr.skip(), ""]
                choices = menu(partial(against, guidance_text=by), value)
                return [gr.update(choices=choices, value=value), value, count + 1, ""]

            for part in parts:
                events = [part.input] if isinstance(part, gr.Dropdown) else [part.submit, part.blur]
                for event in events:
                    outputs = [dropdown, shown, change_count, message]
                    inputs = [dropdown, change_count, guidance_text, *parts]
                    # Gradio would keep a line of its own for every panel that it ever made.
                    event(apply, inputs, outputs, **in_line, **QUIET)

    return change_count


def about_html(method: Method) -> str:
    """What a method does, what it reads, and where it differs from its paper."""
    reads = ", ".join(method.reads) or "nothing"
    text = f"<p>{escape(f'{method.summary} Acts {method.acts}. Reads: {reads}.')}"
    if method.link:
        link = (
            f'<a href="{method.link}" target="_blank" rel="noreferrer">{escape(method.paper)}</a>'
        )
        text += f" Paper: {link}."
    if method.deviations:
        text += f"</p><p><b>Where it differs from the paper:</b> {escape(method.deviations)}"
    return f'<div class="note about">{text}</p></div>'


def choose(name: str, fields: Sequence[str], values: Sequence[Any]) -> str:
    """The menu's value for a method with these settings, as the controls sent them.

    Raises ValueError, with a sentence to show, for a value that is not one of the method's.
    """
    method = PRUNERS[name]
    read = {
        field: read_value(method, field, _plain(value))
        for field, value in zip(fields, values, strict=True)
    }
    value = write_method(name, read)
    read_method(value)
    return value


def _plain(value: Any) -> str:
    """What a control sends as text; a number field sends 8 as 8.0, and nothing when empty."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def _control(field: Any, value: Any) -> gr.Dropdown | gr.Number | gr.Textbox:
    label, words = field.metadata.get("label", field.name), field.metadata.get("help")
    shown = {"label": label, "info": words, "interactive": True}
    choices = ["True", "False"] if isinstance(value, bool) else field.metadata.get("choices")
    if choices:
        return gr.Dropdown(list(choices), value=str(value), **shown)
    if isinstance(value, str) or not math.isfinite(value):  # which a number's box leaves empty
        return gr.Textbox(str(value), **shown)
    return gr.Number(value, **shown)  # limits are the method's to say, in a sentence


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
    "controls": ("Patches are kept without looking at them.", ("#.#.", "....", "#.#.", "....")),
}


def method_line(menu: gr.Dropdown, value: str, slot: str) -> None:
    """Puts the line of the menu's method where the page is being built, and follows the menu.

    value: the menu's value at the start. slot: "a" or "b".
    """
    line = gr.HTML(line_html(value), elem_id=f"does-{slot}", elem_classes="does")
    menu.change(with_toast(line_html), menu, line, queue=False, **QUIET)


def line_html(value: str) -> str:
    """The line as HTML.

    value: a method as menus have it. Raises ValueError for anything else.
    """
    method: Method = read_method(value)
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
