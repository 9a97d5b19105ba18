"""One raw number per token, over the photo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from spare_demo.render.base import number
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import cividis
from spare_demo.render.display import ColourBar, Display, Item, Line, Photo, Text
from spare_demo.render.legend import FAINT, INK, on_canvas, strip_height, strip_width, text_size
from spare_demo.render.marks import Fill
from spare_demo.render.sentences import say
from spare_demo.render.text import font, wrap

Values = Sequence[float] | NDArray[np.floating] | torch.Tensor

OPACITY = 0.55  # of the colours; the grey photo stays readable under them


def heatmap(
    canvas: Canvas,
    values: Values,
    label: str,
    meaning: str,
    value_range: tuple[float, float] | None = None,
    whole: bool = False,
) -> Display:
    """Raw values per token, never smoothed or rescaled, with a bar that says what they are.

    Args:
        canvas: the photo and its grid.
        values: (n,) finite numbers, one per token in raster order.
        label: what is shown, a noun phrase that starts a sentence ("Raw cosine with the question").
        meaning: a sentence that says what high means ("High means similar.").
        value_range: lowest and highest value of the bar; pass one range to all maps that are
            compared. None: this map's own.
        whole: whether the values are counts, whose ends are written without decimals.

    Raises:
        ValueError: another number of values, a value that is not finite, or one off the range.
    """
    numbers = as_numbers(values)
    if numbers.shape != (canvas.grid.n,):
        raise ValueError(f"A map needs {canvas.grid.n} values, one per token.")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{label}: a value is not a finite number, so no map can be drawn.")
    least, most, mean = float(numbers.min()), float(numbers.max()), float(numbers.mean())
    low, high = value_range or (least, most)
    if least < low or most > high:
        raise ValueError(f"{label}: values reach beyond the range {low:g} to {high:g}; widen it.")
    shares = (numbers - low) / (high - low) if high > low else np.full_like(numbers, 0.5)
    everywhere = np.ones(canvas.grid.n, np.bool_)
    items: list[Item] = [
        Photo(0, 0, canvas.grey),
        Fill(canvas, everywhere, cividis(shares), OPACITY),
    ]

    signed, scale = low < 0, max(abs(low), abs(high))
    end = _count if whole else partial(number, signed=signed, scale=scale)
    texts = [end(least), end(most), number(mean, signed, scale)]
    ends = {"least": texts[0], "most": texts[1], "mean": texts[2]}
    sentence = say("map", label=label, meaning=meaning, **ends)
    if value_range is not None:
        sentence += say("range", low=end(low), high=end(high))
    strip = _strip(canvas, low, high, mean, f"{label}. {meaning}", end)
    return on_canvas(canvas, items, strip, sentence)


def as_numbers(values: Values) -> NDArray[np.float64]:
    """The values as an array, a tensor's from whatever device."""
    plain = values.detach().cpu().double() if isinstance(values, torch.Tensor) else values
    return np.asarray(plain, np.float64)


def _count(value: float) -> str:
    return f"{value:.0f}"


def _strip(
    canvas: Canvas,
    low: float,
    high: float,
    mean: float,
    title: str,
    end: Callable[[float], str],
) -> tuple[list[Item], int]:
    """Title, colours, and the values of their ends, of zero and of the mean.

    end: writes the value of an end.
    """
    width, size, y = strip_width(canvas), text_size(canvas), canvas.size[1]
    pad = round(size * 0.6)
    lines = wrap(title, width - 2 * pad, size)
    extra = round(size * 1.4) * (len(lines) - 1)
    items: list[Item] = []
    for index, words in enumerate(lines):
        middle = y + round(size * 1.05) + round(size * 1.4) * index
        items.append(Text(pad, middle, words, size, INK))

    left, right = pad, width - pad
    top, bottom = y + round(size * 1.9) + extra, y + round(size * 2.7) + extra
    items.append(ColourBar(left, top, right, bottom, cividis))

    signed, scale = low < 0, max(abs(low), abs(high))
    ticks = [(low, end(low)), (mean, f"mean {number(mean, signed, scale)}")]
    if high > low:
        ticks.append((high, end(high)))
    if low < 0 < high:
        ticks.append((0.0, "0"))
    ticks.sort(key=lambda tick: tick[0])
    share = [(value - low) / (high - low) if high > low else 0.5 for value, _ in ticks]
    points = [left + x * (right - left - 1) for x in share]
    widths = [font(size).getlength(words) for _, words in ticks]
    centres = side_by_side(points, widths, left, right, size * 0.6)
    line, drop = max(2, size // 10), round(size * 0.55)
    for point, centre, wide, (value, words) in zip(points, centres, widths, ticks, strict=True):
        if value in (0.0, mean):  # a mark across the colours that shows on dark and light
            across = ((point, top), (point, bottom))
            items += [Line(across, (0, 0, 0), line + 4), Line(across, (255, 255, 255), line)]
        foot = point if abs(point - centre) < wide / 2 else centre
        items.append(Line(((point, bottom), (foot, bottom + drop)), FAINT, line))
        items.append(Text(centre, bottom + drop + size * 0.65, words, size, INK, "mm"))
    return items, strip_height(canvas) + extra


def side_by_side(
    points: list[float], widths: list[float], left: float, right: float, gap: float
) -> list[float]:
    """Centres of labels of these widths, near their points and in order, none on another."""
    centres: list[float] = []
    edge = left
    for point, width in zip(points, widths, strict=True):
        centres.append(max(point, edge + width / 2))
        edge = centres[-1] + width / 2 + gap
    edge = right
    for index in range(len(centres) - 1, -1, -1):
        centres[index] = min(centres[index], edge - widths[index] / 2)
        edge = centres[index] - widths[index] / 2 - gap
    return centres
