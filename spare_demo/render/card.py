"""One picture of a whole comparison: the question, and side by side what was kept and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from spare_demo.render.base import Colour, Rendered
from spare_demo.render.text import drawable, font, shorten

_PAPER: Colour = (255, 255, 255)
_INK: Colour = (32, 36, 42)
_FAINT: Colour = (92, 98, 106)
_RULE: Colour = (222, 225, 229)

_PANEL = 640  # width of a column, in card pixels; half that on a README page
_EDGE, _GAP = 56, 40
_COLUMNS = 4
_LARGE, _MIDDLE, _SMALL = 46, 34, 25
_LEADING = 1.35  # line height over text size
_ANSWER_LINES = 4


class Panel(NamedTuple):
    """One column of the card.

    heading: who answered, such as "SPARE, 32 of 576 tokens".
    colour: of the bar beside the heading; None for the model with all tokens.
    picture: what it was given, drawn on the photo; RGB.
    answer: its words, however long; the card shows the first lines.
    details: short lines under the answer.
    """

    heading: str
    colour: Colour | None
    picture: Image.Image
    answer: str
    details: Sequence[str]


def card(question: str, panels: Sequence[Panel], footer: str) -> Rendered:
    """The question on top, panels side by side (four to a row), a faint line at the foot.

    Args:
        question: as asked; blank for none.
        panels: one per answer, at least one.
        footer: who ran, in a few words.

    Returns:
        an RGB image on white, and all of its words in one sentence after the other.
    """
    rows = [panels[i : i + _COLUMNS] for i in range(0, len(panels), _COLUMNS)]
    width = 2 * _EDGE + len(rows[0]) * (_PANEL + _GAP) - _GAP
    asked = question.strip() or "(no question)"
    head = _header(asked, width)
    strips = [_row(row, width) for row in rows]
    foot = _footer(footer, width)

    parts = [head, *strips, foot]
    height = 2 * _EDGE + sum(part.height for part in parts) + _GAP * (len(parts) - 1)
    image = Image.new("RGB", (width, height), _PAPER)
    y = _EDGE
    for part in parts:
        image.paste(part, (0, y))
        y += part.height + _GAP
    answers = " ".join(f"{panel.heading}: {panel.answer.strip() or '(empty)'}." for panel in panels)
    return Rendered(image, f"Asked: {asked} {answers} {footer}")


def wrap(text: str, width: float, size: int, lines: int) -> list[str]:
    """The text in at most `lines` lines of `width` card pixels, the last one cut with … ."""
    words, wrapped = text.split(), [""]
    for index, word in enumerate(words):
        longer = f"{wrapped[-1]} {word}".strip()
        if wrapped[-1] and font(size).getlength(longer) > width:
            if len(wrapped) == lines:
                wrapped[-1] = " ".join([wrapped[-1], *words[index:]])
                break
            longer = word
            wrapped.append("")
        wrapped[-1] = longer
    return [shorten(line, width, size) for line in wrapped]


def _row(panels: Sequence[Panel], width: int) -> Image.Image:
    columns = [_column(panel) for panel in panels]
    strip = Image.new("RGB", (width, max(column.height for column in columns)), _PAPER)
    for index, column in enumerate(columns):
        strip.paste(column, (_EDGE + index * (_PANEL + _GAP), 0))
    return strip


def _column(panel: Panel) -> Image.Image:
    picture = panel.picture.convert("RGB")
    shown = picture.resize(
        (_PANEL, max(1, round(picture.height * _PANEL / picture.width))), Image.Resampling.LANCZOS
    )
    top = round(_MIDDLE * 1.9)
    answer = wrap(drawable(panel.answer.strip() or "(empty answer)"), _PANEL, _LARGE, _ANSWER_LINES)
    heights = [top, shown.height, _GAP // 2, round(_LARGE * _LEADING * len(answer)), _GAP // 3]
    details = [shorten(drawable(line), _PANEL, _SMALL) for line in panel.details]
    column = Image.new(
        "RGB", (_PANEL, sum(heights) + round(_SMALL * _LEADING * len(details))), _PAPER
    )
    draw = ImageDraw.Draw(column)
    indent = 0
    if panel.colour is not None:
        indent = 24
        draw.rectangle((0, 4, 9, _MIDDLE + 4), fill=panel.colour)
    heading = shorten(drawable(panel.heading), _PANEL - indent, _MIDDLE)
    draw.text((indent, 4 + _MIDDLE // 2), heading, fill=_INK, font=font(_MIDDLE), anchor="lm")
    column.paste(shown, (0, top))
    y = top + shown.height + _GAP // 2
    _lines(draw, (0, y), answer, _LARGE, panel.colour or _INK)
    y += heights[3] + _GAP // 3
    _lines(draw, (0, y), details, _SMALL, _FAINT)
    return column


def _header(question: str, width: int) -> Image.Image:
    lines = wrap(drawable(question), width - 2 * _EDGE, _LARGE, 3)
    header = Image.new("RGB", (width, round(_LARGE * _LEADING * len(lines))), _PAPER)
    _lines(ImageDraw.Draw(header), (_EDGE, 0), lines, _LARGE, _INK)
    return header


def _footer(text: str, width: int) -> Image.Image:
    footer = Image.new("RGB", (width, round(_SMALL * 2.3)), _PAPER)
    draw = ImageDraw.Draw(footer)
    draw.line((_EDGE, 0, width - _EDGE, 0), fill=_RULE, width=2)
    line = shorten(drawable(text), width - 2 * _EDGE, _SMALL)
    _lines(draw, (_EDGE, round(_SMALL * 0.7)), [line], _SMALL, _FAINT)
    return footer


def _lines(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    lines: Sequence[str],
    size: int,
    colour: Colour,
) -> None:
    x, y = place
    step = size * _LEADING
    for index, line in enumerate(lines):
        middle = y + (index + 0.5) * step
        draw.text((x, middle), line, fill=colour, font=font(size), anchor="lm")
