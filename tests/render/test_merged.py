"""The pictures of merged tokens: read back, and their counts against the sources."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.images.preprocess import fit
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import BLUE
from spare_demo.render.display import Display
from spare_demo.render.maps import source_map
from spare_demo.render.overlay import kept_overlay, merged_overlay, selection_overlay
from spare_demo.tokens import Selection

N = 16


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    noise = np.random.default_rng(0).integers(40, 256, (4, 4, 3), dtype=np.uint8)
    photo = Image.fromarray(noise).resize((56, 56), Image.Resampling.NEAREST)
    return Canvas(photo, fit(photo, 56, 14, "pad", (0, 0, 0))[1])


@pytest.fixture
def selection() -> Selection:
    """Rows: the class token's; patch 3; patch 5 with half of 6 and 7; the mean of 8 and 9."""
    sources = torch.zeros(4, N)
    sources[1, 3] = 1
    sources[2, [5, 6, 7]] = torch.tensor([1, 0.5, 0.5])
    sources[3, [8, 9]] = 0.5
    return Selection([5, 3], features=torch.ones(4, 2), sources=sources)


def patch(canvas: Canvas, drawn: Image.Image, token: int) -> np.ndarray:
    x0, y0, x1, y1 = canvas.rectangle(token)
    return np.asarray(drawn)[(y0 + y1) // 2, (x0 + x1) // 2].astype(float)


def test_patches_are_drawn_as_what_became_of_them(canvas: Canvas, selection: Selection) -> None:
    drawn = selection_overlay(canvas, selection, BLUE, "VisionZip")
    for token in (3, 5):  # have a row of their own: untouched
        assert (patch(canvas, drawn.image, token) == patch(canvas, canvas.image, token)).all()
    for token in (6, 7, 8, 9):  # half way between dropped and kept
        dim, whole = (patch(canvas, p, token) for p in (canvas.dim, canvas.image))
        np.testing.assert_allclose(patch(canvas, drawn.image, token), (dim + whole) / 2, atol=1)
    assert (patch(canvas, drawn.image, 0) == patch(canvas, canvas.dim, 0)).all()
    x0, y0, x1, _ = canvas.rectangle(3)
    assert drawn.image.getpixel((x0, y0)) == BLUE

    def corner(token: int) -> tuple[int, ...]:
        _, y0, x1, _ = canvas.rectangle(token)
        inset = canvas.patch // 8
        return drawn.image.getpixel((x1 - inset, y0 + inset))

    assert corner(3) == canvas.image.getpixel((x1 - canvas.patch // 8, y0 + canvas.patch // 8))


def test_the_sentence_counts_them(canvas: Canvas, selection: Selection) -> None:
    assert selection_overlay(canvas, selection, BLUE, "VisionZip").sentence == (
        "VisionZip merged 16 tokens into 4: 1 unchanged, 1 with others mixed in, 2 of no single "
        "patch. 4 are only mixed in, 10 are unused."
    )


def test_a_grown_patch_is_hatched_and_one_as_it_is_not(canvas: Canvas) -> None:
    sources = torch.eye(N)[:2].clone()
    sources[1, 9] = 0.25
    drawn = merged_overlay(canvas, sources, [0, 1], BLUE, "x").image
    alone = merged_overlay(canvas, torch.eye(N)[:2], [0, 1], BLUE, "x").image
    boxes = [canvas.rectangle(token) for token in (0, 1)]
    same = [
        np.array_equal(np.asarray(drawn.crop(box)), np.asarray(alone.crop(box))) for box in boxes
    ]
    assert same == [True, False]


def test_without_sources_it_is_the_usual_picture(canvas: Canvas) -> None:
    plain: Display = selection_overlay(canvas, Selection([4, 2]), BLUE, "SPARE")
    usual = kept_overlay(canvas, [2, 4], BLUE, "SPARE")
    assert plain.sentence == usual.sentence and plain.image.tobytes() == usual.image.tobytes()


def test_the_map_of_one_row(canvas: Canvas, selection: Selection) -> None:
    sources = selection.sources
    assert sources is not None
    grown = source_map(canvas, sources, 2, "VisionZip").sentence
    assert grown.startswith("VisionZip's token 3 of 4: how much of each patch went into it: from 0")
    assert "parts of 3 tokens" in grown
    assert "run from 0 to 1.00." in source_map(canvas, sources, 3, "x").sentence
    assert "class token" in source_map(canvas, sources, 0, "VisionZip").sentence
    with pytest.raises(ValueError, match="Choose one from 1 to 4"):
        source_map(canvas, sources, 4, "VisionZip")
