"""Pictures are read back pixel by pixel; sentences must carry the same numbers."""

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

from spare_demo.images.geometry import Grid, tile_grids
from spare_demo.images.preprocess import fit
from spare_demo.render.base import number
from spare_demo.render.canvas import DIM, Canvas
from spare_demo.render.colours import BLUE, VERMILION, cividis, hue_ramp
from spare_demo.render.curves import error_chart
from spare_demo.render.display import Text
from spare_demo.render.maps import heatmap, pick_order, side_by_side
from spare_demo.render.marks import line_width
from spare_demo.render.overlay import difference, kept_overlay
from spare_demo.render.text import drawable, font, shorten

MEAN = (122, 116, 104)
EDGE = 6  # canvas pixels: no outline reaches further into a token


def make_canvas(width, height, aspect="pad", size=96, patch=8):
    seed = np.random.default_rng(width + height)
    photo = Image.fromarray(seed.integers(0, 256, (height, width, 3), dtype=np.uint8))
    return Canvas(photo, fit(photo, size, patch, aspect, MEAN)[1])


@pytest.fixture(scope="module")
def wide():
    """144 tokens; the three top and bottom rows lie in padding."""
    return make_canvas(240, 120)


def cells(canvas, picture):
    return canvas.cells(np.array(picture))


def interior(canvas, picture, token):
    row, col = divmod(token, canvas.grid.cols)
    return cells(canvas, picture)[row, col, EDGE:-EDGE, EDGE:-EDGE]


def is_hatch(pixels):
    return set(np.unique(pixels)) == {192, 226}


INSIDE, ALSO_INSIDE, PADDED = 6 * 12 + 5, 6 * 12 + 6, 1 * 12 + 2


@pytest.mark.parametrize("size", [(240, 120), (30, 90), (1, 1), (1600, 1200), (7, 3), (336, 336)])
@pytest.mark.parametrize("aspect", ["pad", "crop"])
def test_canvas_size_and_geometry(size, aspect):
    canvas = make_canvas(*size, aspect, size=336, patch=14)
    assert 600 <= max(canvas.size) <= 1008
    assert canvas.image.size == canvas.dim.size == canvas.grey.size == canvas.size
    boxes = canvas.grid.boxes.numpy()
    per_pixel = canvas.patch / (boxes[0, 2:] - boxes[0, :2])
    for token in (0, 23, 300, 575):
        x0, y0, x1, y1 = canvas.rectangle(token)
        assert (x1 - x0, y1 - y0) == (canvas.patch, canvas.patch)
        from_first = np.subtract((x0, y0), canvas.rectangle(0)[:2])
        np.testing.assert_allclose(from_first, (boxes[token] - boxes[0])[:2] * per_pixel, atol=1e-6)


def test_canvas_shows_the_photo_where_the_boxes_say():
    photo = Image.new("RGB", (300, 200), (10, 200, 30))
    photo.paste((250, 0, 0), (100, 50, 150, 100))
    canvas = Canvas(photo, fit(photo, 96, 8, "pad", MEAN)[1])
    first, last = 4 * 12 + 4, 5 * 12 + 5  # the corners of the red square
    assert canvas.grid.boxes[first, :2].tolist() == pytest.approx((100, 50))
    assert canvas.grid.boxes[last, 2:].tolist() == pytest.approx((150, 100))
    left, top = canvas.rectangle(first)[:2]
    right, bottom = canvas.rectangle(last)[2:]
    assert canvas.image.getpixel((left + 3, top + 3)) == (250, 0, 0)
    assert canvas.image.getpixel((right - 4, bottom - 4)) == (250, 0, 0)
    assert canvas.image.getpixel((left - 4, top - 4)) == (10, 200, 30)
    assert canvas.image.getpixel((right + 3, bottom + 3)) == (10, 200, 30)


def test_a_small_photo_is_enlarged_without_smoothing():
    canvas = make_canvas(9, 9)
    assert len(np.unique(np.asarray(canvas.image).reshape(-1, 3), axis=0)) <= 81


def test_margins_cut_by_a_crop_are_pale_on_every_picture():
    canvas = make_canvas(300, 200, "crop")
    assert canvas.cropped
    x0 = canvas.origin[0]
    assert x0 > 20
    for picture in (canvas.image, canvas.dim, canvas.grey):
        margin = np.asarray(picture)[:, : x0 - 1]
        assert margin.min() >= 185
        assert not is_hatch(margin)


