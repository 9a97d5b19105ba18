"""The methods that merge: rows, their order and their sources against the references."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from drawn_tokens import picture
from hypothesis import given, settings
from hypothesis import strategies as st
from method_references import Rows, outlier_ratio, prumerge, prumerge_plus_kept, trim, visionzip
from references import as_array

from spare_demo import PRUNERS, Selection, VisualTokens
from spare_demo.pruners import LayerPruner
from spare_demo.pruners.merging import outliers
from spare_demo.pruners.prumerge import PruMerge
from spare_demo.pruners.trim import Trim
from spare_demo.pruners.visionzip import VisionZip

N, W, HEADS = 48, 8, 2
MERGING = [
    method for method in PRUNERS.values() if method.merges and not isinstance(method, LayerPruner)
]


@dataclasses.dataclass
class Tower:
    """Random states, class token, queries and keys, and the tokens made of them."""

    seed: int
    sharpness: float = 3.0

    def __post_init__(self) -> None:
        g = torch.Generator().manual_seed(self.seed)
        self.blocks: list[int] = []  # of the tower that were asked for

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=g, dtype=torch.float64)

        self.h, self.h_cls = draw(N, W), draw(W)
        self.q_cls, self.k_cls, self.keys = self.sharpness * draw(W), draw(W), draw(N, W)
        self.weight, self.image, self.text = draw(W, 5), draw(N, 6), draw(6)
        self.tokens = VisualTokens(
            self.project(self.h),
            self.image,
            torch.stack([self.text, -self.text]),  # not what TRIM reads
            states=self.h,
            class_states=self.h_cls[None],
            project=self.project,
            cls_attention=self.attention,
            vision_keys=self.vision_keys,
            clip_sentence=lambda: self.text,
        )

    def project(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.tanh(rows @ self.weight)

    def split(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.unflatten(-1, (HEADS, -1)).transpose(0, -2)

    def vision_keys(self, block: int) -> torch.Tensor:
        self.blocks.append(block)
        return self.split(self.keys)

    def attention(self, block: int, joined: bool = False) -> torch.Tensor:
        self.blocks.append(block)
        every = torch.cat([self.k_cls[None], self.keys])
        query, keys = self.q_cls[None], every
        if joined:
            return ((query @ keys.T) / W**0.5).softmax(dim=-1)[:, 1:]
        scores = torch.einsum("hc,hnc->hn", query.view(HEADS, -1), self.split(every))
        return (scores / (W / HEADS) ** 0.5).softmax(dim=-1)[:, 1:]

    def check(self, selection: Selection, expected: Rows) -> None:
        order, rows, sources = expected
        assert selection.order.tolist() == order
        made = np.tanh(rows @ as_array(self.weight))
        np.testing.assert_allclose(as_array(selection.features), made, atol=1e-12)
        np.testing.assert_allclose(as_array(selection.sources), sources, atol=1e-6)


seeds = given(seed=st.integers(0, 9999), k=st.integers(2, N))
few = settings(max_examples=12)


@seeds
@few
def test_prumerge_is_the_reference(seed: int, k: int) -> None:
    t = Tower(seed)
    parts = [as_array(part) for part in (t.h, t.q_cls, t.keys, t.k_cls)]
    t.check(PruMerge().select(t.tokens, k), prumerge(*parts, k - 1))


@pytest.mark.parametrize("form", ["plain", "plus"])
@pytest.mark.parametrize("seed", range(1, 9))
def test_prumerge_finds_its_own_number_as_released(form: Any, seed: int) -> None:
    t = Tower(seed)
    attention = as_array(t.attention(-1, joined=True)[0])
    assert 0 < outlier_ratio(attention) <= 1 / 3  # where the released code does not fail
    kept: Any = round(N * outlier_ratio(attention))
    if form == "plus":
        kept = prumerge_plus_kept(attention)
        assert len(kept) < N  # where nothing is dropped there is no row more
    parts = [as_array(part) for part in (t.h, t.q_cls, t.keys, t.k_cls)]
    t.check(PruMerge(form=form, size="adaptive").select(t.tokens, 5), prumerge(*parts, kept))


@pytest.mark.parametrize("k", [2, 3, 17, 48])
def test_prumerge_plus_gives_half_of_a_budget_to_a_grid(k: int) -> None:
    t = Tower(3)
    attention = t.attention(-1, joined=True)[0]
    by_attention = attention.argsort(descending=True)[: k // 2].tolist()
    left = [i for i in range(N) if i not in by_attention]
    count = k - 1 - k // 2
    grid = [left[int((i + 0.5) * len(left) / count)] for i in range(count)]
    parts = [as_array(part) for part in (t.h, t.q_cls, t.keys, t.k_cls)]
    t.check(PruMerge(form="plus").select(t.tokens, k), prumerge(*parts, by_attention + grid))


def test_prumerge_without_an_outlier_keeps_one_token() -> None:
    t = Tower(0, sharpness=0.0)  # every patch gets the same
    assert outlier_ratio(as_array(t.attention(-1, joined=True)[0])) == 0
    assert PruMerge(size="adaptive").select(t.tokens, 9).size == 2
    assert PruMerge(form="plus", size="adaptive").select(t.tokens, 9).size == 4  # 0, 16, 32, and 1


@pytest.mark.parametrize(("k", "dominant", "contextual"), [(6, 5, 1), (16, 14, 2), (32, 27, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_visionzip_is_the_reference(seed: int, k: int, dominant: int, contextual: int) -> None:
    t = Tower(seed)
    attention, keys = as_array(t.attention(-2)), as_array(t.split(t.keys))
    expected = visionzip(as_array(t.h), as_array(t.h_cls), attention, keys, dominant, contextual)
    t.check(VisionZip().select(t.tokens, k), expected)


@pytest.mark.parametrize(
    ("method", "blocks"),
    [
        (PruMerge(), [-1, -1]),
        (PruMerge(form="plus"), [-1, -1]),
        (VisionZip(), [-2, -2]),
        (Trim(), []),
    ],
    ids=lambda found: getattr(found, "name", ""),
)
def test_attention_and_keys_are_those_of_the_block_that_the_code_reads(
    method: Any, blocks: list[int]
) -> None:
    t = Tower(0)
    method.select(t.tokens, 9)
    assert t.blocks == blocks


def test_visionzip_splits_the_usual_budgets_as_published() -> None:
    n = 576
    scores = torch.linspace(1, 2, n)
    keys = torch.randn(1, n, 8, generator=torch.Generator().manual_seed(0))
    tokens = VisualTokens(
        torch.eye(n, 3),
        states=torch.eye(n, 3),
        class_states=torch.ones(1, 3),
        project=lambda rows: rows,
        cls_attention=lambda block, joined=False: scores[None],
        vision_keys=lambda block: keys,
    )
    for k, dominant, contextual in ((64, 54, 10), (128, 108, 20), (192, 162, 30), (32, 27, 5)):
        selection = VisionZip().select(tokens, k)
        assert int((selection.sources > 0).sum(dim=1).eq(1).sum()) == dominant - 1
        assert int((selection.sources > 0).sum(dim=1).gt(1).sum()) == contextual
        assert selection.sources[0].sum() == 0  # the class token's row is no patch's


@pytest.mark.parametrize(("form", "sign"), [("released", -1.0), ("paper", 1.0)])
@seeds
@few
def test_trim_is_the_reference(form: Any, sign: float, seed: int, k: int) -> None:
    t = Tower(seed)
    parts = [as_array(part) for part in (t.h, t.image, t.text)]
    t.check(Trim(form=form).select(t.tokens, k), trim(*parts, k - 1, sign))
    t.check(Trim(form=form, size="adaptive").select(t.tokens, k), trim(*parts, None, sign))


def test_trim_reads_the_whole_prompt_where_there_is_one() -> None:
    t = Tower(3)
    with_prompt = dataclasses.replace(t.tokens, clip_prompt=lambda: -t.text)
    question = Trim(text="question")
    assert torch.equal(Trim().weight(with_prompt), -Trim().weight(t.tokens))
    assert torch.equal(question.weight(with_prompt), Trim().weight(t.tokens))


def test_trim_by_hand() -> None:
    """Products 3, 1, 2, -1 with the question; as released the lowest are kept."""
    tokens = VisualTokens(
        torch.tensor([[3.0], [1.0], [2.0], [-1.0]]),
        clip_image=torch.tensor([[3.0], [1.0], [2.0], [-1.0]]),
        clip_text=torch.tensor([[1.0]]),
        states=torch.tensor([[3.0], [1.0], [2.0], [-1.0]]),
        project=lambda rows: rows,
    )
    released, paper = Trim().select(tokens, 3), Trim(form="paper").select(tokens, 3)
    assert released.order.tolist() == [3, 1] and paper.order.tolist() == [0, 2]
    assert released.features.flatten().tolist() == [1.0, -1.0, 2.5]  # raster order, then the mean
    assert paper.features.flatten().tolist() == [3.0, 2.0, 0.0]
    assert released.gain.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("values", [[1.0, 2, 3, 4, 5, 6, 7, 100], [1.0] * 9, list(range(20))])
def test_outliers_are_numpys_quartiles(values: list[float]) -> None:
    expected = round(len(values) * outlier_ratio(np.array(values)))
    assert outliers(torch.tensor(values)) == expected


@pytest.mark.parametrize(
    "method", [PruMerge(size="adaptive"), PruMerge("plus", size="adaptive"), Trim(size="adaptive")]
)
def test_where_nothing_is_dropped_there_is_no_row_of_the_dropped(method: Any) -> None:
    assert method.select(picture(n=1), 1).size == 1


@pytest.mark.parametrize("method", [PruMerge(neighbours=0), Trim(), VisionZip()])
def test_a_row_that_is_one_token_is_that_tokens_own_features(method: Any) -> None:
    tokens = picture()  # whose features are not what its projector makes of its states
    selection = method.select(tokens, 9)
    alone = (selection.sources > 0).sum(dim=1) == 1
    patches = selection.sources[alone].argmax(dim=1)
    assert len(patches) >= 7
    assert torch.equal(selection.features[alone], tokens.features[patches])


@pytest.mark.parametrize("method", MERGING, ids=[m.name for m in MERGING])
def test_a_budget_of_one_is_one_patch(method: Any) -> None:
    selection = method.select(Tower(1).tokens, 1)
    assert len(selection) == selection.size == 1


@pytest.mark.parametrize("method", MERGING, ids=[m.name for m in MERGING])
def test_each_of_several_views_is_merged_as_a_picture_of_its_own(method: Any) -> None:
    a, b = Tower(1), Tower(2)
    both = a.tokens, b.tokens

    together = dataclasses.replace(
        a.tokens,
        features=torch.cat([a.tokens.features, a.project(b.h)]),
        clip_image=torch.cat([t.image for t in (a, b)]),
        view=torch.arange(2 * N) // N,
        states=torch.cat([a.h, b.h]),
        class_states=torch.stack([a.h_cls, b.h_cls]),
        cls_attention=lambda block, joined=False: _joined(both, block, joined),
        vision_keys=lambda block: torch.cat([a.split(a.keys), b.split(b.keys)], dim=1),
    )
    alone_b = dataclasses.replace(
        b.tokens, features=a.project(b.h), project=a.project, clip_sentence=lambda: a.text
    )
    parts = [method.select(a.tokens, 9), method.select(alone_b, 8)]
    selection = method.select(together, 17)
    expected = torch.zeros(17, 2 * N)
    expected[:9, :N], expected[9:, N:] = parts[0].sources, parts[1].sources
    assert sorted(selection.order.tolist()) == sorted(
        [*parts[0].order.tolist(), *(parts[1].order + N).tolist()]
    )
    rows = torch.cat([parts[0].features, parts[1].features])
    # Which row is which: the rows' order is the method's.
    place = [int((selection.features - row).abs().sum(dim=1).argmin()) for row in rows]
    assert sorted(place) == list(range(17))
    torch.testing.assert_close(selection.features[place], rows)
    torch.testing.assert_close(selection.sources[place], expected)


def _joined(both: tuple[VisualTokens, ...], block: int, heads: bool) -> torch.Tensor:
    rows = [tokens.cls_attention(block, heads) for tokens in both if tokens.cls_attention]
    return torch.cat(rows, dim=1)


def test_visionzips_rows_of_several_views_come_as_released() -> None:
    """First view: class token, dominant, contextual. Then the others', kind by kind."""
    view = torch.tensor([0] * 12 + [1, 2] * 12)
    g = torch.Generator().manual_seed(0)
    h = torch.randn(36, 4, generator=g)
    tokens = VisualTokens(
        h,
        view=view,
        states=h,
        class_states=10 + torch.arange(3.0)[:, None].expand(3, 4),
        project=lambda rows: rows,
        cls_attention=lambda block, joined=False: torch.linspace(0, 1, 36)[None],
        vision_keys=lambda block: h[None],
    )
    selection = VisionZip(contextual=0.25).select(tokens, 24)  # 1 + 5 + 2 in each view
    parts = (selection.sources > 0).sum(dim=1).tolist()
    assert [min(part, 2) for part in parts] == [0, *[1] * 5, 2, 2, *[1] * 10, 0, 0, 2, 2, 2, 2]
    singles = selection.sources[8:18].argmax(dim=1)
    assert torch.equal(singles, singles.sort().values)
    assert selection.features[[0, 18, 19], 0].tolist() == [10.0, 11.0, 12.0]
