"""Maps and the KL curve: values are drawn on the scale said, sentences carry the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from spare_demo.images.geometry import tile_grids
from spare_demo.images.preprocess import fit
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import cividis
from spare_demo.render.curves import kl_chart
from spare_demo.render.display import ColourBar, Display, Text
from spare_demo.render.maps import consensus_map, leftover_map, relevance_change_map, weight_map
from spare_demo.render.overlay import question_difference


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    """16 tokens on a flat photo, so that colours can be compared."""
    photo = Image.new("RGB", (56, 56), (90, 90, 90))
    return Canvas(photo, fit(photo, 56, 14, "pad", (0, 0, 0))[1])


def colours(canvas: Canvas, drawn: Display) -> np.ndarray:
    """(16, 3) the colour in the middle of each token."""
    pixels = canvas.cells(np.array(drawn.image.crop((0, 0, *canvas.size))))
    return pixels[:, :, canvas.patch // 2, canvas.patch // 2].reshape(16, 3).astype(float)


def expected(canvas: Canvas, shares: np.ndarray) -> np.ndarray:
    grey = canvas.cells(np.array(canvas.grey))[0, 0, 5, 5].astype(float)
    return 0.45 * grey + 0.55 * cividis(shares)


def test_leftover_is_drawn_on_the_scale_0_to_1(canvas: Canvas) -> None:
    values = torch.linspace(0.2, 0.6, 16)
    drawn = leftover_map(canvas, values, "SPARE", 4)
    np.testing.assert_allclose(colours(canvas, drawn), expected(canvas, values.numpy()), atol=1)
    assert drawn.sentence == (
        "Share of each patch that SPARE's 4 tokens cannot reconstruct: from 0.20 to 0.60, mean "
        "0.40. 0 means that the kept tokens rebuild all of it, 1 that they rebuild none. The "
        "colours run from 0 to 1.00. 4 patches are more than half left over."
    )
    assert leftover_map(canvas, [0.0] * 16, "x", 16).sentence.endswith(
        "No patch is more than half left over."
    )


def test_leftovers_that_are_compared_share_a_shorter_scale(canvas: Canvas) -> None:
    values = np.linspace(0, 0.04, 16)
    drawn = leftover_map(canvas, values, "SPARE", 4, 0.08)
    np.testing.assert_allclose(colours(canvas, drawn), expected(canvas, values / 0.08), atol=1)
    assert "The colours run from 0 to 0.0800." in drawn.sentence


def test_the_weight_map_says_where_the_highest_is(canvas: Canvas) -> None:
    values = np.linspace(1, 2, 16)
    values[6] = 3
    drawn = weight_map(canvas, values, "SPARE")
    np.testing.assert_allclose(colours(canvas, drawn), expected(canvas, (values - 1) / 2), atol=1)
    (bar,) = (item for item in drawn.items if isinstance(item, ColourBar))
    below = [item for item in drawn.items if isinstance(item, Text) and item.y > bar.bottom]
    assert [item.words for item in below] == ["1.00", "mean 1.60", "3.00"]
    assert all(bar.bottom + item.size / 2 < item.y < drawn.height - item.size / 2 for item in below)
    assert "from 1.00 to 3.00" in drawn.sentence
    assert drawn.sentence.endswith("The highest is at row 2, column 3.")


def test_of_several_views_the_weight_map_says_in_which_the_highest_is() -> None:
    grid = tile_grids((56, 56), (112, 112), 56, 14, unpad=False)
    canvas = Canvas(Image.new("RGB", (56, 56), (90, 90, 90)), grid)
    values = np.linspace(0, 1, grid.n)
    values[16 + 8 * 2 + 5] = 2.0  # the 16 of the base view come first
    drawn = weight_map(canvas, values, "SPARE")
    assert drawn.sentence.endswith("The highest is at row 3, column 6 of the tiles.")


def test_a_change_of_relevance_is_drawn_around_zero(canvas: Canvas) -> None:
    values = np.linspace(-0.1, 0.2, 16)
    drawn = relevance_change_map(canvas, values)
    shares = (values + 0.2) / 0.4
    np.testing.assert_allclose(colours(canvas, drawn), expected(canvas, shares), atol=1)
    moved = int((values > 0).sum())
    assert f"{moved} of 16 tokens moved towards the second question" in drawn.sentence
    assert f"the mean move is {abs(values).mean():.3f}." in drawn.sentence
    unmoved = relevance_change_map(canvas, np.zeros(16))
    assert "0 of 16 tokens moved" in unmoved.sentence


def test_consensus_counts_methods_and_is_drawn_from_none_to_all(canvas: Canvas) -> None:
    rng = np.random.default_rng(0)
    kept = [rng.permutation(16)[:k] for k in (4, 8, 12, 3)] + [np.arange(2)]
    counted = np.bincount(np.concatenate(kept), minlength=16)
    drawn = consensus_map(canvas, kept)
    assert (counted == 5).sum() == 0
    nobody = (counted == 0).sum()
    assert drawn.sentence == f"No patch is kept by all 5 methods; {nobody} by none."
    np.testing.assert_allclose(colours(canvas, drawn), expected(canvas, counted / 5), atol=1)
    assert ">0</text>" in drawn.svg and ">5</text>" in drawn.svg
    two = consensus_map(canvas, [[0, 1, 2], [1, 0], [0, 1]])
    assert two.sentence == "2 patches are kept by all 3 methods; 13 by none."


def test_moved_picks_are_counted(canvas: Canvas) -> None:
    drawn = question_difference(canvas, [1, 2, 3], [3, 4, 5], "SPARE")
    assert drawn.sentence == (
        "Of the 3 tokens that SPARE kept for the first question, 1 was kept for the second too; "
        "2 others were kept instead. Jaccard 0.20 (two random picks: 0.12)."
    )
    drawn = question_difference(canvas, [1, 2, 3], [2, 3, 4], "SPARE")
    assert "2 were kept for the second too; 1 other was kept instead." in drawn.sentence


def test_the_kl_curve_draws_and_says_its_numbers() -> None:
    series = {"SPARE": [2.0, 0.5, 0.0], "CDPruner": [1.5, 0.25, 0.0]}
    band = ([3.0, 1.0, 0.0], [2.5, 0.5, 0.0], [3.5, 1.5, 0.0])
    drawn = kl_chart([1, 4, 16], series, band, 5)
    traces = {trace.name: trace for trace in drawn.figure.data if trace.name}
    assert list(traces["SPARE"].y) == [2.0, 0.5, 0.0]
    assert list(traces["SPARE"].x) == [1, 4, 16]
    assert traces["CDPruner"].line.color == "rgb(213,94,0)"
    assert drawn.figure.layout.yaxis.title.text == "KL (nats)"
    assert drawn.sentence == (
        "KL of the first word to the unpruned model, in nats, with 4 tokens: SPARE 0.500, CDPruner "
        "0.250, random picks 1.00 on average (0.500 to 1.50). 0 means that nothing changed."
    )
