"""Maps of numbers per token over the photo, raw ones and the order of picks, with their sentence.

Of every function here: `canvas` is the photo and its grid, `label` the method's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from spare_demo.render.base import number, token_flags
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import BLACK, WHITE, Colour, cividis, hue_ramp
from spare_demo.render.display import ColourBar, Colours, Display, Item, Line, Photo, Text
from spare_demo.render.legend import FAINT, INK, on_canvas, strip_height, strip_width, text_size
from spare_demo.render.marks import Fill, Outline, line_width
from spare_demo.render.sentences import say
from spare_demo.render.text import font, shorten, wrap
from spare_demo.table import tokens_word
from spare_demo.tokens.checks import Indices, as_indices

Values = Sequence[float] | NDArray[np.floating] | torch.Tensor

OPACITY = 0.55  # of the colours; the grey photo stays readable under them
NUMBERED = 64  # most picks that carry their rank; more would be a page of digits
PICKED_OPACITY = 0.8  # of a picked token's colour


def heatmap(
    canvas: Canvas,
    values: Values,
    label: str,
    meaning: str,
    value_range: tuple[float, float] | None = None,
    whole: bool = False,
    more: str = "",
) -> Display:
    """Raw values per token, never smoothed or rescaled, with a bar that says what they are.

    Args:
        values: (n,) finite numbers, one per token in raster order.
        label: what is shown, a noun phrase that starts a sentence ("Raw cosine with the question").
        meaning: a sentence that says what high means ("High means similar.").
        value_range: lowest and highest value of the bar, which holds all values; pass one range
            to all maps that are compared. None: this map's own.
        whole: whether the values are counts, whose ends are written without decimals.
        more: what the sentence of the map ends with.

    Raises:
        ValueError: another number of values, or one that is not finite.
    """
    numbers = _as_numbers(values)
    if numbers.shape != (canvas.grid.n,):
        raise ValueError(f"A map needs {canvas.grid.n} values, one per token.")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{label}: a value is not a finite number, so no map can be drawn.")
    least, most, mean = float(numbers.min()), float(numbers.max()), float(numbers.mean())
    low, high = value_range or (least, most)
    shares = (numbers - low) / (high - low) if high > low else np.full_like(numbers, 0.5)
    items: list[Item] = [
        Photo(0, 0, canvas.grey),
        Fill(canvas, np.ones(canvas.grid.n, np.bool_), cividis(shares), OPACITY),
    ]

    write = partial(number, signed=low < 0, scale=max(abs(low), abs(high)))
    end = "{:.0f}".format if whole else write
    words = {"least": end(least), "most": end(most), "mean": write(mean)}
    sentence = say("map", label=label, meaning=meaning, **words)
    if value_range is not None:
        sentence += say("range", low=end(low), high=end(high))
    ticks = [(low, end(low)), (mean, f"mean {write(mean)}")]
    if high > low:
        ticks.append((high, end(high)))
    if low < 0 < high:
        ticks.append((0.0, "0"))
    strip = _strip(canvas, f"{label}. {meaning}", (low, high), mean, ticks)
    return on_canvas(canvas, items, strip, sentence + more)


def relevance_map(canvas: Canvas, values: Values, by: str = "clip") -> Display:
    """The raw cosine between each patch and the question, as page and files show it.

    values: (n,) raw cosines. by: "clip" or "words", what the two are compared by.
    """
    sentence = say("relevance", what="the question", space=say(by))
    return heatmap(canvas, values, sentence, say("relevance meaning"))


def leftover_map(
    canvas: Canvas, values: Values, label: str, kept: int, highest: float = 1.0
) -> Display:
    """The share of each patch that the kept ones cannot reconstruct, on a scale from 0.

    values: (n,) shares of the patches' squared norms, 0..1. kept: how many tokens the method kept.
    highest: the end of the scale; pass one to the maps that are compared.
    """
    shares = _as_numbers(values)
    what, meaning = say("leftover", label=label, tokens=tokens_word(kept)), say("leftover meaning")
    more = say("half left over", patches=_patches_are(int((shares > 0.5).sum())))
    return heatmap(canvas, shares, what, meaning, (0.0, highest), more=more)


def weight_map(canvas: Canvas, values: Values, label: str) -> Display:
    """The text weight as a method used it. values: (n,) weights, >= 0."""
    weights = _as_numbers(values)
    more = say("highest", where=canvas.where(int(weights.argmax())))
    return heatmap(canvas, weights, say("weight", label=label), say("weight meaning"), more=more)


def relevance_change_map(canvas: Canvas, change: Values) -> Display:
    """How the raw cosine moved from the first question to the second.

    change: (n,) second minus first. The scale is as long below zero as above.
    """
    values = _as_numbers(change)
    size = float(np.abs(values).max())
    mean = number(float(np.abs(values).mean()), scale=size)
    return heatmap(
        canvas,
        values,
        "Raw cosine with the second question minus that with the first",
        "Above 0 the patch is more like the second.",
        (-size, size),
        more=f" {int((values > 0).sum())} of {tokens_word(len(values))} moved towards the second "
        f"question; the mean move is {mean}.",
    )


def consensus_map(canvas: Canvas, kept: Sequence[Indices]) -> Display:
    """By how many methods each patch is kept, on a scale from none to all of them.

    kept: (k,) token indices of each of two methods or more.
    """
    methods = len(kept)
    flags = np.stack([token_flags(tokens, canvas.grid.n) for tokens in kept])
    what = f"How many of {methods} methods keep each patch"
    meaning = "High means that they agree on it."
    display = heatmap(canvas, flags.sum(axis=0), what, meaning, (0, methods), whole=True)
    everyone, nobody = int(flags.all(axis=0).sum()), int((~flags.any(axis=0)).sum())
    sentence = f"{_patches_are(everyone)} kept by all {methods} methods; {nobody} by none."
    return replace(display, sentence=sentence)


def source_map(canvas: Canvas, sources: torch.Tensor, row: int, label: str) -> Display:
    """How much of each patch went into one merged row.

    sources: (r, n) as `merged_overlay` has them. row: 0 .. r - 1, in the order that the language
    model gets the rows.

    Raises ValueError where there is no such row, or for sources of another number of patches.
    """
    if not 0 <= row < len(sources):
        raise ValueError(
            f"There is no merged token {row + 1}. Choose one from 1 to {len(sources)}."
        )
    weights = sources[row]
    count = int((weights > 0).sum())
    what = f"{label}'s token {row + 1} of {len(sources)}: how much of each patch went into it"
    if count == 0:
        meaning = "No patch has a part in it: it is the vision tower's class token."
    else:
        meaning = f"It holds parts of {tokens_word(count)}; 1 is a whole one, 0 none of it."
    return heatmap(canvas, weights, what, meaning, (0.0, max(1.0, float(weights.max()))))


def pick_order(canvas: Canvas, order: Indices, colour: Colour, label: str) -> Display:
    """Picked tokens from dark (first) to light (last) in the method's hue, numbered while few.

    order: (k,) token indices in the order they were picked. colour, label: the method's.
    """
    n = canvas.grid.n
    picks = as_indices(order).numpy()
    k = len(picks)
    shades = hue_ramp(colour, np.arange(k) / max(1, k - 1))
    fill, flags = np.zeros((n, 3), np.uint8), np.zeros(n, np.bool_)
    fill[picks], flags[picks] = shades, True

    items: list[Item] = [
        Photo(0, 0, canvas.keep(flags, canvas.grey)),
        Fill(canvas, flags, fill, PICKED_OPACITY),
        Outline(canvas, flags, WHITE, max(1, line_width(canvas.patch) // 2)),
    ]
    if k <= NUMBERED:
        items += _ranks(canvas, picks.tolist(), shades)

    sentence = say("order", label=label, count=k, tokens=tokens_word(n))
    if k:
        sentence += say("first", where=canvas.where(int(picks[0])))
        if canvas.grid.padding.any():
            ranks = np.flatnonzero(canvas.grid.padding.numpy()[picks]) + 1
            sentence += say("padding rank", rank=ranks[0]) if ranks.size else say("no padding")

    size = text_size(canvas)
    title = shorten(f"{label}: order of the {tokens_word(k)} kept", _room(canvas), size)
    strip, bar = _titled_bar(canvas, [title], partial(hue_ramp, colour))
    if k > 1:
        below = bar.bottom + size * 1.1
        last = Text(bar.right, below, f"last ({k})", size, FAINT, "rm")
        strip += [bar, Text(bar.left, below, "first (1)", size, FAINT), last]
    return on_canvas(canvas, items, (strip, strip_height(canvas)), sentence + ".")


def _ranks(canvas: Canvas, picks: list[int], shades: np.ndarray) -> Iterator[Text]:
    size = max(6, round(canvas.patch * 0.5))
    for rank, (token, shade) in enumerate(zip(picks, shades, strict=True), start=1):
        x0, y0, x1, y1 = canvas.rectangle(token)
        dark = shade.astype(float) @ (0.299, 0.587, 0.114) < 128
        ink = WHITE if dark else BLACK
        yield Text((x0 + x1) / 2, (y0 + y1) / 2, str(rank), size, ink, "mm")


def _patches_are(count: int) -> str:
    return {0: "No patch is", 1: "1 patch is"}.get(count, f"{count} patches are")


def _as_numbers(values: Values) -> NDArray[np.float64]:
    """The values as an array, a tensor's from whatever device."""
    plain = values.detach().cpu().double() if isinstance(values, torch.Tensor) else values
    return np.asarray(plain, np.float64)


