"""One comparison's curves for papers, as PNG and SVG; `curves` draws the same for a browser.

Shares of right answers over many questions, which have intervals, and their bars are drawn in
`chart`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from spare_demo.render.axes import Band, Curve, check_curves, round_ticks
from spare_demo.render.base import Colour, colours_of
from spare_demo.render.display import Area, Display, Item, Line, Point, Text

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 560, 24, 320
_INK: Colour = (0x55, 0x55, 0x55)
_GRID: Colour = (0xDD, 0xDD, 0xDD)
_BAND: Colour = (0xE2, 0xE2, 0xE2)
_TEXT: Colour = (0x20, 0x24, 0x2A)
_SIZE = 13  # of text
_SCALE = 3  # PNG pixels per unit: 2280 across, a paper's column at 300 dots an inch and more


def curves_display(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: Band,
    budget: int,
    y_title: str,
    sentence: str,
    bound: Sequence[float] | None = None,
) -> Display:
    """One line per method, the band of random picks, and the budget as an upright line.

    Args:
        budgets: (m,) ascending, >= 1; drawn on a logarithmic axis.
        series: label -> (m,) values >= 0; colours as in `curves`. Where one is None there is a gap.
        random_band: (m,) mean, lowest and highest.
        y_title: what the values are.
        bound: (m,) least possible values, dashed; None for none.

    Raises:
        ValueError: no budgets, or a curve of another length.
    """
    curves = {**series, "random": random_band[0], **({} if bound is None else {"SVD bound": bound})}
    check_curves(budgets, curves, random_band)
    values_drawn = [value for curve in [*curves.values(), random_band[2]] for value in curve]
    ticks = round_ticks(max(value for value in values_drawn if value is not None) or 1.0)
    first, last = math.log(budgets[0]), math.log(budgets[-1])

    def x_at(k: float) -> float:
        share = (math.log(k) - first) / (last - first) if last > first else 0.5
        return _LEFT + (_RIGHT - _LEFT) * share

    def y_at(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / ticks[-1]

    def points(values: Curve) -> tuple[Point, ...]:
        pairs = zip(budgets, values, strict=True)
        return tuple((x_at(k), y_at(value)) for k, value in pairs if value is not None)

    items: list[Item] = [Area(points(random_band[2]) + points(random_band[1])[::-1], _BAND)]
    texts: list[Item] = []  # above all lines
    for tick in ticks:
        y = y_at(tick)
        items.append(Line(((_LEFT, y), (_RIGHT, y)), _GRID))
        texts.append(Text(_LEFT - 8, y + 4, f"{tick:.4g}", _SIZE, _TEXT, "rs"))
    for k in [2**e for e in range(13) if budgets[0] <= 2**e <= budgets[-1]]:
        items.append(Line(((x_at(k), _BOTTOM), (x_at(k), _BOTTOM + 5)), _INK))
        texts.append(Text(x_at(k), _BOTTOM + 20, str(k), _SIZE, _TEXT, "ms"))
    items.append(Line(((_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)), _INK))
    if budgets[0] <= budget <= budgets[-1]:
        x = x_at(budget)
        items.append(Line(((x, _TOP), (x, _BOTTOM)), _INK, 1.5))
        texts.append(Text(x, _TOP - 8, f"k = {budget}", _SIZE, _TEXT, "ms"))
    looks: dict[str, tuple[Colour, float, tuple[float, float] | None]] = {
        label: (colour, 2.5, None) for label, colour in colours_of(series).items()
    }
    looks |= {"random": (_INK, 1.5, (2, 3)), "SVD bound": (_INK, 1.5, (7, 4))}
    for index, (label, values) in enumerate(curves.items()):
        if line_points := points(values):
            items.append(Line(line_points, *looks[label]))
        y = _TOP + 12 + 22 * index
        items.append(Line(((_RIGHT + 20, y), (_RIGHT + 48, y)), *looks[label]))
        texts.append(Text(_RIGHT + 56, y + 4, label, _SIZE, _TEXT, "ls"))
    texts.append(Text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, "tokens kept (k)", _SIZE, _TEXT, "ms"))
    texts.append(Text(18, (_TOP + _BOTTOM) / 2, y_title, _SIZE, _TEXT, "ms", upright=True))
    return Display(_WIDTH, _HEIGHT, [*items, *texts], sentence, scale=_SCALE)
