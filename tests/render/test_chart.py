"""Curves and bars: the numbers in the figure and in the SVG are those given."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from spare_demo.render.chart import (
    Bars,
    Chart,
    Lines,
    Point,
    Series,
    look_of,
    plotly_figure,
    round_ticks,
    svg,
)
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


def shapes(chart: Chart, tag: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(svg(chart))
    return [node.attrib for node in root.iter() if node.tag.endswith("}" + tag)]


def texts(chart: Chart) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(svg(chart)).iter() if node.tag.endswith("text")]


def test_svg_curves_stand_where_the_numbers_are() -> None:
    circles = [(float(c["cx"]), float(c["cy"])) for c in shapes(LINES, "circle")]
    (x16, y20), (x64, y50), (also_x16, y80), (also_x64, y100) = circles
    # Beside each other, each pair around its tick, or one interval would hide the other.
    ticks = {t.text: float(t.attrib["x"]) for t in texts(LINES) if t.text in ("16", "64")}
    assert 1 < also_x16 - x16 < 8 and x64 - x16 > 100
    assert (x16 + also_x16) / 2 == pytest.approx(ticks["16"], abs=0.2)
    assert (x64 + also_x64) / 2 == pytest.approx(ticks["64"], abs=0.2)
    scale = {t.text: float(t.attrib.get("y", 0)) - 4 for t in texts(LINES)}
    for y, words in ((y20, "20"), (y80, "80"), (y100, "100")):
        assert y == pytest.approx(scale[words], abs=0.11)
    assert (y20 - y50) / (y80 - y100) == pytest.approx(30 / 20, abs=0.02)
    lines = shapes(LINES, "line")
    span = next(a for a in lines if a["x1"] == a["x2"] == f"{x16:.1f}")
    assert (float(span["y1"]) - float(span["y2"])) / (y20 - y50) == pytest.approx(20 / 30, abs=0.02)
    (level,) = (a for a in lines if a["stroke-dasharray"] == "2 3")
    assert float(level["y1"]) == float(level["y2"]) == y100
    above_all = shapes(replace(LINES, levels={"all": 250.0}), "line")
    assert all(float(line["y1"]) > 0 for line in above_all)


def test_svg_bars_stand_in_their_group_as_high_as_their_numbers() -> None:
    one = Series("one", (Point(0, 40, 30, 50), Point(1, 20, 10, 25)))
    both = Bars("", "", ("a", "b"), (one, Series("two", (Point(1, 10, 5, 15),), 9)))
    ground, *bars = shapes(both, "rect")
    assert ground["fill"] == "#fff"
    assert [bars[i]["fill"] for i in (0, 2)] == [swatch["fill"] for swatch in bars[3:]]
    x, wide, high = ([float(bar[of]) for bar in bars[:3]] for of in ("x", "width", "height"))
    unit = high[0] / 40
    assert high == pytest.approx([40 * unit, 20 * unit, 10 * unit], abs=0.11)
    scale = {t.text: t.attrib for t in texts(both)}
    assert float(scale["0"]["y"]) - float(scale["20"]["y"]) == pytest.approx(20 * unit, abs=0.11)
    assert x[0] + wide[0] < x[1] and x[1] + wide[1] < x[2]  # none on another
    assert x[0] < float(scale["a"]["x"]) and x[1] < float(scale["b"]["x"]) < x[2] + wide[2]
    spans = [a for a in shapes(both, "line") if a["stroke"] == "#222"]
    lengths = [float(span["y1"]) - float(span["y2"]) for span in spans]
    assert lengths == pytest.approx([20 * unit, 15 * unit, 10 * unit], abs=0.11)
    assert all(a < float(s["x1"]) < a + w for s, a, w in zip(spans, x, wide, strict=True))


@pytest.mark.parametrize("chart", [LINES, BARS])
def test_svg_is_well_formed_and_names_everything(chart: Chart) -> None:
    text = "".join(ElementTree.fromstring(svg(chart)).itertext())
    for words in (chart.title, chart.y_title, *(series.name for series in chart.series)):
        assert words in text


def test_svg_is_wide_enough_for_a_name_with_many_settings() -> None:
    name = "SPARE (aggregation=max, squash=minmax, statistics=view), each word apart"
    chart = replace(LINES, series=(Series(name, (Point(16, 20, 10, 30),)),))
    (words,) = (t for t in texts(chart) if t.text == name)
    end = float(words.attrib["x"]) + 1.2 * font(12).getlength(name)
    width, _ = ElementTree.fromstring(svg(chart)).attrib["viewBox"].split()[2:]
    assert end < float(width) == float(shapes(chart, "rect")[0]["width"])


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
    assert shapes(empty, "rect")
    assert plotly_figure(empty).data == ()