def _strip(
    canvas: Canvas,
    title: str,
    ends: tuple[float, float],
    mean: float,
    ticks: Sequence[tuple[float, str]],
) -> tuple[list[Item], int]:
    """Title, colours, and values in words below them.

    ends: lowest and highest value of the colours. ticks: values within them, and their words.
    """
    size = text_size(canvas)
    lines = wrap(title, _room(canvas), size)
    items, bar = _titled_bar(canvas, lines, cividis)
    items.append(bar)
    left, top, right, bottom = bar.left, bar.top, bar.right, bar.bottom

    low, high = ends
    ticks = sorted(ticks, key=lambda tick: tick[0])
    share = [(value - low) / (high - low) if high > low else 0.5 for value, _ in ticks]
    points = [left + x * (right - left - 1) for x in share]
    widths = [font(size).getlength(words) for _, words in ticks]
    centres = side_by_side(points, widths, left, right, size * 0.6)
    line, drop = max(2, size // 10), round(size * 0.55)
    for point, centre, wide, (value, words) in zip(points, centres, widths, ticks, strict=True):
        if value in (0.0, mean):  # a mark across the colours that shows on dark and light
            across = ((point, top), (point, bottom))
            items += [Line(across, BLACK, line + 4), Line(across, WHITE, line)]
        foot = point if abs(point - centre) < wide / 2 else centre
        items.append(Line(((point, bottom), (foot, bottom + drop)), FAINT, line))
        items.append(Text(centre, bottom + drop + size * 0.65, words, size, INK, "mm"))
    return items, strip_height(canvas) + round(size * 1.4) * (len(lines) - 1)


def _titled_bar(
    canvas: Canvas, lines: Sequence[str], colours: Colours
) -> tuple[list[Item], ColourBar]:
    """The lines of a title at the top of the strip, and the bar of colours that comes below."""
    size, y = text_size(canvas), canvas.size[1]
    pad, step = round(size * 0.6), round(size * 1.4)
    first = y + round(size * 1.05)
    titles = [Text(pad, first + step * i, line, size, INK) for i, line in enumerate(lines)]
    y += step * (len(lines) - 1)
    right, top, bottom = pad + _room(canvas), y + round(size * 1.9), y + round(size * 2.7)
    return [*titles], ColourBar(pad, top, right, bottom, colours)


def _room(canvas: Canvas) -> int:
    """Width of the words and the bar."""
    return strip_width(canvas) - 2 * round(text_size(canvas) * 0.6)


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
