"""Geometry: the token boxes must say where the model input really shows each part of the photo."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import CLIPImageProcessorPil, LlavaNextImageProcessorPil
from transformers.image_processing_utils import select_best_resolution
from transformers.models.llava_next.modeling_llava_next import unpad_image

from spare_demo.geometry import fit, tiled

MEAN = (122, 116, 104)
ASPECTS = ["pad", "crop"]
SIZES = [
    (250, 90),  # wide
    (90, 250),  # tall
    (200, 200),  # square
    (336, 336),  # nothing to scale
    (201, 200),  # one pixel off, both ways
    (200, 201),
    (337, 336),
    (151, 97),  # odd
    (640, 479),
    (3, 7),  # enlarged hundredfold
    (1, 1),
]


def gradients(width, height):
    """Red rises along x and green along y, from 0 at one edge of the photo to 255 at the other."""
    x = (np.arange(width) + 0.5) * 255 / width
    y = (np.arange(height) + 0.5) * 255 / height
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.rint(x)[None, :]
    pixels[..., 1] = np.rint(y)[:, None]
    return Image.fromarray(pixels)


def expand2square(image, colour):
    """LLaVA's llava/mm_utils.py, which "pad" must repeat byte for byte."""
    width, height = image.size
    if width == height:
        return image
    side = max(width, height)
    result = Image.new(image.mode, (side, side), colour)
    corner = (0, (width - height) // 2) if width > height else ((height - width) // 2, 0)
    result.paste(image, corner)
    return result


def noise(width, height):
    seed = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(seed.integers(0, 256, (height, width, 3), dtype=np.uint8))


def shown_and_expected(size, aspect):
    """Centre of every token in photo pixels: read from the input's colours, and from its box."""
    image, grid = fit(gradients(*size), 336, 14, aspect, MEAN)
    means = np.asarray(image).astype(float).reshape(24, 14, 24, 14, 3).mean(axis=(1, 3))
    shown = means.reshape(576, 3)[:, :2] / 255 * size
    boxes = grid.boxes.numpy()
    return shown, (boxes[:, :2] + boxes[:, 2:]) / 2, grid


@pytest.mark.parametrize("size", SIZES)
def test_crop_shows_in_each_patch_what_the_photo_has_in_its_box(size):
    shown, expected, grid = shown_and_expected(size, "crop")
    assert np.abs(shown - expected).max() < 1
    assert (grid.inside > 1 - 1e-9).all()


@pytest.mark.parametrize("size", SIZES)
def test_pad_shows_in_each_patch_what_the_photo_has_in_its_box(size):
    shown, expected, grid = shown_and_expected(size, "pad")
    use = grid.inside.numpy() > 1 - 1e-9
    if size[0] != size[1]:  # bicubic lets the padding bleed in: keep clear of it by that much
        axis = 0 if size[0] < size[1] else 1
        bleed = max(2.0, 2 * max(size) / 336) if min(size) > 10 else 0.5
        boxes = grid.boxes.numpy()
        use &= (boxes[:, axis] >= bleed) & (boxes[:, axis + 2] <= size[axis] - bleed)
    assert use.sum() > 50
    assert np.abs(shown - expected)[use].max() < 1


@pytest.mark.parametrize("size", SIZES)
def test_pad_is_llavas_own_byte_for_byte(size):
    photo = noise(*size)
    image, _ = fit(photo, 336, 14, "pad", MEAN)
    square = expand2square(photo, MEAN)
    expected = square.resize((336, 336), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(np.asarray(image), np.asarray(expected))


@pytest.mark.parametrize("size", SIZES)
def test_crop_is_hugging_faces_own_byte_for_byte(size):
    photo = noise(*size)
    image, _ = fit(photo, 336, 14, "crop", MEAN)
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 336},
        crop_size={"height": 336, "width": 336},
        do_normalize=False,
        do_rescale=False,
    )
    expected = processor(photo, return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(image), expected)


@pytest.mark.parametrize(("pieces", "slow"), [(1, 10**9), (5_000, 10**9), (100_000, 1)])
def test_working_in_pieces_changes_nothing(monkeypatch, pieces, slow):
    wide, tall = noise(700, 90), noise(90, 700)
    whole = [fit(photo, 56, 14, aspect, MEAN)[0] for photo in (wide, tall) for aspect in ASPECTS]
    monkeypatch.setattr("spare_demo.geometry._PIECE_PIXELS", pieces)
    monkeypatch.setattr("spare_demo.geometry._SLOW_PIXELS", slow)
    again = [fit(photo, 56, 14, aspect, MEAN)[0] for photo in (wide, tall) for aspect in ASPECTS]
    for first, second in zip(whole, again, strict=True):
        apart = np.abs(np.asarray(first).astype(int) - np.asarray(second))
        assert apart.max() <= 1


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
    assert grid.token_at(29, 5) is None


