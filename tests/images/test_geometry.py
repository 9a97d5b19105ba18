"""Geometry: the token boxes must say where the model input really shows each part of the photo."""

import pytest
import references
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers import LlavaNextImageProcessorPil
from transformers.image_processing_utils import select_best_resolution
from transformers.models.llava_next.modeling_llava_next import unpad_image

from spare_demo.images.geometry import tile_grids
from spare_demo.images.preprocess import fit

MEAN = (122, 116, 104)
ASPECTS = ["pad", "crop"]


def test_a_wide_photo_by_hand():
    image, grid = fit(Image.new("RGB", (40, 20), (255, 0, 0)), 8, 2, "pad", (0, 0, 255))
    assert (grid.rows, grid.cols, grid.n) == (4, 4, 16)
    assert grid.boxes[0].tolist() == [0, -10, 10, 0]
    assert grid.boxes[5].tolist() == [10, 0, 20, 10]
    assert grid.boxes[-1].tolist() == [30, 20, 40, 30]
    assert grid.padding.tolist() == [True] * 4 + [False] * 8 + [True] * 4
    assert grid.inside.tolist() == [0] * 4 + [1] * 8 + [0] * 4
    assert grid.canvas == (0, -10, 40, 30)
    assert grid.seen == (0, 0, 40, 20)
    assert image.getpixel((4, 0)) == (0, 0, 255)
    assert image.getpixel((4, 4)) == (255, 0, 0)


def test_a_token_half_in_padding():
    _, grid = fit(Image.new("RGB", (40, 10)), 8, 2, "pad", MEAN)
    assert grid.inside.tolist() == [0] * 4 + [0.5] * 8 + [0] * 4
    assert grid.padding.sum() == 8


def test_a_cropped_photo_by_hand():
    _, grid = fit(Image.new("RGB", (20, 40)), 8, 2, "crop", MEAN)
    assert grid.boxes[0].tolist() == [0, 10, 5, 15]
    assert grid.boxes[-1].tolist() == [15, 25, 20, 30]
    assert not grid.padding.any()
    assert grid.canvas == (0, 0, 20, 40)
    assert grid.seen == (0, 10, 20, 30)


def test_an_odd_difference_pads_one_pixel_less_before_than_after():
    _, grid = fit(Image.new("RGB", (10, 7)), 20, 2, "pad", MEAN)
    assert grid.canvas == (0, -1, 10, 9)


def test_a_patch_that_does_not_divide_the_input_leaves_a_strip_unseen():
    _, grid = fit(Image.new("RGB", (30, 30)), 30, 7, "pad", MEAN)
    assert grid.n == 16
    assert grid.seen == (0, 0, 28, 28)
    assert grid.canvas == (0, 0, 30, 30)


GRIDS = st.builds(
    lambda width, height, patch, tokens, rest, aspect: fit(
        Image.new("RGB", (width, height)), patch * tokens + rest % patch, patch, aspect, MEAN
    )[1],
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(1, 16),
    st.integers(1, 12),
    st.integers(0, 15),
    st.sampled_from(ASPECTS),
)


@given(GRIDS)
def test_the_boxes_tile_and_agree_with_the_summary(grid):
    boxes = grid.boxes.reshape(grid.rows, grid.cols, 4)
    assert torch.equal(boxes[:, 1:, 0], boxes[:, :-1, 2])
    assert torch.equal(boxes[1:, :, 1], boxes[:-1, :, 3])
    flat = grid.boxes
    union = (*flat[:, :2].amin(dim=0).tolist(), *flat[:, 2:].amax(dim=0).tolist())
    assert grid.extent == pytest.approx(union, abs=1e-9)
    assert bool(((grid.inside >= 0) & (grid.inside <= 1)).all())
    assert torch.equal(grid.padding, grid.inside == 0)
    x0, y0, x1, y1 = grid.seen
    area = ((flat[:, 2:] - flat[:, :2]).prod(dim=1) * grid.inside).sum().item()
    assert area == pytest.approx((x1 - x0) * (y1 - y0), rel=1e-6)


# --- LLaVA-NeXT's base view and tiles ---

AWKWARD = [
    (900, 500),
    (500, 900),
    (336, 336),
    (337, 671),
    (1009, 335),
    (3, 7),
    (2000, 10),  # 1:200
    (352, 110),  # cut just below a whole number of rows but for rounding, and of columns
    (110, 352),
    (1, 1),
]
PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]  # height, width


