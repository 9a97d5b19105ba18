"""What was measured over many questions: curves and bars with an interval at every point.

As a Plotly figure for a browser, and as a display for files: Plotly would need a browser to make a
file of a figure. Those of one comparison, whose curves have a band of random picks and no
intervals, are in `curves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go

from spare_demo.render.colours import PALETTE, WHITE, Colour, hex_of
from spare_demo.render.display import Area, Display, Item, Line, Text
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

# Of files, which have a white ground.
AXIS: Colour = (0x55, 0x55, 0x55)
GRID: Colour = (0xDD, 0xDD, 0xDD)
WORDS: Colour = (0x20, 0x24, 0x2A)

_COLOURS: tuple[Colour, ...] = (*PALETTE, (0x7F, 0x7F, 0x7F))
# In Plotly's words: units drawn and left out.
DASHES = {"solid": None, "dash": (7.0, 4.0), "dot": (2.0, 3.0), "longdash": (14.0, 4.0)}
_APART = 0.006  # of the axis, between neighbours that share a place on it


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


def look_of(place: int) -> tuple[Colour, str]:
    """Colour and dash of a series: no two of the first 32 places are alike."""
    dashes = tuple(DASHES)
    return _COLOURS[place % len(_COLOURS)], dashes[place // len(_COLOURS) % len(dashes)]


def _strength(dash: str) -> float:
    """How strongly a bar is filled where a curve would be dashed: bars have no dashes."""
    return dict(zip(DASHES, (1.0, 0.6, 0.35, 0.2), strict=True))[dash]


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
        paint = hex_of(colour)
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
            line = {"color": paint, "dash": dash, "width": 2}
            trace = go.Scatter(x=drawn_at[index], mode="lines+markers", line=line, **common)
        else:
            groups = [chart.groups[int(point.x)] for point in series.points]
            shade = f"{paint}{round(255 * _strength(dash)):02x}"  # a legend shows no opacity
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


_WIDTH, _HEIGHT, _SIZE = 880, 380, 12
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 630, 44, 328


def display(chart: Chart) -> Display:
    """The chart for files."""
    highs = [point.high for series in chart.series for point in series.points]
    levels = chart.levels if isinstance(chart, Lines) else {}
    ticks = round_ticks(max([*highs, *levels.values(), 1e-9]))

    def y_at(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * max(value, 0.0) / ticks[-1]

    items: list[Item] = [Text(_LEFT, 24, chart.title, 16, WORDS, "ls")]
    for tick in ticks:
        y = y_at(tick)
        items.append(Line(((_LEFT, y), (_RIGHT, y)), GRID))
        items.append(Text(_LEFT - 8, y + 4, f"{tick:g}", _SIZE, WORDS, "rs"))
    half_way = (_TOP + _BOTTOM) / 2
    items.append(Text(18, half_way, chart.y_title, _SIZE, WORDS, "ms", upright=True))
    items.append(Line(((_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)), AXIS))
    items += _curves(chart, y_at) if isinstance(chart, Lines) else _bars(chart, y_at)
    for name, level in levels.items():
        y = y_at(level)
        items.append(Line(((_LEFT, y), (_RIGHT, y)), AXIS, 1.0, DASHES["dot"]))
        items.append(Text(_RIGHT - 4, y - 5, name, _SIZE, WORDS, "rs"))
    for index, series in enumerate(chart.series):
        colour, dash = look_of(series.place)
        y = _TOP + 10 + 20 * index
        if isinstance(chart, Lines):
            items.append(Line(((_RIGHT + 20, y), (_RIGHT + 48, y)), colour, 3.0, DASHES[dash]))
        else:
            items.append(_bar(_RIGHT + 34, y - 6, 14, 12, colour, dash))
        items.append(Text(_RIGHT + 56, y + 4, series.name, _SIZE, WORDS, "ls"))
    height = max(_HEIGHT, _TOP + 20 * len(chart.series) + 20)
    longest = max((font(_SIZE).getlength(drawable(s.name)) for s in chart.series), default=0)
    width = max(_WIDTH, math.ceil(_RIGHT + 56 + longest + 8))
    return Display(width, height, items, chart.title, scale=2)


def _curves(chart: Lines, y_at: Callable[[float], float]) -> list[Item]:
    xs = sorted({point.x for series in chart.series for point in series.points})
    low, high = (math.log(xs[0]), math.log(xs[-1])) if xs else (0.0, 1.0)
    room = _RIGHT - _LEFT - 40

    def x_at(x: float) -> float:
        way = math.log(x) - low
        return _LEFT + 20 + room * (way / (high - low) if high > low else 0.5 + way)

    items: list[Item] = [Text(x_at(x), _BOTTOM + 18, f"{x:g}", _SIZE, WORDS, "ms") for x in xs]
    middle = (_LEFT + _RIGHT) / 2
    items.append(Text(middle, _BOTTOM + 40, chart.x_title, _SIZE, WORDS, "ms"))
    for series, places in zip(chart.series, _drawn_at(chart), strict=True):
        colour, dash = look_of(series.place)
        at = [(x_at(x), y_at(p.y)) for x, p in zip(places, series.points, strict=True)]
        if len(at) > 1:
            items.append(Line(tuple(at), colour, 2.0, DASHES[dash]))
        for (x, y), point in zip(at, series.points, strict=True):
            items.append(Line(((x, y_at(point.low)), (x, y_at(point.high))), colour))
            items.append(Area(((x - 4, y), (x, y - 4), (x + 4, y), (x, y + 4)), colour))
    return items


def _bars(chart: Bars, y_at: Callable[[float], float]) -> list[Item]:
    room = (_RIGHT - _LEFT) / max(len(chart.groups), 1)
    width = 0.86 * room / max(len(chart.series), 1)
    items: list[Item] = [
        Text(_LEFT + room * (i + 0.5), _BOTTOM + 18, name, _SIZE, WORDS, "ms")
        for i, name in enumerate(chart.groups)
    ]
    for index, series in enumerate(chart.series):
        colour, dash = look_of(series.place)
        for point in series.points:
            x = _LEFT + room * (point.x + 0.07) + width * index
            y, middle = y_at(point.y), x + 0.45 * width
            items.append(_bar(x, y, 0.9 * width, _BOTTOM - y, colour, dash))
            items.append(Line(((middle, y_at(point.low)), (middle, y_at(point.high))), WORDS))
    return items


def _bar(x: float, y: float, width: float, height: float, colour: Colour, dash: str) -> Area:
    part = _strength(dash)
    red, green, blue = (
        round(part * own + (1 - part) * ground) for own, ground in zip(colour, WHITE, strict=True)
    )
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return Area(corners, (red, green, blue))
