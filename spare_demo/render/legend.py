"""The strip below a picture: what its marks mean, with their counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from spare_demo.render.base import Colour
from spare_demo.render.canvas import LONGEST, Canvas, hatched
from spare_demo.render.marks import Cells, corner_hatch, line_width, outline
from spare_demo.render.text import drawable, font, shorten, wrap

PANEL: Colour = (250, 250, 250)
INK: Colour = (32, 36, 42)
FAINT: Colour = (92, 98, 106)
# What stands in a legend square for the photo as it is, half bright, and dimmed.
PHOTO: Colour = (196, 200, 204)
MIXED: Colour = (132, 134, 136)
DROPPED: Colour = (69, 70, 71)


class Entry(NamedTuple):
    """A small picture (square, `swatch_size` canvas pixels) and the words for it."""

    swatch: Image.Image
    text: str


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


def swatch(
    canvas: Canvas, fill: Colour, line: Colour | None = None, hatch: bool = False
) -> Image.Image:
    """A legend square: flat fill, an outline and a corner hatch as tokens have them."""
    side = swatch_size(canvas)
    pixels = np.full((side, side, 3), fill, np.uint8)
    cell: Cells = pixels.reshape(1, 1, side, side, 3)
    flag = np.ones(1, np.bool_)
    if hatch and line is not None:
        corner_hatch(cell, flag, line)
    if line is not None:
        outline(cell, flag, line, line_width(canvas.patch))
    return Image.fromarray(pixels)


def ground_entries(canvas: Canvas) -> list[Entry]:
    """What lies around the tokens' part of the photo, where there is any: padding, margins."""
    entries = []
    if bool(canvas.grid.padding.any()):
        side = swatch_size(canvas)
        entries.append(Entry(Image.fromarray(hatched(side, side)), "padding"))
    if canvas.cropped:
        entries.append(Entry(swatch(canvas, (222, 223, 224)), "cropped away"))
    return entries


def below(picture: Image.Image, strip: Image.Image) -> Image.Image:
    """The picture with the strip under it."""
    width = max(picture.width, strip.width)
    whole = Image.new("RGB", (width, picture.height + strip.height), PANEL)
    whole.paste(picture, (0, 0))
    whole.paste(strip, (0, picture.height))
    return whole


def legend(canvas: Canvas, entries: list[Entry], note: str = "") -> Image.Image:
    """A strip (`strip_width`): entries side by side, wrapped, then a fainter note."""
    width, size, side = strip_width(canvas), text_size(canvas), swatch_size(canvas)
    gap, pad, line = round(size * 1.2), round(size * 0.6), round(size * 1.7)
    places: list[tuple[float, int, str]] = []
    x, row = float(pad), 0
    for entry in entries:
        room = width - 2 * pad - side - size * 0.45
        words = shorten(drawable(entry.text), room, size)
        wide = side + size * 0.45 + font(size).getlength(words)
        if x > pad and x + wide > width - pad:
            x, row = float(pad), row + 1
        places.append((x, row, words))
        x += wide + gap
    notes = wrap(drawable(note), width - 2 * pad, size)
    lines = row + 1 + len(notes)
    strip = Image.new("RGB", (width, max(strip_height(canvas), lines * line + 2 * pad)), PANEL)
    draw = ImageDraw.Draw(strip)
    for entry, (x, row, words) in zip(entries, places, strict=True):
        middle = pad + row * line + line // 2
        strip.paste(entry.swatch, (round(x), middle - side // 2))
        draw.text((x + side + size * 0.45, middle), words, fill=INK, font=font(size), anchor="lm")
    for index, words in enumerate(notes):
        middle = pad + (row + 1 + index) * line + line // 2
        draw.text((pad, middle), words, fill=FAINT, font=font(size), anchor="lm")
    return strip
