"""The controls: by relevance or length alone, at random, on a grid."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.magnitude import Magnitude
from spare_demo.pruners.random import Random
from spare_demo.pruners.spatial import SpatialFarthest
from spare_demo.pruners.topk import TopRelevance
from spare_demo.pruners.uniform import Uniform, grid_points

# Mean cosines to the two text pieces: 0.5, -0.5, 0.7, 0.5
TOKENS = VisualTokens(
    torch.eye(4),
    clip_image=torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]),
    clip_text=torch.eye(2),
)


def test_lowest_and_highest_relevance_by_hand() -> None:
    anti, normal = TopRelevance().select(TOKENS, 4), TopRelevance("normal").select(TOKENS, 4)
    assert anti.order.tolist() == [1, 0, 3, 2]  # a tie to the lower index either way
    assert normal.order.tolist() == [2, 0, 3, 1]
    assert anti.gain.tolist() == pytest.approx([0.5, -0.5, -0.5, -0.7])
    assert normal.gain.tolist() == pytest.approx([0.7, 0.5, 0.5, -0.5])
    assert TopRelevance().weight(TOKENS).tolist() == pytest.approx([-0.5, 0.5, -0.7, -0.5])


@pytest.mark.parametrize(("guidance", "seed"), [("anti", 1), ("normal", 2)])
@pytest.mark.parametrize("n", range(4, 9))
def test_equal_tokens_are_a_tie_to_the_lower_index(n: int, guidance: str, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    image, text = torch.randn(1, 8, generator=g).repeat(n, 1), torch.randn(1, 8, generator=g)
    order = TopRelevance(guidance).select(VisualTokens(image, image, text), n).order
    assert order.tolist() == list(range(n))


def test_random_is_one_permutation_per_seed() -> None:
    tokens = VisualTokens(torch.ones(100, 2))
    expected = torch.randperm(100, generator=torch.Generator().manual_seed(7))
    assert torch.equal(Random(seed=7).select(tokens, 40).order, expected[:40])
    assert not torch.equal(Random(seed=8).select(tokens, 40).order, expected[:40])
    assert PRUNERS["random"].select(tokens, 5).gain is None


def test_random_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    Random().select(VisualTokens(torch.ones(10, 2)), 3)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63, 1.0, True, None])
def test_random_refuses_what_is_no_seed(seed: object) -> None:
    with pytest.raises(ValueError, match="Choose a whole number"):
        Random(seed=seed)


@pytest.mark.parametrize(
    ("n", "k", "points"),
    [
        (16, 4, [5, 7, 13, 15]),  # rows and columns floor(1), floor(3)
        (16, 1, [10]),
        (576, 1, [12 * 24 + 12]),
        (9, 9, list(range(9))),
        # 3 rows of 4 tokens under 2 x 2 points, in rows 0 and 2, columns 1 and 3: 1, 3, 9, 11.
        # Of the four those numbered floor(0.67), floor(2), floor(3.33) stay.
        (12, 3, [1, 9, 11]),
        (7, 3, [1, 3, 5]),  # a prime number: one row
    ],
)
def test_grid_points_by_hand(n: int, k: int, points: list[int]) -> None:
    assert grid_points(n, k).tolist() == points


@pytest.mark.parametrize("n", [1, 2, 7, 12, 30, 39, 144, 576])
def test_every_budget_has_its_own_number_of_distinct_points(n: int) -> None:
    for k in range(1, n + 1):
        points = grid_points(n, k).tolist()
        assert len(points) == k
        assert points == sorted(set(points))
        assert 0 <= points[0] <= points[-1] < n


@pytest.mark.parametrize("k", [16, 32, 64, 128, 192])
def test_the_grid_leaves_no_large_hole(k: int) -> None:
    points = Uniform().select(VisualTokens(torch.ones(576, 1)), k).order
    place = torch.stack([points // 24, points % 24], dim=1).double()
    everywhere = torch.cartesian_prod(torch.arange(24), torch.arange(24)).double()
    nearest = torch.cdist(everywhere, place).amin(dim=1)
    # Half the diagonal of a cell of its own, and one cell more where an extra was dropped.
    assert float(nearest.max()) <= 1.6 * 24 / math.sqrt(k)
    assert len(set(place[:, 1].tolist())) > k / 24 + 1  # not a few columns, as a stride would


def test_the_longest_come_first_and_of_equal_ones_the_lower_index() -> None:
    x = torch.tensor([[3.0, 4], [0, 5], [-6, 0], [0, 0], [0, 5]])
    selection = Magnitude().select(VisualTokens(x), 5)
    assert selection.order.tolist() == [2, 0, 1, 4, 3]
    assert selection.gain.tolist() == [6, 5, 5, 5, 0]
    alone = Magnitude().select(VisualTokens(x, view=torch.tensor([0, 1, 0, 1, 0])), 4)
    assert alone.order.tolist() == [2, 1, 0, 3]  # each view its own, in turn
    # Lengths of 90,000 and 90,000.05, where half precision ends at 65,504.
    half = torch.full((2, 9), 30_000.0, dtype=torch.half)
    half = torch.cat([half, torch.tensor([[0.0], [100.0]]).half()], dim=1)
    assert Magnitude().select(VisualTokens(half), 2).order.tolist() == [1, 0]


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (4, 6), (1, 7), (1, 1), (24, 24)])
def test_farthest_points_by_their_definition(rows: int, columns: int) -> None:
    n = rows * columns
    places = list(itertools.product(range(rows), range(columns)))
    middle = ((rows - 1) / 2, (columns - 1) / 2)
    # Squares of whole and half numbers: ties are exact.
    square = [[(a - c) ** 2 + (b - d) ** 2 for c, d in places] for a, b in places]
    picked = [min(range(n), key=lambda i: math.dist(places[i], middle))]
    while len(picked) < min(n, 40):
        nearest = [min(square[i][j] for j in picked) for i in range(n)]
        picked.append(max((i for i in range(n) if i not in picked), key=nearest.__getitem__))
    tokens = VisualTokens(torch.randn(n, 3))
    selection = SpatialFarthest().select(tokens, len(picked))
    assert selection.order.tolist() == picked
    longest = max(map(max, square)) or 1
    off = math.dist(places[picked[0]], middle)
    assert float(selection.gain[0]) == pytest.approx(-off / math.sqrt(longest))
    for t in range(1, len(picked)):
        near = min(square[picked[t]][j] for j in picked[:t])
        assert float(selection.gain[t]) == pytest.approx(math.sqrt(near / longest))
