"""The SVGs: read back as XML, they show the same tokens, colours and words as the pictures."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.images.preprocess import fit
from spare_demo.pruners.plan import LayerSet
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import BLUE, VERMILION, cividis, hex_of
from spare_demo.render.curves import CurveChart
from spare_demo.render.display import Display, Text
from spare_demo.render.legend import DROPPED, PHOTO
from spare_demo.render.maps import heatmap, pick_order
from spare_demo.render.marks import Outline
from spare_demo.render.overlay import difference, kept_overlay, layer_overlay, merged_overlay
from spare_demo.render.text import drawable, font

SVG = "{http://www.w3.org/2000/svg}"
ODD = "A <b> & “B”"


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    noise = np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8)
    photo = Image.fromarray(noise)
    return Canvas(photo, fit(photo, 56, 14, "pad", (0, 0, 0))[1])


def read(text: str) -> ET.Element:
    root = ET.fromstring(text)
    assert root.attrib["role"] == "img"
    return root


def words(root: ET.Element) -> list[str | None]:
    return [part.text for part in root.iter(f"{SVG}text")]


def ground(root: ET.Element) -> np.ndarray:
    (image,) = root.iter(f"{SVG}image")
    data = image.attrib["href"].removeprefix("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def outline_entry(root: ET.Element, canvas: Canvas, colour: str) -> set[int]:
    """The tokens that a path of this colour goes around."""
    found = set()
    for path in root.iter(f"{SVG}path"):
        if path.attrib.get("fill") == colour:
            for x, y in re.findall(r"M(\d+) (\d+)h", path.attrib["d"]):
                for token in range(canvas.grid.n):
                    x0, y0, x1, y1 = canvas.rectangle(token)
                    if x0 <= float(x) < x1 and y0 <= float(y) < y1:
                        found.add(token)
    return found


def test_merged(canvas: Canvas) -> None:
    sources = torch.zeros(3, canvas.grid.n)
    sources[0, 3] = 1
    sources[1, [5, 6, 7]] = torch.tensor([1, 0.5, 0.5])
    sources[2, [8, 9]] = 0.5
    drawn = merged_overlay(canvas, sources, [5, 3], VERMILION, ODD)
    root = read(drawn.svg)
    assert outline_entry(root, canvas, "#d55e00") == {3, 5}
    assert words(root) == [
        *("unchanged 1", "others mixed in 1", "only mixed in 4", "unused 10"),
        f"{ODD}: 3 merged tokens of 16, 1 of no single patch",
    ]
    (title,) = root.iter(f"{SVG}title")
    assert title.text == drawn.sentence
    x0, y0, x1, y1 = canvas.rectangle(8)  # half bright in both
    assert (ground(root)[y0:y1, x0:x1] == np.asarray(drawn.image)[y0:y1, x0:x1]).all()
    # The hatch lies in the corner of the one that others were mixed into.
    hatch, _ = (p for p in root.iter(f"{SVG}path") if "L" in p.attrib["d"])  # and the legend's
    left, top, right, _ = canvas.rectangle(5)
    for x, y in re.findall(r"L([\d.]+) ([\d.]+)", hatch.attrib["d"]):
        assert left < float(x) <= right and top < float(y)


def test_kept(canvas: Canvas) -> None:
    drawn = kept_overlay(canvas, [3, 9], BLUE, ODD)
    root = read(drawn.svg)
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == drawn.sentence
    assert outline_entry(root, canvas, "#0072b2") == {3, 9}
    assert words(root)[:2] == [f"{ODD} kept 2", "dropped 14"]
    flags = np.zeros(16, bool)
    flags[[3, 9]] = True
    np.testing.assert_array_equal(ground(root), np.asarray(canvas.keep(flags)))


@pytest.mark.parametrize("inset", [0, 3])
def test_outlines_have_the_same_pixels_in_both(canvas: Canvas, inset: int) -> None:
    flags = np.zeros(16, bool)
    flags[[0, 1, 4, 6, 11, 15]] = True  # neighbours, a corner only, and one alone
    line = Outline(canvas, flags, BLUE, 5, inset)
    drawn = Image.new("RGB", canvas.size)
    line.paint(drawn, 1)
    filled = np.zeros_like(np.asarray(drawn))
    for bar in re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)", line.svg()):
        x, y, width, height = map(int, bar)
        filled[y : y + height, x : x + width] = BLUE
    np.testing.assert_array_equal(filled, np.asarray(drawn))


def test_a_layer(canvas: Canvas) -> None:
    sources = torch.zeros(1, canvas.grid.n)
    sources[0, [5, 7, 9]] = 1 / 3
    drawn = layer_overlay(canvas, LayerSet(2, torch.tensor([0, 5]), sources), 2, 6, BLUE, ODD)
    root = read(drawn.svg)
    assert outline_entry(root, canvas, "#0072b2") == {0, 5}
    assert words(root) == [
        *(f"{ODD} still has 2", "merged 2 into 1 row", "dropped 12"),
        "layer 3 of 6: 3 of 16 rows",
    ]
    hatch, _ = (p for p in root.iter(f"{SVG}path") if "L" in p.attrib["d"])  # and the legend's
    squares = [r.attrib["fill"] for r in root.iter(f"{SVG}rect") if r.attrib["fill"] != "none"]
    bright, dark = hex_of(PHOTO), hex_of(DROPPED)  # as on the picture
    assert squares[1:4] == [bright, dark, dark]
    corners = {canvas.rectangle(token)[2] for token in (7, 9)}
    assert {float(x) for x, _ in re.findall(r"L([\d.]+) ([\d.]+)", hatch.attrib["d"])} == corners
    (title,) = root.iter(f"{SVG}title")
    assert title.text == drawn.sentence
    plain = read(layer_overlay(canvas, LayerSet(2, torch.tensor([0])), 2, 6, BLUE, ODD).svg)
    assert words(plain)[:2] == [f"{ODD} still has 1", "dropped 15"]


def test_difference(canvas: Canvas) -> None:
    root = read(difference(canvas, [1, 2], [2, 5, 6], "SPARE", "CDPruner").svg)
    assert outline_entry(root, canvas, "#0072b2") == {1}
    assert outline_entry(root, canvas, "#d55e00") == {5, 6}
    assert outline_entry(root, canvas, "#ffffff") == {2}
    assert words(root)[:4] == ["both 1", "only SPARE 1", "only CDPruner 2", "neither 12"]
    marks = (p for p in root.iter(f"{SVG}path") if "H" in p.attrib["d"])
    corners = [p for p in marks if p.attrib.get("fill") == "#d55e00"]
    assert [p.attrib["d"].count("M") for p in corners] == [2, 1]  # two tokens, and the legend's
    none = read(difference(canvas, [], [], "a", "b").svg)
    assert outline_entry(none, canvas, "#0072b2") == set()


def test_order(canvas: Canvas) -> None:
    root = read(pick_order(canvas, [9, 3, 4], VERMILION, "B").svg)
    filled = [r for r in root.iter(f"{SVG}rect") if r.attrib.get("fill-opacity") == "0.8"]
    corners = [(int(r.attrib["x"]), int(r.attrib["y"])) for r in filled]
    assert corners == [canvas.rectangle(token)[:2] for token in (3, 4, 9)]
    x0, y0, x1, y1 = canvas.rectangle(9)  # below the colour as bright as in the picture
    assert (ground(root)[y0:y1, x0:x1] == np.asarray(canvas.grey)[y0:y1, x0:x1]).all()
    assert words(root) == ["1", "2", "3", "B: order of the 3 tokens kept", "first (1)", "last (3)"]
    on_dark, _, on_light, *_ = (part.attrib["fill"] for part in root.iter(f"{SVG}text"))
    assert (on_dark, on_light) == ("#ffffff", "#000000")
    assert "2" not in words(read(pick_order(canvas, [9], VERMILION, "B").svg))


def test_map(canvas: Canvas) -> None:
    values = np.linspace(-0.1, 0.3, 16)
    root = read(heatmap(canvas, values, ODD, "High is more.").svg)
    filled = [r for r in root.iter(f"{SVG}rect") if r.attrib.get("fill-opacity") == "0.55"]
    shades = [tuple(bytes.fromhex(r.attrib["fill"][1:])) for r in filled]
    np.testing.assert_array_equal(shades, cividis((values + 0.1) / 0.4))
    assert words(root) == [f"{ODD}. High is more.", "-0.100", "0", "mean +0.100", "+0.300"]
    np.testing.assert_array_equal(ground(root), np.asarray(canvas.grey))
    close = np.zeros(16)
    close[3] = 1.0
    places = [
        float(part.attrib["x"])
        for part in read(heatmap(canvas, close, "t", "m.").svg).iter(f"{SVG}text")
    ]
    assert places[2] - places[1] > 3 * canvas.size[0] // 46  # the mean stands beside the zero
    flat = words(read(heatmap(canvas, np.ones(16), "t", "m.").svg))
    assert flat == ["t. m.", "1.00", "mean 1.00"]
    shared = words(read(heatmap(canvas, np.full(16, 0.5), "t", "m.", (0.0, 1.0)).svg))
    assert shared == ["t. m.", "0", "mean 0.50", "1.00"]


def shown(bound: list[float] | None = None) -> Display:
    series = {"SPARE": [1.0, 0.5, 0.0], "CDPruner": [0.8, 0.25, 0.0]}
    band = ([0.95, 0.65, 0.0], [0.8, 0.5, 0.0], [1.0, 0.7, 0.0])
    return CurveChart([1, 4, 16], series, band, 4, "y", "relative error", "x", bound).display


def test_curve() -> None:
    root = read(shown([0.5, 0.1, 0.0]).svg)
    lines = {
        part.attrib["stroke"]: [
            tuple(float(v) for v in point.split(",")) for point in part.attrib["points"].split()
        ]
        for part in root.iter(f"{SVG}polyline")
        if len(part.attrib["points"].split()) == 3
    }
    a = lines["#0072b2"]
    assert [x for x, _ in a] == pytest.approx([64, 312, 560])  # logarithmic: 4 is in the middle
    assert [y for _, y in a] == pytest.approx([24, 172, 320])
    assert lines["#d55e00"][1][1] == pytest.approx(246)
    named = {"SPARE", "CDPruner", "random", "SVD bound", "k = 4", "16", "relative error"}
    assert named | {"tokens kept (k)"} <= set(words(root))
    assert "SVD bound" not in words(read(shown().svg))


def test_the_curve_as_a_picture_has_its_lines_where_the_svg_has_them() -> None:
    display = shown([0.5, 0.1, 0.0])
    pixels = np.asarray(display.image)
    assert pixels.shape == (1140, 3 * display.width, 3)
    # Half way from (64, 24) to (312, 172) of SPARE's line, in threefold pixels.
    assert tuple(pixels[98 * 3, 188 * 3]) == BLUE
    # Half way between CDPruner's second and last point.
    assert tuple(pixels[283 * 3, 436 * 3]) == VERMILION
    assert tuple(pixels[246 * 3, 311 * 3]) in (VERMILION, (0x55, 0x55, 0x55))
    # The dashes of the bound are broken: both ink and ground are met along it.
    row = pixels[int((172 + (290.4 - 172) * 0.25) * 3), (126 * 3) - 8 : (126 * 3) + 8]
    assert len({tuple(pixel) for pixel in row}) > 1
    # Words left of the axis, read upwards: ink in a tall narrow strip.
    strip = pixels[300:900, 10:70]
    inked = np.argwhere((strip < 100).all(axis=-1))
    assert np.ptp(inked[:, 0]) > 3 * np.ptp(inked[:, 1])


def test_curves_of_many_methods_are_all_named_within_the_picture_and_look_different() -> None:
    names = [*(f"A method with a long name, {index}" for index in range(30)), "random"]
    series = {name: [1.0, 0.5] for name in names} | {"without a line": [None, None]}
    band = ([0.95, 0.65], [0.8, 0.5], [1.0, 0.7])
    chart = CurveChart([1, 4], series, band, 4, "y", "y")
    root = read(chart.display.svg)
    named = {part.text: part for part in root.iter(f"{SVG}text") if part.text in series}
    assert list(named) == names
    for part in named.values():
        end = float(part.attrib["x"]) + float(part.attrib["textLength"])
        assert end <= float(root.attrib["width"])
        assert float(part.attrib["y"]) <= float(root.attrib["height"])
    looks = [
        (part.attrib["stroke"], part.attrib.get("stroke-dasharray"))
        for part in root.iter(f"{SVG}polyline")
        if part.attrib["points"].startswith("580.0,")  # the legend's
    ]
    assert len(set(looks)) == len(names) + 1  # and random's
    traces = [(trace.line.color, trace.line.dash) for trace in chart.figure.data[1:]]
    assert len(set(traces)) == len(traces)


@pytest.mark.parametrize("text", ["cut off…", "été", "слово", "漢字", "हिन्दी"])
def test_words_are_as_wide_as_in_the_png_in_any_letters(text: str) -> None:
    (part,) = ET.fromstring(f"<g>{Text(0, 0, text, 40, BLUE).svg()}</g>")
    assert part.text == text
    assert float(part.attrib["textLength"]) == font(40).getlength(drawable(text))


def test_a_curve_of_zeros_is_drawn() -> None:
    zero = [0.0, 0.0]
    chart = CurveChart([1, 2], {"a": zero}, (zero, zero, zero), 1, "y", "y")
    assert "polyline" in chart.display.svg


def test_what_lies_around_the_tokens_is_in_the_legend_and_nothing_is_cut_off() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (84, 28, 3), dtype=np.uint8)
    photo = Image.fromarray(noise)
    padded = Canvas(photo, fit(photo, 84, 14, "pad", (0, 0, 0))[1])
    assert padded.grid.padding.any()
    root = read(difference(padded, [0, 7], [7, 20], "A", "B").svg)
    assert words(root)[:5] == ["both 1", "only A 1", "only B 1", "neither 33", "padding"]
    _, swatch = root.iter(f"{SVG}image")
    height, width = float(root.attrib["height"]), float(root.attrib["width"])
    for part in (*root.iter(f"{SVG}text"), *root.iter(f"{SVG}rect"), swatch):
        assert float(part.attrib.get("y", 0)) + float(part.attrib.get("height", 0)) <= height
        assert float(part.attrib.get("x", 0)) < width
