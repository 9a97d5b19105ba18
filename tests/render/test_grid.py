"""The grid of what many methods keep."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from spare_demo.images.preprocess import fit
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Photo, Text
from spare_demo.render.grid import INSIDE, Cell, by_kl, kl_text, methods_grid

SVG = "{http://www.w3.org/2000/svg}"

CELLS = [
    Cell("Unknown", [0], error=0.1),
    Cell("Worst", [1, 2], error=0.5, kl=2.5, answer="3"),
    Cell("Inside", None, kl=0.25, answer="seven", same=True),
    Cell("Best", [3, 4], error=0.31, kl=0.0214, answer="seven", same=True),
    Cell("Less known", [0, 5]),
]


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    photo = Image.new("RGB", (56, 56), (90, 90, 90))
    return Canvas(photo, fit(photo, 56, 14, "pad", (0, 0, 0))[1])


def test_cells_are_in_the_order_of_kl_and_those_without_one_last() -> None:
    titles = [cell.title for cell in by_kl(CELLS)]
    assert titles == ["Best", "Inside", "Worst", "Unknown", "Less known"]


def test_a_small_error_is_no_zero() -> None:
    errors = [Cell("x", [0], error=value).figures for value in (0.0, 4e-11, 0.31)]
    assert errors == ["error 0", "error <0.01", "error 0.31"]


def test_a_small_kl_is_no_zero() -> None:
    assert [kl_text(value) for value in (0.0, 7e-5, 0.0214)] == ["0", "<0.001", "0.021"]


def test_the_grid_writes_what_it_knows_under_each_picture(canvas: Canvas) -> None:
    drawn = methods_grid(canvas, CELLS)
    assert [part.text for part in ET.fromstring(drawn.svg).iter(f"{SVG}text")] == [
        *("Best", "error 0.31 · KL 0.021", "seven"),
        *("Inside", INSIDE, "KL 0.250", "seven"),
        *("Worst", "error 0.50 · KL 2.500", "3"),
        *("Unknown", "error 0.10", "Less known"),
    ]
    assert drawn.image.size == (drawn.width, drawn.height)
    assert drawn.sentence == (
        "What 5 methods kept, in the order of KL to the unpruned model. The least KL is 0.021 "
        "(Best), the largest 2.500 (Worst). 2 of 3 answers are the same as with all tokens."
    )
    bare = methods_grid(canvas, [Cell("One", [1])])
    order = "in the order of the error of rebuilding all tokens."
    assert bare.sentence == f"What 1 method kept, {order}"


def test_kept_patches_are_bright_and_dropped_ones_dim(canvas: Canvas) -> None:
    photo = np.asarray(methods_grid(canvas, [Cell("One", [5])]).image)[91 : 91 + 480, 40 : 40 + 480]
    middles = photo[60::120, 60::120]
    assert (middles[1, 1] == 90).all()
    dim = np.delete(middles.reshape(16, 3), 5, axis=0)
    assert abs(dim.astype(int) - 90 * 0.35).max() < 1


def test_there_are_at_most_six_columns(canvas: Canvas) -> None:
    cells = [Cell("x", [0], 0.5, answer="a")] * 7
    six, seven = methods_grid(canvas, cells[:6]), methods_grid(canvas, cells)
    assert six.width == seven.width == 40 + 6 * 480 + 5 * 32 + 40
    down = seven.height - six.height
    assert six.height == 80 + down - 32 and 480 < down < 720
    photos = [(item.x, item.y) for item in seven.items if isinstance(item, Photo)]
    assert photos == [*((40 + 512 * column, 91) for column in range(6)), (40, 91 + down)]
    title, error, answer, *_ = (item.y for item in seven.items if isinstance(item, Text))
    assert 40 < title < 91 and 91 + 480 < error < answer < 40 + down


def test_a_tall_picture_stays_in_its_cell() -> None:
    photo = Image.new("RGB", (28, 560), (90, 90, 90))
    canvas = Canvas(photo, fit(photo, 56, 14, "crop", (0, 0, 0))[1])
    drawn = methods_grid(canvas, [Cell("x", [0])])
    assert drawn.height < 1300
