"""What stands in the placeholders' place, with and without newline tokens and merging."""

from __future__ import annotations

import pytest
import torch

from spare_demo.images.geometry import Grid
from spare_demo.models.base import Encoding
from spare_demo.models.generate.rows import kept_rows
from spare_demo.tokens import Selection

# Six tokens 0..5 as rows [i, i]; newline rows [9, 9] after tokens 2 | 4 | 6, as two by three.
FEATURES = torch.arange(6.0)[:, None].expand(6, 2)


def picture(newlines: bool = True) -> Encoding:
    grid = Grid((4, 6), 3, 2, 2, (1.0, 1.0), (0.0, 0.0))
    line, breaks = torch.full((2,), 9.0), torch.tensor([2, 4, 6])
    lines: dict = {"newline": line, "breaks": breaks} if newlines else {}
    return Encoding(grid=grid, features=FEATURES, hidden={}, encode_seconds=0.0, **lines)


def read(selection: Selection | None, newlines: bool = True) -> tuple[list, list, list, int]:
    rows = kept_rows(picture(newlines), selection)
    return (
        rows.values[:, 0].tolist(),
        rows.places.tolist(),
        rows.newline.nonzero().flatten().tolist(),
        rows.visual,
    )


def test_all_tokens_stand_at_every_placeholder() -> None:
    assert picture().slots == 9 and picture(False).slots == 6
    assert read(None) == ([0, 1, 9, 2, 3, 9, 4, 5, 9], list(range(9)), [2, 5, 8], 6)
    assert read(None, newlines=False) == (list(range(6)), list(range(6)), [], 6)


def test_newline_rows_stay_whatever_is_kept() -> None:
    assert read(Selection([5, 0])) == ([0, 9, 9, 5, 9], [0, 2, 5, 7, 8], [1, 2, 4], 2)
    assert read(Selection([3])) == ([9, 3, 9, 9], [2, 4, 5, 8], [0, 2, 3], 1)
    assert read(Selection([3, 1]), newlines=False) == ([1, 3], [1, 3], [], 2)


@pytest.mark.usefixtures("half_by_default")
def test_newline_rows_of_many_tokens_while_another_thread_makes_a_model() -> None:
    breaks = torch.arange(30, 601, 30)
    grid = Grid((30, 20), 20, 30, 1, (1.0, 1.0), (0.0, 0.0))
    features = torch.zeros(600, 2)
    many = Encoding(
        grid=grid,
        features=features,
        hidden={},
        encode_seconds=0.0,
        newline=features[0],
        breaks=breaks,
    )
    rows = kept_rows(many, None)
    assert rows.places.tolist() == list(range(620))
    assert rows.newline.nonzero().flatten().tolist() == list(range(30, 620, 31))
    merged = Selection([4], features=torch.zeros(600, 2))
    assert kept_rows(many, merged).places.tolist() == list(range(620))


def test_merged_rows_stand_where_most_of_them_comes_from() -> None:
    sources = torch.zeros(4, 6)
    sources[0, 1] = sources[1, 4] = 1.0  # two kept tokens, then two merged of the rest
    sources[2, [2, 3]] = torch.tensor([0.6, 0.4])
    sources[3, [0, 5]] = torch.tensor([0.7, 0.3])
    merged = Selection([4, 1], features=torch.full((4, 2), 7.0), sources=sources)
    values, places, newlines, visual = read(merged)
    assert values == [7, 9, 9, 7, 7, 7, 9] and visual == 4
    assert places == [1, 2, 5, 6, 3, 0, 8] and newlines == [1, 2, 6]


def test_merged_rows_without_sources() -> None:
    assert read(Selection([4, 1], features=torch.full((2, 2), 7.0)))[1] == [1, 2, 5, 6, 8]
    assert read(Selection([4], features=torch.full((4, 2), 7.0)), False)[1] == [0, 2, 3, 5]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 5"):
        kept_rows(picture(), Selection([6]))
    with pytest.raises(ValueError, match="rows of 2"):
        kept_rows(picture(), Selection([1], features=torch.zeros(1, 3)))
    of_seven = torch.eye(7)[[6, 1]]  # merged rows of another picture
    merged = Selection([6, 1], features=torch.zeros(2, 2), sources=of_seven)
    with pytest.raises(ValueError, match="0 to 5"):
        kept_rows(picture(), merged)
    merged = Selection([5, 1], features=torch.zeros(2, 2), sources=of_seven)
    with pytest.raises(ValueError, match="7 columns"):
        kept_rows(picture(), merged)
