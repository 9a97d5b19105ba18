"""Curves against the number of tokens kept, as SVG for papers; `curves` is for a browser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from spare_demo.render.base import BLUE, VERMILION, Colour

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 560, 24, 320
_INK, _GRID, _BAND = "#555555", "#dddddd", "#e2e2e2"
_MORE: tuple[Colour, ...] = ((0x00, 0x9E, 0x73), (0xCC, 0x79, 0xA7), (0xE6, 0x9F, 0x00))

Curve = Sequence[float]


def curve_figure_svg(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: tuple[Curve, Curve, Curve],
    budget: int,
    y_title: str,
    sentence: str,
    bound: Curve | None = None,
) -> str:
    """One line per method, the band of random picks, and the budget as an upright line.

    Args:
        budgets: (m,) ascending, >= 1; drawn on a logarithmic axis.
        series: label -> (m,) values >= 0; colours as in `curves`.
        random_band: (m,) mean, lowest and highest.
        budget: the budget set.
        y_title: what the values are.
        sentence: what the figure shows, its accessible name.
        bound: (m,) least possible values, dashed; None for none.

    Raises:
        ValueError: no budgets, or a curve of another length.
    """
    curves = {**series, "random": random_band[0], **({} if bound is None else {"SVD bound": bound})}
    for name, curve in [*curves.items(), *[("random", part) for part in random_band[1:]]]:
        if not budgets or len(curve) != len(budgets):
            raise ValueError(f"{name}: {len(curve)} values for {len(budgets)} budgets.")
    top = max(max(curve) for curve in [*curves.values(), random_band[2]]) or 1.0
    step = _step(top)
    ceiling = step * math.ceil(top / step - 1e-9)
    first, last = math.log(budgets[0]), math.log(budgets[-1])

    def x_at(k: float) -> float:
        share = (math.log(k) - first) / (last - first) if last > first else 0.5
        return _LEFT + (_RIGHT - _LEFT) * share

    def y_at(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / ceiling

    def points(values: Curve) -> str:
        both = zip(budgets, values, strict=True)
        return " ".join(f"{x_at(k):.1f},{y_at(v):.1f}" for k, v in both)

    parts = []
    for index in range(round(ceiling / step) + 1):
        y = y_at(step * index)
        parts.append(_line(_LEFT, y, _RIGHT, y, _GRID))
        parts.append(_text(_LEFT - 8, y + 4, f"{step * index:.4g}", "end"))
    for k in [2**e for e in range(13) if budgets[0] <= 2**e <= budgets[-1]]:
        parts.append(_line(x_at(k), _BOTTOM, x_at(k), _BOTTOM + 5, _INK))
        parts.append(_text(x_at(k), _BOTTOM + 20, str(k), "middle"))
    back = " ".join(reversed(points(random_band[1]).split(" ")))
    parts.append(f'<polygon points="{points(random_band[2])} {back}" fill="{_BAND}"/>')
    looks = {
        label: (_rgb((BLUE, VERMILION, *_MORE)[index % 5]), "", 2.5)
        for index, label in enumerate(series)
    }
    looks |= {"random": (_INK, "2 3", 1.5), "SVD bound": (_INK, "7 4", 1.5)}
    for index, (label, values) in enumerate(curves.items()):
        colour, dash, width = looks[label]
        look = f'stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{points(values)}" fill="none" {look}/>')
        y = _TOP + 12 + 22 * index
        parts.append(_line(_RIGHT + 20, y, _RIGHT + 48, y, colour, dash, width))
        parts.append(_text(_RIGHT + 56, y + 4, label, "start"))
    if budgets[0] <= budget <= budgets[-1]:
        parts.append(_line(x_at(budget), _TOP, x_at(budget), _BOTTOM, _INK, "", 1.5))
        parts.append(_text(x_at(budget), _TOP - 8, f"k = {budget}", "middle"))
    parts.append(_line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, _INK))
    parts.append(_text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, "tokens kept (k)", "middle"))
    middle = (_TOP + _BOTTOM) / 2
    parts.append(
        f'<text transform="translate(18 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" fill="#20242a" font-size="13" '
        'font-family="system-ui, Helvetica, Arial, sans-serif">'
        f'<title>{escape(sentence)}</title><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def _step(top: float) -> float:
    """A round distance of grid lines that makes at most six of them."""
    power = 10.0 ** math.floor(math.log10(top))
    return next(power * part for part in (0.2, 0.5, 1.0, 2.0) if top / (power * part) <= 5)


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "", width: float = 1
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}" stroke-dasharray="{dash}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rgb(colour: Colour) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)
