"""The strip below a picture: what its marks mean, with their counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from spare_demo.render.canvas import LONGEST, Canvas, hatch_pattern
from spare_demo.render.colours import Colour
from spare_demo.render.display import Display, Item, Photo, Text
from spare_demo.render.marks import Swatch, line_width
from spare_demo.render.text import drawable, font, shorten, wrap

PANEL: Colour = (250, 250, 250)
INK: Colour = (32, 36, 42)
FAINT: Colour = (92, 98, 106)
# What stands in a legend square for the photo as it is, half bright, and dimmed.
PHOTO: Colour = (196, 200, 204)
MIXED: Colour = (132, 134, 136)
DROPPED: Colour = (69, 70, 71)


class Entry(NamedTuple):
    """A square of the legend and the words for it.

    fill, lines, hatch: as of `Swatch`; usually those of a dropped token. picture: in its place.
    """

    text: str
    fill: Colour = DROPPED
    lines: tuple[tuple[Colour, int, int], ...] = ()
    hatch: Colour | None = None
    picture: Image.Image | None = None


def text_size(canvas: Canvas) -> int:
    """Size of legend text, in canvas pixels: readable when the picture is shown at half size."""
    return min(max(canvas.size), 2 * LONGEST) // 46


def strip_width(canvas: Canvas) -> int:
    """Width of the strip: the canvas's, but wide enough to be read below a narrow picture."""
    return max(canvas.size[0], text_size(canvas) * 20)


def swatch_size(canvas: Canvas) -> int:
    """Side of a swatch, in canvas pixels."""
    return round(text_size(canvas) * 1.25)


def strip_height(canvas: Canvas) -> int:
    """Least height of the strip, the same for all pictures so that none makes the page jump."""
    return round(text_size(canvas) * 4.8)


def outline_entry(canvas: Canvas, text: str, colour: Colour, fill: Colour = PHOTO) -> Entry:
    """An entry for tokens with an outline."""
    return Entry(text, fill, ((colour, line_width(canvas.patch), 0),))


def hatch_entry(canvas: Canvas, text: str, colour: Colour, fill: Colour = PHOTO) -> Entry:
    """An entry for tokens with an outline and a marked corner."""
    return outline_entry(canvas, text, colour, fill)._replace(hatch=colour)


def _ground_entries(canvas: Canvas) -> list[Entry]:
    """What lies around the tokens' part of the photo, where there is any: padding, margins."""
    entries = []
    if bool(canvas.grid.padding.any()):
        side = swatch_size(canvas)
        entries.append(Entry("padding", picture=Image.fromarray(hatch_pattern(side, side))))
    if canvas.cropped:
        entries.append(Entry("cropped away", (222, 223, 224)))
    return entries


def on_canvas(
    canvas: Canvas, items: Sequence[Item], strip: tuple[list[Item], int], sentence: str
) -> Display:
    """The picture of a canvas with a strip under it.

    strip: its items, from the canvas's lower edge on, and its height.
    """
    below, height = strip
    size = (strip_width(canvas), canvas.size[1] + height)
    return Display(*size, [*items, *below], sentence, PANEL)


def legend(canvas: Canvas, entries: list[Entry], note: str) -> tuple[list[Item], int]:
    """A strip (`strip_width`): entries side by side, wrapped, then a fainter note.

    After the entries comes what lies around the tokens' part of the photo.
    """
    width, size, side = strip_width(canvas), text_size(canvas), swatch_size(canvas)
    gap, pad, line = round(size * 1.2), round(size * 0.6), round(size * 1.7)
    items: list[Item] = []
    x, row, top = float(pad), 0, canvas.size[1]
    for entry in [*entries, *_ground_entries(canvas)]:
        room = width - 2 * pad - side - size * 0.45
        words = shorten(entry.text, room, size)
        wide = side + size * 0.45 + font(size).getlength(drawable(words))
        if x > pad and x + wide > width - pad:
            x, row = float(pad), row + 1
        middle = top + pad + row * line + line // 2
        place = (round(x), middle - side // 2)
        if entry.picture is not None:
            items.append(Photo(*place, entry.picture))
        else:
            items.append(Swatch(*place, side, canvas.patch, entry.fill, entry.lines, entry.hatch))
        items.append(Text(x + side + size * 0.45, middle, words, size, INK))
        x += wide + gap
    notes = wrap(note, width - 2 * pad, size)
    for index, words in enumerate(notes):
        middle = top + pad + (row + 1 + index) * line + line // 2
        items.append(Text(pad, middle, words, size, FAINT))
    return items, max(strip_height(canvas), (row + 1 + len(notes)) * line + 2 * pad)
