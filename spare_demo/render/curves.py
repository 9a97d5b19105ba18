"""What is lost, and what changes, against the number of tokens kept: for a browser and for papers.

Shares of right answers over many questions, which have intervals, and their bars are drawn in
`chart`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from spare_demo.render.base import number
from spare_demo.render.chart import AXIS, GRID, INK, PLOTLY_AXIS, PLOTLY_LAYOUT, WORDS, round_ticks
from spare_demo.render.colours import PALETTE, Colour, colours_of
from spare_demo.render.display import Area, Display, Item, Line, Point, Text
from spare_demo.render.text import drawable, font
from spare_demo.table import tokens_word

Curve = Sequence[float | None]
"""One value for each budget; None where there is none, which leaves a gap."""
Look = tuple[Colour, float, tuple[float, float] | None]
"""Colour, width and dash of a line."""
Band = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Mean, lowest and highest of random picks."""

_RANDOM_FILL = "rgba(128,128,128,0.22)"
_EQUAL = 1e-9  # relative errors this close differ by rounding alone

# Of the files.
_HEIGHT = 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 560, 24, 320
_BAND: Colour = (0xE2, 0xE2, 0xE2)
_SIZE = 17  # of text: 6 points where two methods' curves are as wide as a paper's column
_ROW = 22  # of the legend
_SCALE = 3  # PNG pixels per unit
# What tells methods of one colour apart: units drawn and left out. The greys have dashes of theirs.
_DASHES = (None, (10.0, 4.0), (4.0, 4.0), (18.0, 7.0), (2.0, 5.0))
_RANDOM, _BOUND = (2.0, 3.0), (7.0, 4.0)


