"""Fitting: the input's pixels are those of the released processors, and its tokens lie on them."""

import numpy as np
import pytest
import references
from PIL import Image
from transformers import CLIPImageProcessorPil

from spare_demo.images.preprocess import fit

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
    image, grid = fit(references.gradients(*size), 336, 14, aspect, MEAN)
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
    monkeypatch.setattr("spare_demo.images.preprocess._PIECE_PIXELS", pieces)
    monkeypatch.setattr("spare_demo.images.preprocess._SLOW_PIXELS", slow)
    again = [fit(photo, 56, 14, aspect, MEAN)[0] for photo in (wide, tall) for aspect in ASPECTS]
    for first, second in zip(whole, again, strict=True):
        apart = np.abs(np.asarray(first).astype(int) - np.asarray(second))
        assert apart.max() <= 1


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


def test_the_photo_is_not_changed():
    photo = noise(50, 30)
    before = photo.tobytes()
    for aspect in ASPECTS:
        fit(photo, 28, 14, aspect, MEAN)
    assert photo.tobytes() == before
