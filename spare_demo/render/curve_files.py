"""One comparison's curves as SVG and PNG for papers; `curves` draws the same for a browser.

Both files are the same lines, areas and words, laid out once (`CurveSheet`). Shares of right
answers over many questions, which have intervals, and their bars are drawn in `chart`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from PIL import Image, ImageDraw

from spare_demo.render.axes import Band, Curve, check_curves, round_ticks
from spare_demo.render.base import PALETTE, Colour, hex_of
from spare_demo.render.text import drawable, font

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 560, 24, 320
_INK: Colour = (0x55, 0x55, 0x55)
_GRID: Colour = (0xDD, 0xDD, 0xDD)
_BAND: Colour = (0xE2, 0xE2, 0xE2)
_TEXT: Colour = (0x20, 0x24, 0x2A)
_SIZE = 13  # of text
_SCALE = 3  # PNG pixels per unit: 2280 across, a paper's column at 300 dots an inch and more

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class _Line:
    points: tuple[Point, ...]
    colour: Colour
    width: float = 1.0
    dash: tuple[float, float] | None = None  # on, off


@dataclass(frozen=True)
class _Text:
    at: Point
    text: str
    anchor: Anchor
    upright: bool = False  # read from bottom to top


@dataclass
class CurveSheet:
    """One figure as lines, areas and words; unit: a CSS pixel.

    Attributes:
        sentence: what the figure shows, its accessible name.
    """

    sentence: str
    areas: list[tuple[tuple[Point, ...], Colour]] = field(default_factory=list)
    lines: list[_Line] = field(default_factory=list)
    texts: list[_Text] = field(default_factory=list)

    def svg(self) -> str:
        """The text of an SVG file on a white ground."""
        parts = [f'<polygon points="{_path(p)}" fill="{hex_of(c)}"/>' for p, c in self.areas]
        for line in self.lines:
            dash = f' stroke-dasharray="{line.dash[0]:g} {line.dash[1]:g}"' if line.dash else ""
            parts.append(
                f'<polyline points="{_path(line.points)}" fill="none" '
                f'stroke="{hex_of(line.colour)}" stroke-width="{line.width:g}"{dash}/>'
            )
        for text in self.texts:
            x, y = text.at
            place = f'x="{x:.1f}" y="{y:.1f}"'
            if text.upright:
                place = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"'
            parts.append(f'<text {place} text-anchor="{text.anchor}">{escape(text.text)}</text>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
            f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" fill="{hex_of(_TEXT)}" '
            f'font-size="{_SIZE}" font-family="system-ui, Helvetica, Arial, sans-serif">'
            f"<title>{escape(self.sentence)}</title>"
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>' + "".join(parts) + "</svg>\n"
        )

    def picture(self) -> Image.Image:
        """The same as an RGB picture."""
        image = Image.new("RGB", (_WIDTH * _SCALE, _HEIGHT * _SCALE), (255, 255, 255))
        draw = ImageDraw.Draw(image)
        for points, colour in self.areas:
            draw.polygon([(x * _SCALE, y * _SCALE) for x, y in points], fill=colour)
        for line in self.lines:
            for piece in _dashed(line):
                scaled = [(x * _SCALE, y * _SCALE) for x, y in piece]
                draw.line(scaled, fill=line.colour, width=round(line.width * _SCALE), joint="curve")
        for text in self.texts:
            _write(image, text)
        return image


def curve_sheet(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random_band: Band,
    budget: int,
    y_title: str,
    sentence: str,
    bound: Sequence[float] | None = None,
) -> CurveSheet:
    """One line per method, the band of random picks, and the budget as an upright line.

    Args:
        budgets: (m,) ascending, >= 1; drawn on a logarithmic axis.
        series: label -> (m,) values >= 0; colours as in `curves`. Where one is None there is a gap.
        random_band: (m,) mean, lowest and highest.
        budget: the budget set.
        y_title: what the values are.
        sentence: what the figure shows.
        bound: (m,) least possible values, dashed; None for none.

    Raises:
        ValueError: no budgets, or a curve of another length.
    """
    curves = {**series, "random": random_band[0], **({} if bound is None else {"SVD bound": bound})}
    check_curves(budgets, curves, random_band)
    drawn = [value for curve in [*curves.values(), random_band[2]] for value in curve]
    ticks = round_ticks(max(value for value in drawn if value is not None) or 1.0)
    first, last = math.log(budgets[0]), math.log(budgets[-1])

    def x_at(k: float) -> float:
        share = (math.log(k) - first) / (last - first) if last > first else 0.5
        return _LEFT + (_RIGHT - _LEFT) * share

    def y_at(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / ticks[-1]

    def points(values: Curve) -> tuple[Point, ...]:
        known = zip(budgets, values, strict=True)
        return tuple((x_at(k), y_at(value)) for k, value in known if value is not None)

    sheet = CurveSheet(sentence)
    sheet.areas.append((points(random_band[2]) + points(random_band[1])[::-1], _BAND))
    for tick in ticks:
        y = y_at(tick)
        sheet.lines.append(_Line(((_LEFT, y), (_RIGHT, y)), _GRID))
        sheet.texts.append(_Text((_LEFT - 8, y + 4), f"{tick:.4g}", "end"))
    for k in [2**e for e in range(13) if budgets[0] <= 2**e <= budgets[-1]]:
        sheet.lines.append(_Line(((x_at(k), _BOTTOM), (x_at(k), _BOTTOM + 5)), _INK))
        sheet.texts.append(_Text((x_at(k), _BOTTOM + 20), str(k), "middle"))
    sheet.lines.append(_Line(((_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)), _INK))
    if budgets[0] <= budget <= budgets[-1]:
        x = x_at(budget)
        sheet.lines.append(_Line(((x, _TOP), (x, _BOTTOM)), _INK, 1.5))
        sheet.texts.append(_Text((x, _TOP - 8), f"k = {budget}", "middle"))
    looks: dict[str, tuple[Colour, float, tuple[float, float] | None]] = {
        label: (PALETTE[index % len(PALETTE)], 2.5, None) for index, label in enumerate(series)
    }
    looks |= {"random": (_INK, 1.5, (2, 3)), "SVD bound": (_INK, 1.5, (7, 4))}
    for index, (label, values) in enumerate(curves.items()):
        if known := points(values):
            sheet.lines.append(_Line(known, *looks[label]))
        y = _TOP + 12 + 22 * index
        sheet.lines.append(_Line(((_RIGHT + 20, y), (_RIGHT + 48, y)), *looks[label]))
        sheet.texts.append(_Text((_RIGHT + 56, y + 4), label, "start"))
    sheet.texts.append(_Text(((_LEFT + _RIGHT) / 2, _BOTTOM + 44), "tokens kept (k)", "middle"))
    sheet.texts.append(_Text((18, (_TOP + _BOTTOM) / 2), y_title, "middle", upright=True))
    return sheet


def _dashed(line: _Line) -> list[list[Point]]:
    """The pieces of a line that are drawn, going on from corner to corner."""
    if line.dash is None:
        return [list(line.points)]
    on, off = line.dash
    pieces, place = [], 0.0  # how far into on + off
    for (x0, y0), (x1, y1) in zip(line.points, line.points[1:], strict=False):
        length = math.hypot(x1 - x0, y1 - y0)
        done = 0.0
        while done < length:
            stretch = min((on if place < on else on + off) - place, length - done)
            if place < on:
                ends = [(done + s) / length for s in (0, stretch)]
                pieces.append([(x0 + (x1 - x0) * t, y0 + (y1 - y0) * t) for t in ends])
            done += max(stretch, 1e-6)
            place = (place + stretch) % (on + off)
            if on + off - place < 1e-9:
                place = 0.0
    return pieces


def _write(image: Image.Image, text: _Text) -> None:
    words, face = drawable(text.text), font(_SIZE * _SCALE)
    x, y = text.at[0] * _SCALE, text.at[1] * _SCALE
    if not text.upright:
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[text.anchor]
        ImageDraw.Draw(image).text((x, y), words, fill=_TEXT, font=face, anchor=anchor)
        return
    size = (math.ceil(face.getlength(words)), 2 * _SIZE * _SCALE)
    strip = Image.new("RGB", size, (255, 255, 255))
    ImageDraw.Draw(strip).text((0, size[1] // 2), words, fill=_TEXT, font=face, anchor="lm")
    turned = strip.rotate(90, expand=True)
    image.paste(turned, (round(x - turned.width * 0.6), round(y - turned.height / 2)))


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
