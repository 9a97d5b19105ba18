"""One picture of a whole comparison: the question, and side by side what was kept and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from spare_demo.render.colours import Colour
from spare_demo.render.display import Box, Display, Item, Photo, Text, add_lines
from spare_demo.render.legend import FAINT, INK
from spare_demo.render.text import largest_fit, shorten, wrap
from spare_demo.table import with_full_stop

_RULE: Colour = (222, 225, 229)

_PANEL = 640  # width of a column, in card pixels; half that on a README page
_EDGE, _GAP = 56, 40
_COLUMNS = 4
_LARGE, _MIDDLE, _SMALL = 46, 34, 25
_ANSWER_SIZES = ((_LARGE, 4), (_MIDDLE, 7), (_SMALL, 12))
"""Of the answers, with the most lines of each; all have the largest in which none is cut."""


class Panel(NamedTuple):
    """One column of the card."""

    heading: str  # such as "SPARE, 32 of 576 tokens"
    colour: Colour | None  # of the bar beside the heading; None for the model with all tokens
    picture: Image.Image  # RGB, what the model was given, drawn on the photo
    answer: str  # however long; the card shows the first lines
    details: Sequence[str]  # short lines under the answer


def card(question: str, panels: Sequence[Panel], footer: str) -> Display:
    """The question on top, panels side by side (four to a row), a faint line at the foot.

    question: as asked; blank for none. panels: at least one.
    """
    rows = [panels[i : i + _COLUMNS] for i in range(0, len(panels), _COLUMNS)]
    width = 2 * _EDGE + len(rows[0]) * (_PANEL + _GAP) - _GAP
    question_text = question.strip() or "(no question)"
    items: list[Item] = []
    size = largest_fit((panel.answer for panel in panels), _PANEL, _ANSWER_SIZES)
    lines = wrap(question_text, width - 2 * _EDGE, _LARGE, 3)
    y = add_lines(items, _EDGE, _EDGE, lines, _LARGE, INK) + _GAP
    for row in rows:
        y = _GAP + max(
            _column(items, _EDGE + index * (_PANEL + _GAP), y, panel, *size)
            for index, panel in enumerate(row)
        )
    items.append(Box(_EDGE, y, width - 2 * _EDGE, 2, _RULE))
    line = shorten(footer, width - 2 * _EDGE, _SMALL)
    add_lines(items, _EDGE, y + round(_SMALL * 0.7), [line], _SMALL, FAINT)
    height = y + round(_SMALL * 2.3) + _EDGE
    answers = (
        with_full_stop(f"{panel.heading}: {panel.answer.strip() or '(empty)'}") for panel in panels
    )
    return Display(width, height, items, f"Asked: {question_text} {' '.join(answers)} {footer}")


def _column(
    items: list[Item], x: int, y: int, panel: Panel, answer_size: int, most_lines: int
) -> int:
    """Adds a panel, from y on; returns where it ends."""
    indent = 0
    if panel.colour is not None:
        indent = 24
        items.append(Box(x, y + 4, 10, _MIDDLE + 1, panel.colour))
    size = _MIDDLE if shorten(panel.heading, _PANEL - indent, _MIDDLE) == panel.heading else _SMALL
    heading = shorten(panel.heading, _PANEL - indent, size)
    items.append(Text(x + indent, y + 4 + _MIDDLE // 2, heading, size, INK))
    y += round(_MIDDLE * 1.9)
    tall = max(1, round(panel.picture.height * _PANEL / panel.picture.width))
    items.append(Photo(x, y, panel.picture, _PANEL, tall))
    y += tall + _GAP // 2
    answer = wrap(panel.answer.strip() or "(empty answer)", _PANEL, answer_size, most_lines)
    y = add_lines(items, x, y, answer, answer_size, panel.colour or INK) + _GAP // 3
    details = [shorten(line, _PANEL, _SMALL) for line in panel.details]
    return add_lines(items, x, y, details, _SMALL, FAINT)
