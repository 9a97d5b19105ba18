"""Curves and bars: the numbers in the figure and in the SVG are those given."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from spare_demo.render.chart import (
    AXIS,
    WORDS,
    Bars,
    Chart,
    Lines,
    Point,
    Series,
    display,
    look_of,
    plotly_figure,
    round_ticks,
)
from spare_demo.render.colours import BLUE, Colour
from spare_demo.render.display import Area, Line, Text
from spare_demo.render.text import font

LINES = Lines(
    "A < B",
    "tokens",
    "right, %",
    (
        Series("one", (Point(16, 20, 10, 30), Point(64, 50, 45, 60))),
        Series("two & more", (Point(16, 80, 80, 80), Point(64, 100, 90, 100))),
    ),
    {"all": 100.0},
)
BARS = Bars("Bars", "%", ("1 skill", "2 skills"), (Series("one", (Point(1, 40, 30, 50),)),))


def lines_of(chart: Chart, colour: Colour) -> list[Line]:
    return [i for i in display(chart).items if isinstance(i, Line) and i.colour == colour]


def areas_of(chart: Chart) -> list[list[float]]:
    """Left, upper, right and lower end of each."""
    areas = [np.array(item.points) for item in display(chart).items if isinstance(item, Area)]
    return [[*points.min(axis=0), *points.max(axis=0)] for points in areas]


def texts_of(chart: Chart) -> dict[str, Text]:
    return {item.words: item for item in display(chart).items if isinstance(item, Text)}


def test_curves_of_a_file_stand_where_the_numbers_are() -> None:
    marks = [((x0 + x1) / 2, (y0 + y1) / 2) for x0, y0, x1, y1 in areas_of(LINES)]
    (x16, y20), (x64, y50), (also_x16, y80), (also_x64, y100) = marks
    texts = texts_of(LINES)
    # Beside each other, each pair around its tick, or one interval would hide the other.
    assert 1 < also_x16 - x16 < 8 and x64 - x16 > 100
    assert (x16 + also_x16) / 2 == pytest.approx(texts["16"].x, abs=0.2)
    assert (x64 + also_x64) / 2 == pytest.approx(texts["64"].x, abs=0.2)
    for y, words in ((y20, "20"), (y80, "80"), (y100, "100")):
        assert y == pytest.approx(texts[words].y - 4)
    assert (y20 - y50) / (y80 - y100) == pytest.approx(30 / 20)
    curve, low_to_high, *_ = lines_of(LINES, BLUE)
    assert curve.points == ((x16, y20), (x64, y50))
    (x, low), (also_x, high) = low_to_high.points
    assert x == also_x == x16 and (low - high) / (y20 - y50) == pytest.approx(20 / 30)
    (level,) = (line for line in lines_of(LINES, AXIS) if line.dash)
    assert [y for _, y in level.points] == [y100, y100]
    above_all = lines_of(replace(LINES, levels={"all": 250.0}), AXIS)
    assert all(y > 0 for line in above_all for _, y in line.points)


def test_bars_of_a_file_stand_in_their_group_as_high_as_their_numbers() -> None:
    one = Series("one", (Point(0, 40, 30, 50), Point(1, 20, 10, 25)))
    both = Bars("", "", ("a", "b"), (one, Series("two", (Point(1, 10, 5, 15),), 9)))
    bars = areas_of(both)[:3]
    colours = [item.colour for item in display(both).items if isinstance(item, Area)]
    assert [colours[0], colours[2]] == colours[3:]  # of the swatches
    high = [lower - upper for _, upper, _, lower in bars]
    unit = high[0] / 40
    assert high == pytest.approx([40 * unit, 20 * unit, 10 * unit])
    texts = texts_of(both)
    assert texts["0"].y - texts["20"].y == pytest.approx(20 * unit)
    assert bars[0][2] < bars[1][0] and bars[1][2] < bars[2][0]  # none on another
    assert bars[0][0] < texts["a"].x and bars[1][0] < texts["b"].x < bars[2][2]
    spans = [line.points for line in lines_of(both, WORDS)]
    lengths = [low - high for (_, low), (_, high) in spans]
    assert lengths == pytest.approx([20 * unit, 15 * unit, 10 * unit])
    assert all(bar[0] < span[0][0] < bar[2] for span, bar in zip(spans, bars, strict=True))


@pytest.mark.parametrize("chart", [LINES, BARS])
def test_a_file_is_well_formed_and_names_everything(chart: Chart) -> None:
    shown = display(chart)
    text = "".join(ElementTree.fromstring(shown.svg).itertext())
    for words in (chart.title, chart.y_title, *(series.name for series in chart.series)):
        assert words in text
    assert shown.image.size == (2 * shown.width, 2 * shown.height)


def test_a_file_is_wide_enough_for_a_name_with_many_settings() -> None:
    name = "SPARE (aggregation=max, squash=minmax, statistics=view), each word apart"
    chart = replace(LINES, series=(Series(name, (Point(16, 20, 10, 30),)),))
    words = texts_of(chart)[name]
    assert words.x + font(words.size).getlength(name) < display(chart).width


def test_the_browser_gets_the_same_numbers() -> None:
    one, two = plotly_figure(LINES).data
    assert list(one.y) == [20, 50]
    for x, other_x, tick in zip(one.x, two.x, (16, 64), strict=True):
        assert x < tick < other_x and x * other_x == pytest.approx(tick**2)
    assert list(plotly_figure(LINES).layout.xaxis.tickvals) == [16, 64]
    assert (list(one.error_y.array), list(one.error_y.arrayminus)) == ([10, 10], [10, 5])
    assert two.name == "two & more"
    assert plotly_figure(LINES).layout.shapes[0].y0 == 100
    (bar,) = plotly_figure(BARS).data
    assert bar.hovertemplate == "%{y:.4~g}"  # an error of 3e-5 is no 0, nor 99.96 a 100
    assert (list(bar.x), list(bar.y)) == (["2 skills"], [40])
    twins = replace(BARS, series=(*BARS.series, replace(BARS.series[0], place=8)))
    one, other = (bar.marker for bar in plotly_figure(twins).data)
    assert one.color != other.color and one.opacity is other.opacity is None  # as the legend has it


@pytest.mark.parametrize("top", [3e-12, 1e-3, 0.2, 0.999, 1.0, 7, 100, 2345.6])
def test_ticks_are_few_and_reach_the_top(top: float) -> None:
    ticks = round_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-9)
    assert 3 <= len(ticks) <= 6
    first = ticks[1] / 10 ** math.floor(math.log10(ticks[1]) + 1e-9)
    assert first == pytest.approx(1) or first == pytest.approx(2) or first == pytest.approx(5)


def test_no_two_series_look_alike() -> None:
    assert len({look_of(i) for i in range(32)}) == 32


def test_a_chart_without_points_is_still_one() -> None:
    empty = Lines("t", "x", "y", ())
    assert texts_of(empty)["t"]
    assert plotly_figure(empty).data == ()