def test_a_long_strip_still_shows_its_tokens():
    canvas = make_canvas(4000, 20, "crop")
    assert canvas.patch * canvas.grid.cols >= max(canvas.size) // 2 - canvas.grid.cols


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array])
def test_overlay_kept_untouched_dropped_dimmed_padding_hatched(wide, kind):
    display = kept_overlay(wide, kind([INSIDE, PADDED]), BLUE, "SPARE")
    picture, sentence = display.image, display.sentence
    kept = interior(wide, picture, INSIDE)
    np.testing.assert_array_equal(kept, interior(wide, wide.image, INSIDE))
    dropped = interior(wide, picture, ALSO_INSIDE).astype(float)
    original = interior(wide, wide.image, ALSO_INSIDE).astype(float)
    expected = original @ (0.299, 0.587, 0.114) * DIM
    np.testing.assert_allclose(dropped, expected[..., None].repeat(3, axis=-1), atol=0.51)
    for token in (PADDED, PADDED + 1):
        assert is_hatch(interior(wide, picture, token))
    assert sentence == "SPARE kept 2 of 144 tokens; 1 of them lies in padding."
    *_, note = (item.words for item in display.items if isinstance(item, Text))
    assert note == "1.4% of the tokens, 1 in padding"


def test_overlay_outlines_exactly_the_kept(wide):
    picture = kept_overlay(wide, [INSIDE, PADDED], VERMILION, "x").image
    edges = cells(wide, picture)[:, :, 0, :].reshape(144, -1, 3)
    outline_entry = np.flatnonzero((edges == VERMILION).all(axis=(1, 2)))
    assert outline_entry.tolist() == sorted([INSIDE, PADDED])


