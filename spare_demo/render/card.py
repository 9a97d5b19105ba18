"""One picture of a whole comparison: the question, and side by side what was kept and answered."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from PIL import Image, ImageDraw

from spare_demo.render.base import Colour, Rendered, hex_of
from spare_demo.render.legend import FAINT, INK
from spare_demo.render.png import data_address
from spare_demo.render.text import drawable, font, shorten, wrap

_PAPER: Colour = (255, 255, 255)
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


class _Text(NamedTuple):
    """A line of words, from x on, around the middle y."""

    x: float
    y: float
    words: str
    size: int
    colour: Colour


class _Box(NamedTuple):
    """A filled rectangle."""

    x: int
    y: int
    width: int
    height: int
    colour: Colour


class _Photo(NamedTuple):
    """A picture in its place."""

    x: int
    y: int
    width: int
    height: int
    picture: Image.Image


class _Layout(NamedTuple):
    """Where everything on the card is, for whatever draws it."""

    width: int
    height: int
    items: list[_Text | _Box | _Photo]
    sentence: str


def card(question: str, panels: Sequence[Panel], footer: str) -> Rendered:
    """The question on top, panels side by side (four to a row), a faint line at the foot.

    Args:
        question: as asked; blank for none.
        panels: one per answer, at least one.
        footer: who ran, in a few words.

    Returns:
        an RGB image on white, and all of its words in one sentence after the other.
    """
    width, height, items, sentence = _laid_out(question, panels, footer)
    image = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(image)
    for item in items:
        if isinstance(item, _Text):
            words = drawable(item.words)
            place = (item.x, item.y)
            draw.text(place, words, fill=item.colour, font=font(item.size), anchor="lm")
        elif isinstance(item, _Box):
            corner = (item.x + item.width - 1, item.y + item.height - 1)
            draw.rectangle((item.x, item.y, *corner), fill=item.colour)
        else:
            size = (item.width, item.height)
            shown = item.picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            image.paste(shown, (item.x, item.y))
    return Rendered(image, sentence)


def card_svg(question: str, panels: Sequence[Panel], footer: str) -> str:
    """`card` as SVG: words stay words, in letters that Pillow's font may lack."""
    width, height, items, sentence = _laid_out(question, panels, footer)
    parts = []
    for item in items:
        if isinstance(item, _Text):
            parts.append(
                f'<text x="{item.x:g}" y="{item.y:g}" font-size="{item.size}" '
                f'fill="{hex_of(item.colour)}" dominant-baseline="central">{escape(item.words)}'
                "</text>"
            )
        elif isinstance(item, _Box):
            parts.append(
                f'<rect x="{item.x}" y="{item.y}" width="{item.width}" height="{item.height}" '
                f'fill="{hex_of(item.colour)}"/>'
            )
        else:
            address = data_address(item.picture.convert("RGB"), optimize=True)
            parts.append(
                f'<image x="{item.x}" y="{item.y}" width="{item.width}" height="{item.height}" '
                f'href="{address}"/>'
            )
    size = f'width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" '
        'role="img" font-family="Helvetica, Arial, sans-serif">'
        f'<title>{escape(sentence)}</title><rect {size} fill="{hex_of(_PAPER)}"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _laid_out(question: str, panels: Sequence[Panel], footer: str) -> _Layout:
    rows = [panels[i : i + _COLUMNS] for i in range(0, len(panels), _COLUMNS)]
    width = 2 * _EDGE + len(rows[0]) * (_PANEL + _GAP) - _GAP
    asked = question.strip() or "(no question)"
    items: list[_Text | _Box | _Photo] = []
    y = _EDGE
    y += _lines(items, _EDGE, y, wrap(asked, width - 2 * _EDGE, _LARGE, 3), _LARGE, INK) + _GAP
    for row in rows:
        y += _GAP + max(
            _column(items, _EDGE + index * (_PANEL + _GAP), y, panel)
            for index, panel in enumerate(row)
        )
    items.append(_Box(_EDGE, y, width - 2 * _EDGE, 2, _RULE))
    line = shorten(footer, width - 2 * _EDGE, _SMALL)
    _lines(items, _EDGE, y + round(_SMALL * 0.7), [line], _SMALL, FAINT)
    height = y + round(_SMALL * 2.3) + _EDGE
    answers = " ".join(f"{panel.heading}: {panel.answer.strip() or '(empty)'}." for panel in panels)
    return _Layout(width, height, items, f"Asked: {asked} {answers} {footer}")


def _column(items: list[_Text | _Box | _Photo], x: int, top: int, panel: Panel) -> int:
    """Adds a panel; returns its height."""
    indent, y = 0, top
    if panel.colour is not None:
        indent = 24
        items.append(_Box(x, y + 4, 10, _MIDDLE + 1, panel.colour))
    heading = shorten(panel.heading, _PANEL - indent, _MIDDLE)
    items.append(_Text(x + indent, y + 4 + _MIDDLE // 2, heading, _MIDDLE, INK))
    y += round(_MIDDLE * 1.9)
    tall = max(1, round(panel.picture.height * _PANEL / panel.picture.width))
    items.append(_Photo(x, y, _PANEL, tall, panel.picture))
    y += tall + _GAP // 2
    answer = wrap(panel.answer.strip() or "(empty answer)", _PANEL, _LARGE, _ANSWER_LINES)
    y += _lines(items, x, y, answer, _LARGE, panel.colour or INK) + _GAP // 3
    details = [shorten(line, _PANEL, _SMALL) for line in panel.details]
    return y + _lines(items, x, y, details, _SMALL, FAINT) - top


def _lines(
    items: list[_Text | _Box | _Photo],
    x: int,
    y: int,
    lines: Sequence[str],
    size: int,
    colour: Colour,
) -> int:
    """Adds lines from y on; returns their height."""
    step = size * _LEADING
    for index, line in enumerate(lines):
        items.append(_Text(x, y + (index + 0.5) * step, line, size, colour))
    return round(step * len(lines))
