"""What was measured over many questions: curves and bars with an interval at every point.

As a Plotly figure for a browser, as SVG for a page of text; that is written by hand, for Plotly
would need a browser to make a file of a figure. Those of one comparison, whose curves have a band
of random picks and no intervals, are in `curves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import plotly.graph_objects as go

from spare_demo.render.colours import PALETTE, hex_of
from spare_demo.render.text import drawable, font

# Read on a white and on a black page alike; the ground stays the page's own.
INK = "#808080"
FONT = "system-ui, sans-serif"
PLOTLY_AXIS: dict[str, Any] = {
    "gridcolor": "rgba(128,128,128,0.25)",
    "linecolor": INK,
    "showline": True,
    "zeroline": False,
    "automargin": True,
}
PLOTLY_LAYOUT: dict[str, Any] = {
    "template": "none",
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"color": INK, "size": 13, "family": FONT},
    "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": "#20242a"}},
    "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": INK},
}

_COLOURS = (*map(hex_of, PALETTE), "#7f7f7f")
DASHES = ("solid", "dash", "dot", "dashdot")
_APART = 0.006  # of the axis, between neighbours that share a place on it
_SVG_DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3"}


@dataclass(frozen=True)
class Point:
    """x: a place on the axis, or the number of a group of bars. low, high: the interval of y."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """One method's points, ascending in x. `place` decides its colour, the same in every chart."""

    name: str
    points: tuple[Point, ...]
    place: int = 0


@dataclass(frozen=True)
class Lines:
    """Curves over a logarithmic x; `levels` are dotted horizontal lines by name."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bars:
    """Bars in groups; a point's x is its group's number."""

    title: str
    y_title: str
    groups: tuple[str, ...]
    series: tuple[Series, ...]


Chart = Lines | Bars


def round_ticks(top: float) -> list[float]:
    """0 and up to five round steps, the last at or above `top`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(top))
    step = next(power * part for part in (0.2, 0.5, 1.0, 2.0) if top / (power * part) <= 5)
    return [float(f"{step * i:.10g}") for i in range(math.ceil(top / step - 1e-9) + 1)]


def look_of(place: int) -> tuple[str, str]:
    """Colour and dash of a series: no two of the first 32 places are alike."""
    return _COLOURS[place % len(_COLOURS)], DASHES[place // len(_COLOURS) % len(DASHES)]


def _strength(dash: str) -> float:
    """How strongly a bar is filled where a curve would be dashed: bars have no dashes."""
    return (1.0, 0.6, 0.35, 0.2)[DASHES.index(dash)]


def _drawn_at(chart: Lines) -> list[list[float]]:
    """Where the points of each series are drawn: a little apart, or their intervals would lie on
    each other."""
    xs = [point.x for series in chart.series for point in series.points]
    ends = max(xs) / min(xs) if xs else 1.0
    middle = (len(chart.series) - 1) / 2
    return [
        [point.x * max(ends, 2.0) ** (_APART * (index - middle)) for point in series.points]
        for index, series in enumerate(chart.series)
    ]


def plotly_figure(chart: Chart) -> go.Figure:
    """The chart for a browser, readable on a light and on a dark page."""
    figure = go.Figure()
    drawn_at = _drawn_at(chart) if isinstance(chart, Lines) else []
    for index, series in enumerate(chart.series):
        colour, dash = look_of(series.place)
        y = [point.y for point in series.points]
        spread = {
            "type": "data",
            "symmetric": False,
            "array": [point.high - point.y for point in series.points],
            "arrayminus": [point.y - point.low for point in series.points],
            "thickness": 1,
            "width": 2,
        }
        common = {"name": series.name, "y": y, "error_y": spread, "hovertemplate": "%{y:.4~g}"}
        if isinstance(chart, Lines):
            line = {"color": colour, "dash": dash, "width": 2}
            trace = go.Scatter(x=drawn_at[index], mode="lines+markers", line=line, **common)
        else:
            groups = [chart.groups[int(point.x)] for point in series.points]
            shade = f"{colour}{round(255 * _strength(dash)):02x}"  # a legend shows no opacity
            trace = go.Bar(x=groups, marker={"color": shade}, **common)
        figure.add_trace(trace)
    xaxis = dict(PLOTLY_AXIS)
    if isinstance(chart, Lines):
        for name, level in chart.levels.items():
            words = {"annotation_text": name, "annotation_position": "top left"}
            figure.add_hline(y=level, line={"color": INK, "dash": "dot"}, **words)
        ticks = sorted({point.x for series in chart.series for point in series.points})
        xaxis |= {"type": "log", "tickvals": ticks, "ticktext": [f"{x:g}" for x in ticks]}
        xaxis["title"] = {"text": chart.x_title}
    figure.update_layout(
        **PLOTLY_LAYOUT,
        margin={"l": 56, "r": 40, "t": 24, "b": 48},
        height=420,
        barmode="group",
        legend={"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom"},
        xaxis=xaxis,
        yaxis={**PLOTLY_AXIS, "rangemode": "tozero", "title": {"text": chart.y_title}},
    )
    return figure


_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 880, 64, 250, 44, 380
_WIDER = 1.25  # how much wider than Pillow's the letters of a reader's machine may be


def svg(chart: Chart) -> str:
    """The chart as an SVG file with its own white ground, its title as its accessible name."""
    bottom, right = _HEIGHT - 52, _WIDTH - _RIGHT
    highs = [point.high for series in chart.series for point in series.points]
    levels = chart.levels if isinstance(chart, Lines) else {}
    ticks = round_ticks(max([*highs, *levels.values(), 1e-9]))

    def y_at(value: float) -> float:
        return bottom - (bottom - _TOP) * max(value, 0.0) / ticks[-1]

    parts = [_text(_LEFT, 24, chart.title, "start", 16, "600")]
    for tick in ticks:
        y = y_at(tick)
        parts.append(_line(_LEFT, y, right, y, "#e2e4e8"))
        parts.append(_text(_LEFT - 8, y + 4, f"{tick:g}", "end"))
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text transform="translate(18 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(chart.y_title)}</text>"
    )
    parts.append(_line(_LEFT, bottom, right, bottom, "#555"))
    if isinstance(chart, Lines):
        parts += _svg_lines(chart, y_at, right, bottom)
    else:
        parts += _svg_bars(chart, y_at, right, bottom)
    for name, level in levels.items():
        parts.append(_line(_LEFT, y_at(level), right, y_at(level), "#555", "2 3"))
        parts.append(_text(right - 4, y_at(level) - 5, name, "end"))
    for index, series in enumerate(chart.series):
        colour, dash = look_of(series.place)
        y = _TOP + 10 + 20 * index
        if isinstance(chart, Lines):
            parts.append(_line(right + 20, y, right + 48, y, colour, _SVG_DASHES[dash], 3))
        else:
            parts.append(_bar(right + 34, y - 6, 14, 12, colour, dash))
        parts.append(_text(right + 56, y + 4, series.name, "start"))
    height = max(_HEIGHT, _TOP + 20 * len(chart.series) + 20)
    longest = max((font(12).getlength(drawable(s.name)) for s in chart.series), default=0)
    width = max(_WIDTH, round(right + 56 + _WIDER * longest))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="{FONT}" font-size="12" fill="#222" role="img">'
        f"<title>{escape(chart.title)}</title>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>' + "".join(parts) + "</svg>\n"
    )


