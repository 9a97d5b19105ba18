"""In which order a method picked."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from spare_demo.render.base import Colour, Rendered, Tokens, token_list, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import hue_ramp
from spare_demo.render.legend import FAINT, INK, PANEL, below, strip_height, strip_width, text_size
from spare_demo.render.marks import line_width, outline
from spare_demo.render.text import drawable, font, shorten

NUMBERED = 64  # most picks that carry their rank; more would be a page of digits
PICKED_OPACITY = 0.8  # of a picked token's colour


def pick_order(canvas: Canvas, order: Tokens, colour: Colour, label: str) -> Rendered:
    """Picked tokens from dark (first) to light (last) in the method's hue, numbered while few.

    Args:
        canvas: the photo and its grid.
        order: (k,) token indices in the order they were picked.
        colour: the method's colour, RGB 0..255.
        label: the method's name.

    Raises:
        ValueError: indices out of range or repeated.
    """
    n = canvas.grid.n
    picks = token_list(order, n)
    k = len(picks)
    shades = hue_ramp(colour, np.arange(k) / max(1, k - 1))
    fill, flags = np.zeros((n, 3), np.uint8), np.zeros(n, np.bool_)
    fill[picks], flags[picks] = shades, True

    picture = canvas.dim.copy()
    x, y = canvas.origin
    colours = canvas.spread(fill)
    place = (x, y, x + colours.width, y + colours.height)
    blended = Image.blend(canvas.grey.crop(place), colours, PICKED_OPACITY)
    picture.paste(blended, place, canvas.spread(flags.astype(np.uint8) * 255))
    pixels = np.array(picture)
    outline(
        canvas.cells(pixels),
        canvas.per_cell(flags),
        (255, 255, 255),
        max(1, line_width(canvas.patch) // 2),
    )
    picture = Image.fromarray(pixels)
    if k <= NUMBERED:
        _write_ranks(picture, canvas, picks.tolist(), shades)

    sentence = f"{label} picked {k} of {tokens_word(n)}"
    if k:
        sentence += f", dark first and light last; the first is {canvas.where(int(picks[0]))}"
        if canvas.grid.padding.any():
            inside = np.flatnonzero(canvas.grid.padding.numpy()[picks])
            sentence += (
                f"; padding is first picked at rank {inside[0] + 1}"
                if inside.size
                else "; none lies in padding"
            )
    return Rendered(below(picture, _ramp(canvas, colour, label, k)), sentence + ".")


def _write_ranks(
    picture: Image.Image, canvas: Canvas, picks: list[int], shades: np.ndarray
) -> None:
    draw = ImageDraw.Draw(picture)
    size = max(6, round(canvas.patch * 0.5))
    for rank, (token, shade) in enumerate(zip(picks, shades, strict=True), start=1):
        x0, y0, x1, y1 = canvas.rectangle(token)
        ink = (255, 255, 255) if shade.astype(float) @ (0.299, 0.587, 0.114) < 128 else (0, 0, 0)
        centre = ((x0 + x1) / 2, (y0 + y1) / 2)
        draw.text(centre, str(rank), fill=ink, font=font(size), anchor="mm")


def _ramp(canvas: Canvas, colour: Colour, label: str, k: int) -> Image.Image:
    width, size = strip_width(canvas), text_size(canvas)
    pad = round(size * 0.6)
    strip = Image.new("RGB", (width, strip_height(canvas)), PANEL)
    draw = ImageDraw.Draw(strip)
    words = shorten(drawable(f"{label}: order of the {tokens_word(k)} kept"), width - 2 * pad, size)
    draw.text((pad, round(size * 1.05)), words, fill=INK, font=font(size), anchor="lm")
    if k < 2:
        return strip
    left, right, top, bottom = pad, width - pad, round(size * 1.9), round(size * 2.7)
    shades = hue_ramp(colour, np.linspace(0, 1, right - left))[None]
    strip.paste(Image.fromarray(shades).resize((right - left, bottom - top)), (left, top))
    below_bar = bottom + size * 1.1
    draw.text((left, below_bar), "first (1)", fill=FAINT, font=font(size), anchor="lm")
    draw.text((right, below_bar), f"last ({k})", fill=FAINT, font=font(size), anchor="rm")
    return strip
