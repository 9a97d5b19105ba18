"""From the photo to what the tower is given and back, through every class's own `look`."""

from __future__ import annotations

from typing import Any

import pytest
import references
import torch
from tiny_families import WAYS
from torch import Tensor

from spare_demo.models import Model, Picture

SIZES = [  # width, height
    (900, 500),
    (331, 640),
    (56, 56),
    (57, 56),
    (3, 7),
    (1, 1),
    (2000, 10),  # 1:200
    (10, 2000),
]


def colours(model: Model, picture: Picture) -> Tensor:
    """(n, 3) mean colour of what the tower was given of each token, 0 to 255."""
    images, pixels = model.processor.image_processor, picture.pixel_values
    if pixels.ndim == 2:  # Qwen's: four rows of 3 x 2 frames x 14 x 14 to a token
        means = pixels.view(picture.grid.n, 4, 3, -1).mean(dim=(1, 3))
    else:
        patches = pixels.flatten(0, -4).unfold(2, 14, 14).unfold(3, 14, 14)  # (v, 3, 4, 4, 14, 14)
        means = patches.mean(dim=(4, 5)).permute(0, 2, 3, 1).reshape(-1, 3)
        means = means[torch.tensor(getattr(picture.grid, "place", range(picture.grid.n)))]
    return 255 * (means * torch.tensor(images.image_std) + torch.tensor(images.image_mean))


@pytest.fixture(params=WAYS, ids=" ".join)
def way(request: pytest.FixtureRequest) -> tuple[Model, Any]:
    kind, aspect = request.param
    return request.getfixturevalue(kind), aspect


@pytest.mark.parametrize("size", SIZES)
def test_a_tokens_pixels_are_those_of_its_box(way: tuple[Model, Any], size: tuple) -> None:
    """Red rises along x and green along y: a colour tells where it was taken from."""
    model, aspect = way
    picture = model.look(references.gradients(*size), aspect)
    grid, found = picture.grid, colours(model, picture)
    assert len(grid.boxes) == grid.n == len(picture.features) == len(found)
    compared = 0
    for start, part in zip(grid.starts, grid.parts, strict=True):
        boxes = part.boxes
        whole = part.inside > 1 - 1e-9
        # Within a pixel of the photo, or one of the enlarged input, and one grey level; where
        # padding is near, its colour reaches two pixels into the 14 of a patch.
        for axis, (side, scale) in enumerate(zip(size, part.scale, strict=True)):
            centres = (boxes[:, axis] + boxes[:, axis + 2]) / 2 / side * 255
            apart = (found[start : start + part.n, axis] - centres).abs()
            clear = (
                whole & (boxes[:, axis] * scale >= 2) & ((side - boxes[:, axis + 2]) * scale >= 2)
            )
            use = whole if bool(part.inside.min() > 1 - 1e-9) else clear
            assert not use.any() or float(apart[use].max()) <= 255 * max(1, 1 / scale) / side + 1
            compared += int(use.sum())
    slim = 4 * min(size) < 2 * max(size)  # padded to a square, no token need show photo alone
    assert compared or (slim and aspect == "pad")


@pytest.mark.parametrize("size", SIZES)
def test_every_point_of_the_photo_has_its_token(way: tuple[Model, Any], size: tuple) -> None:
    model, aspect = way
    grid = model.look(references.gradients(*size), aspect).grid
    places = torch.tensor([0.013, 0.21, 0.4999, 0.77, 0.991], dtype=torch.float64)
    points = torch.cartesian_prod(places * size[0], places * size[1])
    x, y = points[:, :1], points[:, 1:]
    for part in grid.parts:
        boxes = part.boxes.double()
        hits = (boxes[:, 0] <= x) & (x < boxes[:, 2]) & (boxes[:, 1] <= y) & (y < boxes[:, 3])
        x0, y0, x1, y1 = part.seen
        seen = ((x >= x0) & (x < x1) & (y >= y0) & (y < y1)).flatten()
        assert hits.sum(dim=1).tolist() == seen.int().tolist()  # one token, where it is seen
    if aspect == "crop":
        pixel = 1 / min(grid.parts[0].scale)  # the longer side is scaled to whole pixels
        for low, high in ((0, 2), (1, 3)):
            square = grid.seen[high] - grid.seen[low]
            assert square == pytest.approx(min(size), abs=pixel)
    else:
        assert grid.seen == pytest.approx((0, 0, *size))
