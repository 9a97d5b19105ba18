"""The grid of many methods and the map of how many of them keep each patch."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from spare_demo.images.preprocess import fit
from spare_demo.render import Canvas, consensus_map, methods_grid
from spare_demo.render.colours import cividis
from spare_demo.render.consensus import consensus_counts, consensus_sentence
from spare_demo.render.grid import INSIDE, Cell, by_kl, kl_text

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


def words(svg: str) -> list[str]:
    return [part.text or "" for part in ET.fromstring(svg).iter(f"{SVG}text")]


def test_cells_are_in_the_order_of_kl_and_those_without_one_last() -> None:
    titles = [cell.title for cell in by_kl(CELLS)]
    assert titles == ["Best", "Inside", "Worst", "Unknown", "Less known"]


def test_a_small_kl_is_no_zero() -> None:
    assert [kl_text(value) for value in (0.0, 7e-5, 0.0214)] == ["0", "<0.001", "0.021"]


def test_the_grid_writes_what_it_knows_under_each_picture(canvas: Canvas) -> None:
    drawn = methods_grid(canvas, CELLS)
    assert words(drawn.svg) == [
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
    assert bare.sentence == "What 1 method kept, in the order of KL to the unpruned model."


def test_kept_patches_are_bright_and_dropped_ones_dim(canvas: Canvas) -> None:
    photo = np.asarray(methods_grid(canvas, [Cell("One", [5])]).image)[91 : 91 + 480, 40 : 40 + 480]
    middles = photo[60::120, 60::120]
    assert (middles[1, 1] == 90).all()
    dim = np.delete(middles.reshape(16, 3), 5, axis=0)
    assert abs(dim.astype(int) - 90 * 0.35).max() < 1


def test_there_are_at_most_six_columns(canvas: Canvas) -> None:
    six, seven = (methods_grid(canvas, [Cell("x", [0])] * count) for count in (6, 7))
    assert six.width == seven.width and six.height < seven.height
    assert (np.asarray(seven.image)[:40] == 255).all()


def test_a_tall_picture_stays_in_its_cell() -> None:
    photo = Image.new("RGB", (28, 560), (90, 90, 90))
    canvas = Canvas(photo, fit(photo, 56, 14, "crop", (0, 0, 0))[1])
    drawn = methods_grid(canvas, [Cell("x", [0])])
    assert drawn.height < 1300


def test_consensus_counts_methods_and_is_drawn_from_none_to_all(canvas: Canvas) -> None:
    rng = np.random.default_rng(0)
    kept = [rng.permutation(16)[:k] for k in (4, 8, 12, 3)] + [np.arange(2)]
    counted = np.bincount(np.concatenate(kept), minlength=16)
    np.testing.assert_array_equal(consensus_counts(kept, 16), counted)
    drawn = consensus_map(canvas, kept)
    everyone, nobody = (counted == 5).sum(), (counted == 0).sum()
    assert everyone == 0
    assert drawn.sentence == f"No patch is kept by all 5 methods; {nobody} by none."
    counts = np.array([3, 3, 1, 0])
    assert consensus_sentence(counts, 3) == "2 patches are kept by all 3 methods; 1 by none."
    pixels = canvas.cells(np.array(drawn.image.crop((0, 0, *canvas.size))))
    middles = pixels[:, :, canvas.patch // 2, canvas.patch // 2].reshape(16, 3).astype(float)
    grey = canvas.cells(np.array(canvas.grey))[0, 0, 5, 5].astype(float)
    np.testing.assert_allclose(middles, 0.45 * grey + 0.55 * cividis(counted / 5), atol=1)
    assert {"0", "5"} <= set(words(drawn.svg))
    with pytest.raises(ValueError, match="twice"):
        consensus_counts([[1, 1]], 16)