@pytest.mark.parametrize("aspect", ["pad", "crop"])
@pytest.mark.parametrize("size", [(2000, 10), (10, 2000), (1, 200), (65_535, 1), (1, 65_535)])
def test_extreme_photos(size, aspect):
    image, grid = fit(Image.new("RGB", size, (9, 9, 9)), 336, 14, aspect, MEAN)
    assert image.size == (336, 336)
    assert 0 < int((~grid.padding).sum()) <= 576
    # The whole photo is inside the tokens (pad) or one square of it is (crop), by area.
    boxes = grid.boxes
    area = ((boxes[:, 2:] - boxes[:, :2]).prod(dim=1) * grid.inside).sum().item()
    expected = size[0] * size[1] if aspect == "pad" else min(size) ** 2
    assert area == pytest.approx(expected, rel=1e-6)


def test_every_token_of_a_crop_shows_the_middle_of_a_long_strip():
    strip = Image.new("RGB", (60_000, 3), (255, 0, 0))
    strip.paste((0, 0, 255), (29_990, 0, 30_010, 3))
    image, grid = fit(strip, 336, 14, "crop", MEAN)
    assert (np.asarray(image) == (0, 0, 255)).all()
    assert grid.seen == pytest.approx((29_998.5, 0, 30_001.5, 3), abs=0.01)


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


@settings(deadline=None)
@given(GRIDS, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_every_token_is_found_inside_its_own_box(grid, across, down):
    for token, (x0, y0, x1, y1) in enumerate(grid.boxes.tolist()):
        assert grid.token_at(x0 + across * (x1 - x0), y0 + down * (y1 - y0)) == token


@settings(deadline=None)
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


def test_points_beyond_the_grid_belong_to_no_token():
    _, grid = fit(Image.new("RGB", (20, 40)), 8, 2, "crop", MEAN)
    assert grid.token_at(10, 9.9) is None
    assert grid.token_at(20, 20) is None
    assert grid.token_at(float("nan"), 20) is None
    assert grid.token_at(0, 10) == 0


def test_a_click_in_padding_finds_the_padding_token():
    _, grid = fit(Image.new("RGB", (40, 20)), 8, 2, "pad", MEAN)
    token = grid.token_at(5.5, -3.5)
    assert token == 0
    assert grid.padding[token]


def test_the_photo_is_not_changed():
    photo = noise(50, 30)
    before = photo.tobytes()
    for aspect in ASPECTS:
        fit(photo, 28, 14, aspect, MEAN)
    assert photo.tobytes() == before


def test_what_fit_refuses():
    with pytest.raises(ValueError, match="open_picture"):
        fit(Image.new("L", (4, 4)), 8, 2, "pad", MEAN)
    with pytest.raises(ValueError, match='"pad" or "crop"'):
        fit(Image.new("RGB", (4, 4)), 8, 2, "stretch", MEAN)
    with pytest.raises(ValueError, match="does not fit"):
        fit(Image.new("RGB", (4, 4)), 8, 9, "pad", MEAN)


# --- LLaVA-NeXT's base view and tiles ---

AWKWARD = [
    (900, 500),
    (500, 900),
    (336, 336),
    (337, 671),
    (1009, 335),
    (3, 7),
    (2000, 10),  # 1:200
    (1, 1),
]
PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]  # height, width


def tiles_of(size, unpad):
    width, height = size
    best = select_best_resolution((height, width), PINPOINTS if unpad else [[672, 672]])
    return tiled(size, (best[1], best[0]), 336, 14, unpad)


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
    photo = gradients(*size)
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
        corners = part.photo_to_input(part.boxes[inside].view(-1, 2, 2))
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
        assert grid.canvas == grid.parts[1].extent


@pytest.mark.parametrize("unpad", [False, True])
@pytest.mark.parametrize("size", AWKWARD)
def test_points_of_both_views_find_their_token(size, unpad):
    grid = tiles_of(size, unpad)
    for part, start in zip(grid.parts, grid.starts, strict=True):
        centres = (part.boxes[:, :2] + part.boxes[:, 2:]) / 2
        for token in range(0, part.n, 97):
            assert part.token_at(*centres[token].tolist()) == token
            found = grid.token_at(*centres[token].tolist())
            assert found is not None and (part is grid.parts[0] or found == start + token)
            x0, y0, x1, y1 = grid.boxes[found].tolist()
            x, y = centres[token].tolist()
            assert x0 - 1e-9 <= x <= x1 + 1e-9 and y0 - 1e-9 <= y <= y1 + 1e-9
    assert grid.token_at(-1e9, 0) is None
    assert grid.seen == (0.0, 0.0, *map(float, size))