def _svg_lines(
    chart: Lines, y_at: Callable[[float], float], right: float, bottom: float
) -> list[str]:
    xs = sorted({point.x for series in chart.series for point in series.points})
    low, high = (math.log(xs[0]), math.log(xs[-1])) if xs else (0.0, 1.0)
    room = right - _LEFT - 40

    def x_at(x: float) -> float:
        way = math.log(x) - low
        return _LEFT + 20 + room * (way / (high - low) if high > low else 0.5 + way)

    parts = [_text(x_at(x), bottom + 18, f"{x:g}", "middle") for x in xs]
    parts.append(_text((_LEFT + right) / 2, bottom + 40, chart.x_title, "middle"))
    for series, places in zip(chart.series, _drawn_at(chart), strict=True):
        colour, dash = look_of(series.place)
        at = [(x_at(x), y_at(p.y)) for x, p in zip(places, series.points, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{_SVG_DASHES[dash]}"/>'
        )
        for (x, y), point in zip(at, series.points, strict=True):
            parts.append(_line(x, y_at(point.low), x, y_at(point.high), colour))
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
    return parts


def _svg_bars(
    chart: Bars, y_at: Callable[[float], float], right: float, bottom: float
) -> list[str]:
    room = (right - _LEFT) / max(len(chart.groups), 1)
    width = 0.86 * room / max(len(chart.series), 1)
    parts = [
        _text(_LEFT + room * (i + 0.5), bottom + 18, name, "middle")
        for i, name in enumerate(chart.groups)
    ]
    for index, series in enumerate(chart.series):
        colour, dash = look_of(series.place)
        for point in series.points:
            x = _LEFT + room * (point.x + 0.07) + width * index
            y, middle = y_at(point.y), x + 0.45 * width
            parts.append(_bar(x, y, 0.9 * width, bottom - y, colour, dash))
            parts.append(_line(middle, y_at(point.low), middle, y_at(point.high), "#222"))
    return parts


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "", width: float = 1
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}" stroke-dasharray="{dash}"/>'
    )


def _bar(x: float, y: float, width: float, height: float, colour: str, dash: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0):.1f}" '
        f'fill="{colour}" fill-opacity="{_strength(dash)}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str, size: int = 12, weight: str = "") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{bold}>'
        f"{escape(text)}</text>"
    )