def test_an_outline_is_as_wide_as_said_and_shared_between_neighbours(wide):
    width = line_width(wide.patch)
    picture = kept_overlay(wide, [INSIDE, ALSO_INSIDE], BLUE, "x").image
    row, col = divmod(INSIDE, 12)
    middle = wide.patch // 2
    line = cells(wide, picture)[row, col : col + 2, middle].reshape(-1, 3)
    blue = np.flatnonzero((line == BLUE).all(axis=1))
    p, half = wide.patch, max(1, width // 2)
    expected = [*range(width), *range(p - half, p + half), *range(2 * p - width, 2 * p)]
    assert blue.tolist() == expected


def test_overlay_with_nothing_or_everything_kept(wide):
    assert kept_overlay(wide, [], BLUE, "x").sentence.startswith("x kept 0 of 144 tokens; 0 of")
    everything = kept_overlay(wide, range(144), BLUE, "x")
    np.testing.assert_array_equal(
        interior(wide, everything.image, 77), interior(wide, wide.image, 77)
    )


def test_without_padding_the_sentence_does_not_speak_of_it():
    canvas = make_canvas(100, 100)
    assert kept_overlay(canvas, [1], BLUE, "x").sentence == "x kept 1 of 144 tokens."


def test_difference_tells_the_four_classes_apart(wide):
    both, a, b, neither = 60, 62, 64, 66
    result = difference(wide, [both, a], [b, both], "SPARE", "CDPruner")
    picture = result.image
    for token in (both, a):
        np.testing.assert_array_equal(
            interior(wide, picture, token), interior(wide, wide.image, token)
        )
    np.testing.assert_array_equal(
        interior(wide, picture, neither), interior(wide, wide.dim, neither)
    )
    row, cut = 5, slice(EDGE, -EDGE)
    top = {
        token: cells(wide, picture)[row, token % 12, :, wide.patch // 2] for token in (both, a, b)
    }
    assert (top[both][0] == (0, 0, 0)).all()
    assert (top[both][1] == (255, 255, 255)).all()
    assert (top[a][0] == BLUE).all()
    assert (top[b][0] == VERMILION).all()
    # Only B: its colour behind white in the top right corner, and an untouched rest.
    cell, original = cells(wide, picture)[row, b % 12], cells(wide, wide.image)[row, b % 12]
    changed = (cell[cut, cut] != original[cut, cut]).any(axis=-1)
    y, x = np.nonzero(changed)
    assert len(y) > 10
    colours = {tuple(map(int, colour)) for colour in cell[cut, cut][y, x]}
    assert colours == {VERMILION, (255, 255, 255)}
    assert (x - y > 0).all()


def test_difference_counts_in_sentence_and_legend(wide):
    result = difference(wide, [0, 1, 70, 71], [70, 72], "SPARE", "CDPruner")
    *entries, note = [item.words for item in result.items if isinstance(item, Text)]
    assert entries == ["both 1", "only SPARE 3", "only CDPruner 1", "neither 139", "padding"]
    assert note == "Jaccard 0.20 (two random picks: 0.01)"
    assert result.sentence == (
        "SPARE keeps 4 tokens and CDPruner 2, 1 of them in common. "
        "2 of SPARE's and 0 of CDPruner's lie in padding. "
        "Jaccard 0.20 (two random picks: 0.01)."
    )
    assert result.image.size[0] == wide.size[0]
    assert result.image.size[1] > wide.size[1]
    equal = difference(wide, [70, 71], [70, 72], "SPARE", "CDPruner")
    assert equal.sentence.startswith("SPARE and CDPruner keep 1 of their 2 tokens in common. ")


def test_all_pictures_of_a_canvas_have_one_size(wide):
    pictures = [
        kept_overlay(wide, [1], BLUE, "SPARE"),
        difference(wide, [1], [2], "SPARE", "CDPruner"),
        pick_order(wide, [1, 2], BLUE, "SPARE"),
        heatmap(wide, np.arange(144.0), "Length", "High means long."),
    ]
    assert len({rendered.image.size for rendered in pictures}) == 1


def test_heatmap_colours_are_raw_values_on_grey(wide):
    values = torch.linspace(-1, 1, 144, dtype=torch.float16)
    result = heatmap(wide, values, "Raw cosine", "High means similar.")
    picture = result.image
    shares = (values.double().numpy() + 1) / 2
    expected = cividis(shares).reshape(12, 12, 1, 1, 3) * 0.55 + cells(wide, wide.grey) * 0.45
    np.testing.assert_allclose(cells(wide, picture), expected, atol=1)
    assert result.sentence.startswith("Raw cosine: from -1.00 to +1.00, mean ")
    assert result.sentence.endswith("High means similar.")


def test_a_shared_range_gives_equal_values_equal_colours(wide):
    low, high = np.full(144, 1.0), np.full(144, 1.0)
    low[0], high[0] = 0, 4
    one, two = (
        heatmap(wide, values, "Length", "High means long.", value_range=(0, 4))
        for values in (low, high)
    )
    for token in (1, INSIDE):
        np.testing.assert_array_equal(
            interior(wide, one.image, token), interior(wide, two.image, token)
        )
    assert (interior(wide, one.image, 0) != interior(wide, two.image, 0)).any()
    assert "The colours run from 0 to 4.00." in one.sentence


def test_a_constant_map_and_wrong_maps(wide):
    assert "from 3.00 to 3.00" in heatmap(wide, np.full(144, 3.0), "Length", "Yes.").sentence
    with pytest.raises(ValueError, match="144 values"):
        heatmap(wide, [1.0], "Length", "")
    with pytest.raises(ValueError, match="not a finite number"):
        heatmap(wide, np.full(144, np.nan), "Length", "")


def test_order_runs_from_dark_to_light_and_is_numbered_while_few(wide):
    order = [INSIDE, PADDED, 3, 9, 80]
    result = pick_order(wide, order, BLUE, "SPARE")
    brightness = [interior(wide, result.image, token)[0, 0].astype(int).sum() for token in order]
    assert brightness[0] < brightness[2] < brightness[4]
    digits = [len(np.unique(interior(wide, result.image, t).reshape(-1, 3), axis=0)) for t in order]
    assert min(digits) > 8  # the antialiased number on each
    assert "the first is row 7, column 6; padding is first picked at rank 2" in result.sentence
    many = pick_order(wide, np.random.default_rng(0).permutation(144)[:65], BLUE, "SPARE")
    flat = [token for token in range(36) if not is_hatch(interior(wide, many.image, token))]
    colours = [len(np.unique(interior(wide, many.image, t).reshape(-1, 3), axis=0)) for t in flat]
    assert max(colours) == 2  # padding's hatch showing through, and no digits


def test_order_of_nothing_and_of_one(wide):
    assert pick_order(wide, [], BLUE, "x").sentence == "x picked 0 of 144 tokens."
    assert "none lies in padding" in pick_order(wide, [INSIDE], BLUE, "x").sentence


def test_cividis_at_its_ends_and_rising():
    table = cividis(np.linspace(0, 1, 256)).astype(int)
    assert table[0].tolist() == [0, 34, 78]
    assert table[-1].tolist() == [254, 232, 56]
    luma = table @ [0.299, 0.587, 0.114]
    assert (np.diff(luma) > -0.5).all()
    assert luma[-1] - luma[0] > 150
    ramp = hue_ramp(VERMILION, np.linspace(0, 1, 9)).astype(int) @ [0.299, 0.587, 0.114]
    assert (np.diff(ramp) > 0).all()


def test_numbers():
    written = [number(value) for value in (0, 0.1234, -12.345, 123456.0, 1e-9, 0.99999)]
    assert written == ["0", "0.123", "-12.3", "123456", "1.00e-09", "1.000"]
    assert number(0.0123, signed=True, scale=0.4) == "+0.012"
    assert [number(v, signed=True, scale=3.0) for v in (-0.001, 0.001)] == ["0.00", "0.00"]


def test_drawn_text_has_only_letters_of_the_font():
    assert drawable("ρ ≤ 3 × é… я 漢 한") == "rho <= 3 x e... ? ?? ??"
    assert shorten("a long label of a method", 80, 16).endswith("…")
    assert font(16).getlength(shorten("a long label of a method", 80, 16)) <= 80


def test_bar_labels_never_overlap():
    points, widths = [10.0, 11.0, 12.0, 299.0, 300.0], [40.0, 20.0, 80.0, 40.0, 40.0]
    centres = side_by_side(points, widths, 10, 300, 5)
    starts = [c - w / 2 for c, w in zip(centres, widths, strict=True)]
    ends = [c + w / 2 for c, w in zip(centres, widths, strict=True)]
    assert starts[0] >= 10
    assert ends[-1] <= 300
    assert all(end + 5 <= start for end, start in zip(ends[:-1], starts[1:], strict=True))


def test_drawing_leaves_the_canvas_and_the_input_alone(wide):
    before = [picture.tobytes() for picture in (wide.image, wide.dim, wide.grey)]
    values, order = np.arange(144.0), torch.tensor([5, 3])
    kept_overlay(wide, order, BLUE, "x")
    difference(wide, order, [1], "x", "y")
    heatmap(wide, values, "v", "High is high.")
    pick_order(wide, order, BLUE, "x")
    assert [picture.tobytes() for picture in (wide.image, wide.dim, wide.grey)] == before
    assert order.tolist() == [5, 3]
    assert values.tolist() == list(range(144))


KS = [1, 8, 32, 128]
FALL = [0.9, 0.7, 0.5, 0.2]


def fall(above: float) -> list[float]:
    return [value + above for value in FALL]


def curve_figure(**changes):
    arguments = {
        "budgets": KS,
        "series": {"SPARE": FALL, "CDPruner": fall(0.05)},
        "random": (fall(0.1), fall(0.08), fall(0.12)),
        "bound": fall(-0.1),
        "budget": 32,
    }
    return error_chart(**{**arguments, **changes})


def test_curves_hold_the_numbers_in_the_methods_colours():
    chart = curve_figure()
    figure = chart.figure
    assert isinstance(figure, go.Figure)
    lines = {trace.name: trace for trace in figure.data if trace.name}
    assert set(lines) == {"random", "SPARE", "CDPruner", "SVD bound"}
    assert lines["SPARE"].line.color == "rgb(0,114,178)"
    assert lines["CDPruner"].line.color == "rgb(213,94,0)"
    assert lines["SVD bound"].line.dash == "dash"
    assert list(lines["SPARE"].y) == FALL
    assert {line.hovertemplate for line in figure.data[1:]} == {"%{y:.3~g}"}  # 3e-5 is no 0.000
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.shapes[0].x0 == figure.layout.shapes[0].x1 == 32
    assert chart.sentence == (
        "Relative error of rebuilding all tokens from 32 tokens: SPARE 0.500, CDPruner 0.550, "
        "random picks 0.600 on average (0.580 to 0.620). No choice can be below 0.400, the SVD "
        "bound."
    )


@pytest.mark.parametrize(
    ("above", "budget", "words"),
    [
        ((0.0, 0.0), 32, ""),
        ((0.2, 0.2), 32, "At this budget both do worse than random picks on average."),
        ((0.0, 0.2), 32, "At this budget CDPruner does worse than random picks on average."),
        ((0.2, 0.0), 40, "With 32 tokens SPARE does worse than random picks on average."),
        ((0.1, 0.1), 32, ""),  # as good as they are
    ],
)
def test_methods_worse_than_random_picks_are_named(above, budget, words):
    series = {"SPARE": fall(above[0]), "CDPruner": fall(above[1])}
    sentence = curve_figure(series=series, budget=budget).sentence
    assert sentence.endswith("the SVD bound." + (f" {words}" if words else ""))


def test_curves_between_computed_budgets_quote_a_computed_one():
    chart = curve_figure(budget=40)
    assert "from 32 tokens" in chart.sentence
    assert chart.figure.layout.shapes[0].x0 == 40


@pytest.mark.parametrize("unpad", [False, True])
@pytest.mark.parametrize("size", [(300, 200), (200, 300), (96, 96), (1200, 6)])
def test_views_standside_by_side_at_the_right_places(size, unpad):
    """A photo whose colours are its coordinates: every token shows those of its own box."""
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    photo = Image.fromarray(np.stack([x, y, 0 * x], axis=-1).astype(np.uint8))
    grid = tile_grids(size, (192, 192), 96, 8, unpad)
    canvas = Canvas(photo, grid)
    assert canvas.image.size == canvas.dim.size == canvas.grey.size == canvas.size
    picture = np.asarray(canvas.image).astype(float)
    centres = (grid.boxes[:, :2] + grid.boxes[:, 2:]) / 2
    inside = (grid.inside > 1 - 1e-6).nonzero().flatten().tolist()
    for token in inside[:: max(1, len(inside) // 60)]:
        x0, y0, x1, y1 = canvas.rectangle(token)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        on_photo = [x2 < x < x3 and y2 < y < y3 for x2, y2, x3, y3 in canvas.photos]
        assert sum(on_photo) == 1, token
        shown = picture[y0:y1, x0:x1, :2].mean(axis=(0, 1))
        expected = centres[token].numpy() / size * 255
        box = (grid.boxes[token, 2:] - grid.boxes[token, :2]).numpy() / size * 255
        pixel = 255 / np.array(size)  # a photo of few pixels is shown in whole ones
        assert np.all(np.abs(shown - expected) < 3 + np.maximum(box / 2, pixel)), token


def test_what_is_drawn_on_views_leaves_the_gap_between_them_alone():
    photo = Image.new("RGB", (300, 200), (10, 200, 30))
    grid = tile_grids((300, 200), (192, 192), 96, 8, unpad=True)
    canvas = Canvas(photo, grid)
    base, fine = grid.parts
    assert (grid.rows, grid.cols) == (max(base.rows, fine.rows), base.cols + 2 + fine.cols)
    assert len(set(grid.cells.tolist())) == grid.n
    everything = list(range(grid.n))
    x0 = canvas.origin[0] + base.cols * canvas.patch
    gap = np.s_[: canvas.size[1], x0 + canvas.patch // 2 : x0 + canvas.patch * 3 // 2]
    for drawn in (
        kept_overlay(canvas, everything, BLUE, "A"),
        difference(canvas, everything, everything[::2], "A", "B"),
        heatmap(canvas, np.arange(grid.n, dtype=float), "Value", "High means high."),
        pick_order(canvas, everything, BLUE, "A"),
    ):
        pixels = np.asarray(drawn.image)[gap]
        assert (pixels == 250).all()
    assert "of the base view" in pick_order(canvas, [3], BLUE, "A").sentence
    words = pick_order(canvas, [base.n + fine.cols], BLUE, "A").sentence
    assert "row 2, column 1 of the tiles" in words


@pytest.mark.parametrize("size", [(4000, 20), (20, 4000), (1, 200), (37, 911)])
def test_strips_have_tokens_and_words_to_be_seen(size: tuple[int, int]) -> None:
    """Qwen2.5-VL sees a photo of 1:200 as one row or column of tokens."""
    across, down = (max(1, round(side / 28)) for side in size)
    scale = (across * 28 / size[0], down * 28 / size[1])
    grid = Grid(size, down, across, 28, scale, (0.0, 0.0))
    canvas = Canvas(Image.new("RGB", size, "navy"), grid)
    assert canvas.patch >= 16 and max(canvas.size) <= 4096
    order = torch.arange(grid.n)
    for drawn in (
        kept_overlay(canvas, order[:1], BLUE, "A"),
        pick_order(canvas, order, BLUE, "A"),
        heatmap(canvas, torch.linspace(-1, 1, grid.n), "Cosine", "High means similar."),
    ):
        assert drawn.image.width >= max(canvas.size[0], 250)
        assert drawn.image.height > canvas.size[1]


def test_what_only_one_of_two_kept_is_told_apart_in_grey_print(wide):
    """Beside patches of the very grey of a method's colour."""
    for colour in (BLUE, VERMILION):
        level = int(np.dot(colour, (0.299, 0.587, 0.114)))
        photo = Image.new("RGB", (84, 84), (level,) * 3)
        canvas = Canvas(photo, fit(photo, 84, 14, "pad", (0, 0, 0))[1])
        picture = difference(canvas, [0], [7], "A", "B").image.convert("L")
        only_a, only_b = (np.asarray(picture.crop(canvas.rectangle(t)), int) for t in (0, 7))
        assert np.count_nonzero(abs(only_b - only_a) > 60) > canvas.patch // 4