def tiles_of(size, unpad):
    width, height = size
    best = select_best_resolution((height, width), PINPOINTS if unpad else [[672, 672]])
    return tile_grids(size, (best[1], best[0]), 336, 14, unpad)


@pytest.mark.parametrize("size", AWKWARD)
def test_tiles_are_cut_as_the_stock_model_cuts_them(size):
    """Every token's number goes through stock `unpad_image`; what comes out is what we keep."""
    best = select_best_resolution(size[::-1], PINPOINTS)
    rows, cols = best[0] // 14, best[1] // 14
    tile = 1 + torch.arange(rows)[:, None] // 24 * (cols // 24) + torch.arange(cols) // 24
    left = unpad_image(tile[None], size[::-1])[0]
    grid = tiles_of(size, unpad=True)
    assert grid.view == (0,) * 576 + tuple(left.flatten().tolist())
    assert grid.n == len(grid.boxes) == len(grid.view) == 576 + left.numel()
    if left.numel():
        assert (grid.parts[1].rows, grid.parts[1].cols) == left.shape
        assert grid.starts == (0, 576)


@pytest.mark.parametrize("unpad", [False, True])
@pytest.mark.parametrize("size", AWKWARD)
def test_tokens_of_both_views_lie_where_the_stock_pixels_show_them(size, unpad):
    photo = references.gradients(*size)
    pinpoints = PINPOINTS if unpad else [[672, 672]]
    stock = LlavaNextImageProcessorPil(
        size={"shortest_edge": 336},
        crop_size={"height": 336, "width": 336},
        image_grid_pinpoints=pinpoints,
        do_normalize=False,
    )
    pixels = stock(photo, return_tensors="pt").pixel_values[0] * 255  # (1 + tiles, 3, 336, 336)
    grid = tiles_of(size, unpad)
    base, fine = grid.parts[0], grid.parts[-1]
    best = select_best_resolution(size[::-1], pinpoints)
    down, across = best[0] // 336, best[1] // 336
    joined = pixels[1:].view(down, across, 3, 336, 336).permute(2, 0, 3, 1, 4).reshape(3, *best)
    for part, image in (
        (base, pixels[0]),
        (fine, joined) if fine is not base else (base, pixels[0]),
    ):
        inside = (part.inside > 1 - 1e-9).nonzero().flatten()[::7]
        scale, shift = torch.tensor([part.scale, part.shift], dtype=torch.float64)
        corners = part.boxes[inside].view(-1, 2, 2) * scale + shift
        if unpad and part is fine is not base:  # from the grid's own input to the whole target's
            cut = torch.tensor([best[1] // 14 - fine.cols, best[0] // 14 - fine.rows]) / 2 * 14
            corners = corners + cut
        for token, ((x0, y0), (x1, y1)) in zip(inside, corners.round().int().tolist(), strict=True):
            colour = image[:2, y0:y1, x0:x1].mean(dim=(1, 2)).tolist()
            box = part.boxes[token]
            centre = ((box[:2] + box[2:]) / 2 / torch.tensor(size) * 255).tolist()
            # Within one pixel of the photo, or one of the enlarged input, and one grey level.
            slack = [
                255 * max(1 / n, 1 / (n * s)) + 1 for n, s in zip(size, part.scale, strict=True)
            ]
            assert abs(colour[0] - centre[0]) <= slack[0] and abs(colour[1] - centre[1]) <= slack[1]


@pytest.mark.parametrize("size", AWKWARD)
def test_the_fixed_setting_has_2880_tokens_and_keeps_padding(size):
    grid = tiles_of(size, unpad=False)
    assert grid.n == 2880 and grid.view.count(0) == 576
    assert all(grid.view.count(tile) == 576 for tile in (1, 2, 3, 4))
    assert grid.view[576] == 1 and grid.view[576 + 24] == 2 and grid.view[-1] == 4
    assert not grid.padding[:576].any()
    if size == (900, 500):  # 672 x 374 of 672 x 672
        assert int(grid.padding.sum()) == 48 * 2 * (149 // 14)
        assert grid.parts[1].canvas == grid.parts[1].extent


@pytest.mark.parametrize("unpad", [False, True])
@pytest.mark.parametrize("size", AWKWARD)
def test_both_views_together_see_the_whole_photo(size, unpad):
    assert tiles_of(size, unpad).seen == (0.0, 0.0, *map(float, size))