@dataclass(frozen=True, eq=False)
class CurveChart:
    """A line per method, the band of random picks, and the budget set now as an upright line.

    Attributes:
        budgets: (m,) ascending numbers of tokens kept, >= 1, on a logarithmic axis; at least one.
        series: method label -> (m,) values >= 0; the first is drawn blue, the second vermilion.
            Where one is None there is a gap.
        random: (m,) mean, lowest and highest of random picks.
        budget: the budget set now.
        y_title, file_title: what the values are, beside the words of the page and in a file.
        sentence: the numbers at the budget.
        bound: (m,) least possible values, dashed; None for none.
    """

    budgets: Sequence[int]
    series: Mapping[str, Curve]
    random: Band
    budget: int
    y_title: str
    file_title: str
    sentence: str = ""
    bound: Sequence[float] | None = None

    @property
    def _lines(self) -> list[tuple[str, Curve, Look]]:
        """Every line with its name; a method may have the name of one that is none."""
        lines = [(label, self.series[label], look) for label, look in self._looks.items()]
        lines.append(("random", self.random[0], (AXIS, 1.5, _RANDOM)))
        if self.bound is not None:
            lines.append(("SVD bound", self.bound, (AXIS, 1.5, _BOUND)))
        return lines

    @property
    def figure(self) -> go.Figure:
        """For a browser, readable on a light and on a dark page."""
        mean, low, high = self.random
        band = go.Scatter(
            x=[*self.budgets, *self.budgets[::-1]],
            y=[*high, *low[::-1]],
            fill="toself",
            fillcolor=_RANDOM_FILL,
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
        )
        traces = [band, self._trace("random", mean, INK, "dot")]
        for label, (colour, _, dash) in self._looks.items():
            dashes = "solid" if dash is None else f"{dash[0]:g}px,{dash[1]:g}px"
            paint = f"rgb({','.join(map(str, colour))})"
            traces.append(self._trace(label, self.series[label], paint, dashes, 2.5))
        if self.bound is not None:
            traces.append(self._trace("SVD bound", self.bound, INK, "dash"))
        axis = PLOTLY_AXIS | {"tickcolor": INK, "ticks": "outside"}
        upright = {"type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1}
        upright |= {"x0": self.budget, "x1": self.budget, "line": {"color": INK, "width": 1.5}}
        # Made at once: to update one that exists takes Plotly several times as long.
        layout = go.Layout(
            **PLOTLY_LAYOUT,
            hovermode="x unified",
            margin={"l": 56, "r": 36, "t": 16, "b": 48},
            height=320,
            legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            xaxis={
                **axis,
                "type": "log",
                "tickangle": 0,
                "tickvals": [2**e for e in range(12)],
                # On a phone there is room for every other number.
                "ticktext": ["" if e % 2 else str(2**e) for e in range(12)],
                "title": {"text": "tokens kept (k)"},
            },
            yaxis={**axis, "rangemode": "tozero", "title": {"text": self.y_title}},
            shapes=[upright],
        )
        return go.Figure(traces, layout)

    @property
    def _looks(self) -> dict[str, Look]:
        """Every method's look, by its place."""
        return {
            label: (colour, 2.5, _DASHES[place // len(PALETTE) % len(_DASHES)])
            for place, (label, colour) in enumerate(colours_of(self.series).items())
        }

    def _trace(
        self, name: str, values: Curve, colour: str, dash: str, width: float = 1.5
    ) -> go.Scatter:
        return go.Scatter(
            x=list(self.budgets),
            y=list(values),
            name=name,
            mode="lines",
            line={"color": colour, "width": width, "dash": dash},
            hovertemplate="%{y:.3~g}",
        )

    @property
    def display(self) -> Display:
        """For papers, as PNG and SVG."""
        budgets, (_, low, highest) = self.budgets, self.random
        curves = [curve for _, curve, _ in self._lines]
        values_drawn = [value for curve in (*curves, highest) for value in curve]
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

        items: list[Item] = [Area(points(highest) + points(low)[::-1], _BAND)]
        texts: list[Item] = []  # above all lines
        for tick in ticks:
            y = y_at(tick)
            items.append(Line(((_LEFT, y), (_RIGHT, y)), GRID))
            texts.append(Text(_LEFT - 8, y + 4, f"{tick:.4g}", _SIZE, WORDS, "rs"))
        for k in [2**e for e in range(13) if budgets[0] <= 2**e <= budgets[-1]]:
            items.append(Line(((x_at(k), _BOTTOM), (x_at(k), _BOTTOM + 5)), AXIS))
            texts.append(Text(x_at(k), _BOTTOM + 22, str(k), _SIZE, WORDS, "ms"))
        items.append(Line(((_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)), AXIS))
        if budgets[0] <= self.budget <= budgets[-1]:
            x = x_at(self.budget)
            items.append(Line(((x, _TOP), (x, _BOTTOM)), AXIS, 1.5))
            texts.append(Text(x, _TOP - 8, f"k = {self.budget}", _SIZE, WORDS, "ms"))
        # Of a method inside the language model there may be no line.
        lines = [(name, line, look) for name, curve, look in self._lines if (line := points(curve))]
        for index, (label, line, look) in enumerate(lines):
            items.append(Line(line, *look))
            y = _TOP + 12 + _ROW * index
            items.append(Line(((_RIGHT + 20, y), (_RIGHT + 48, y)), *look))
            texts.append(Text(_RIGHT + 56, y + 5, label, _SIZE, WORDS, "ls"))
        middle = (_LEFT + _RIGHT) / 2
        texts.append(Text(middle, _BOTTOM + 46, "tokens kept (k)", _SIZE, WORDS, "ms"))
        half_way = (_TOP + _BOTTOM) / 2
        texts.append(Text(18, half_way, self.file_title, _SIZE, WORDS, "ms", upright=True))
        longest = max(font(_SIZE).getlength(drawable(label)) for label, *_ in lines)
        width = math.ceil(_RIGHT + 56 + longest + 8)
        height = max(_HEIGHT, _TOP + _ROW * (len(lines) + 1))
        return Display(width, height, [*items, *texts], self.sentence, scale=_SCALE)


def error_chart(
    budgets: Sequence[int],
    series: Mapping[str, Curve],
    random: Band,
    bound: Sequence[float],
    budget: int,
    note: str = "",
) -> CurveChart:
    """Relative error of rebuilding all tokens from the k kept ones, against k.

    bound: (m,) error of the best k directions, which no choice of k tokens can beat. note: what its
    sentence ends with. The other arguments as of `CurveChart`.
    """
    title = "relative error"
    chart = CurveChart(budgets, series, random, budget, title, title, bound=bound)
    numbers, at = _at_budget(chart)
    sentence = (
        f"Relative error of rebuilding all tokens from {numbers}. No choice can be below "
        f"{number(bound[at])}, the SVD bound.{_worse_than_random(chart, at)} {note}"
    )
    return replace(chart, sentence=sentence.strip())


def kl_chart(
    budgets: Sequence[int], series: Mapping[str, Curve], random: Band, budget: int, note: str = ""
) -> CurveChart:
    """How far the first word's distribution moved from the unpruned model's, against k.

    Arguments as of `error_chart`; the values are KL(unpruned || pruned) in nats.
    """
    titles = ("KL (nats)", "KL to the unpruned model (nats)")
    chart = CurveChart(budgets, series, random, budget, *titles)
    sentence = (
        "KL of the first word to the unpruned model, in nats, with "
        f"{_at_budget(chart)[0]}. 0 means that nothing changed. {note}"
    )
    return replace(chart, sentence=sentence.strip())


def nearest_place(budgets: Sequence[int], budget: int) -> int:
    """The place of the budget, or of the nearest one computed: no value is interpolated."""
    return min(range(len(budgets)), key=lambda index: abs(budgets[index] - budget))


def _at_budget(chart: CurveChart) -> tuple[str, int]:
    """How many tokens are kept at the budget and the numbers there, in words; and its place."""
    at = nearest_place(chart.budgets, chart.budget)
    methods = "".join(
        f"{label} {number(value)}, "
        for label, curve in chart.series.items()
        if (value := curve[at]) is not None
    )
    mean, low, high = (number(curve[at]) for curve in chart.random)
    tokens = tokens_word(chart.budgets[at])
    return f"{tokens}: {methods}random picks {mean} on average ({low} to {high})", at


def _worse_than_random(chart: CurveChart, at: int) -> str:
    """A sentence that names the methods whose error is above the mean of random picks, or ""."""
    mean, budget = chart.random[0][at], chart.budgets[at]
    worse = [
        label
        for label, curve in chart.series.items()
        if (error := curve[at]) is not None and error - mean > _EQUAL
    ]
    if not worse:
        return ""
    names = "both" if len(worse) == len(chart.series) == 2 else " and ".join(worse)
    where = "At this budget" if budget == chart.budget else f"With {budget} tokens"
    verb = "do" if len(worse) > 1 else "does"
    return f" {where} {names} {verb} worse than random picks on average."
