"""The shared loop against its definitions, by hand, and where numbers run out."""

from __future__ import annotations

import itertools

import pytest
import references
import torch
from drawn_tokens import picture
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.cosines import Cosines
from spare_demo.pruners.greedy import Greedy, greedy, select_together


def pick(x: torch.Tensor, merit: torch.Tensor, k: int) -> tuple[list[int], torch.Tensor]:
    order, gain, _ = greedy(x[None], merit[None], k)
    return order[0].tolist(), gain[0]


def random(n: int, d: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, d, generator=g, dtype=torch.float64),
        torch.rand(n, generator=g, dtype=torch.float64) + 0.1,
    )


def near_low_rank(rank: int, noise: float, seed: int = 0) -> torch.Tensor:
    """576 float32 rows of rank `rank` but for `noise`, of log-normal lengths."""
    g = torch.Generator().manual_seed(seed)
    low = torch.randn(576, rank, generator=g) @ torch.randn(rank, 128, generator=g)
    x = low / low.std() + noise * torch.randn(576, 128, generator=g)
    return x * torch.exp(0.6 * torch.randn(576, 1, generator=g))


@given(n=st.integers(2, 14), seed=st.integers(0, 999), data=st.data())
@settings(max_examples=40)
def test_picks_maximise_the_determinant(n: int, seed: int, data: st.DataObject) -> None:
    d = data.draw(st.integers(2, 20))
    x, merit = random(n, d, seed)
    rows = merit.sqrt()[:, None] * x / x.norm(dim=1, keepdim=True)
    k = min(n, d)
    order, gain = pick(x, merit, k)
    kernel = rows @ rows.T
    assert order == references.greedy_log_determinant(kernel.numpy(), k)
    for t in range(k):  # the gains multiply up to the determinant
        chosen = kernel[order[: t + 1]][:, order[: t + 1]]
        torch.testing.assert_close(gain[: t + 1].prod(), torch.linalg.det(chosen))


@given(seed=st.integers(0, 999), k=st.integers(1, 30))
@settings(max_examples=20)
def test_views_in_one_batch_are_picked_each_by_itself(seed: int, k: int) -> None:
    views = [random(30, 8, seed + v) for v in range(3)]
    order, gain, _ = greedy(
        torch.stack([x for x, _ in views]), torch.stack([m for _, m in views]), k
    )
    for v, (x, merit) in enumerate(views):
        alone, value = pick(x, merit, k)
        assert order[v].tolist() == alone
        torch.testing.assert_close(gain[v], value)


def test_when_nothing_independent_is_left_merit_decides() -> None:
    x = torch.tensor([[1.0, 0], [2, 0], [0, 3], [1, 1], [0, 0]])
    order, gain = pick(x, torch.tensor([5.0, 1, 2, 3, 9]), 5)
    # 0 has the most merit among the non-zero; then 2 (2 * 1) before 3 (3 / 2); then all lie in the
    # plane, so by merit: the zero token 4, then 3, then 1.
    assert order == [0, 2, 4, 3, 1]
    assert gain.tolist() == pytest.approx([5, 2, 0, 0, 0])


def test_tokens_of_no_merit_come_last_in_their_order() -> None:
    order, gain = pick(torch.eye(4), torch.tensor([0.0, 1, 0, 2]), 4)
    assert order == [3, 1, 0, 2]
    assert gain.tolist() == pytest.approx([2, 1, 0, 0])


def test_no_merit_at_all_keeps_the_order_of_the_tokens() -> None:
    order, gain = pick(torch.eye(3), torch.zeros(3), 3)
    assert order == [0, 1, 2]
    assert gain.tolist() == [0, 0, 0]


@given(seed=st.integers(0, 999), d=st.sampled_from([3, 7, 60]))
@settings(max_examples=40)
def test_ties_go_to_the_lower_index(seed: int, d: int) -> None:
    # Every token three times, in random places and lengths: the first of each set must win,
    # although its copies differ from it by rounding.
    x, _ = random(7, d, seed)
    g = torch.Generator().manual_seed(seed)
    source = torch.arange(7).repeat(3)[torch.randperm(21, generator=g)]
    copies = x[source] * (torch.rand(21, 1, generator=g, dtype=torch.float64) + 0.5)
    merit = x.square().sum(1)[source]
    order, _ = pick(copies, merit, min(7, d))
    first = {int(s): source.tolist().index(s) for s in range(7)}
    assert order == [first[int(source[i])] for i in order]


@pytest.mark.parametrize("apart", [1e-2, 1e-3, 1e-4, 1e-5])
def test_twins_are_ties_however_near_each_other_all_rows_lie(apart: float) -> None:
    for seed in range(5):
        x, _ = random(40, 80, seed)
        x = x[0] / x[0].norm() + apart * x[1:] / x[1:].norm(dim=1, keepdim=True)
        order, _ = pick(torch.cat([x, 3 * x]), torch.ones(78), 30)
        assert max(order) < 39


def test_what_few_picks_are_is_what_the_first_of_many_are() -> None:
    """Also where tokens run out in the round in which two of them differ by rounding alone."""
    merit = torch.tensor([1.0] + 5 * [1e-7], dtype=torch.float64)
    for size, apart in itertools.product((1e-3, 1e-2, 1e-1), (5e-15, 1e-14, 2e-14)):
        x = torch.zeros(6, 3, dtype=torch.float64)
        x[[0, 5], 0] = 1
        for token, sine in ((1, size), (2, (size**2 + apart) ** 0.5)):
            x[token, 0], x[token, token] = (1 - sine**2) ** 0.5, sine
        x[3:5] = x[1:3]
        assert pick(x, merit, 6)[0][:2] == pick(x, merit, 2)[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("d", [10, 90])
def test_every_precision_is_picked_as_its_values_in_float64(dtype: torch.dtype, d: int) -> None:
    x, rho = random(60, d, seed=1)
    x = x.to(dtype)
    exact = references.as_array(x)
    order, gain = pick(x, rho * x.double().square().sum(1), min(60, d))
    assert order == references.spare(exact, rho.numpy(), min(60, d))
    assert gain.dtype == torch.float64


@pytest.mark.parametrize(("rank", "noise"), [(64, 0.05), (16, 1e-3), (64, 1e-4)])
def test_nearly_rank_deficient_features_are_picked_as_in_float64(rank: int, noise: float) -> None:
    x = near_low_rank(rank, noise)
    _, rho = random(576, 1, seed=2)
    order, gain = pick(x, rho * x.double().square().sum(1), 128)
    assert order == references.spare(references.as_array(x), rho.numpy(), 128)
    assert (gain > 0).all()


@pytest.mark.parametrize("noise", [1e-6, 1e-7, 0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_rank_deficient_features_still_give_distinct_tokens(
    noise: float, dtype: torch.dtype
) -> None:
    x = near_low_rank(16, noise).to(dtype)
    order, gain = pick(x, torch.ones(576), 192)
    assert len(set(order)) == 192
    assert torch.isfinite(gain).all()
    assert (gain >= 0).all()


def test_exact_dependence_in_float32_is_recognised() -> None:
    x = near_low_rank(16, 0)
    _, gain = pick(x, torch.ones(576), 20)
    assert (gain[:16] > 0).all()
    assert (gain[16:] == 0).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_very_short_and_very_long_rows_are_safe(scale: float) -> None:
    x, merit = random(12, 5, seed=3)
    order, _ = pick((x * scale).float(), merit, 12)
    assert order[:5] == pick(x.float(), merit, 12)[0][:5]
    extreme, gain = pick(x, merit * scale**4, 12)
    assert extreme == pick(x, merit, 12)[0]
    assert torch.isfinite(gain).all()


def test_margins_tell_near_ties_from_clear_picks() -> None:
    x = torch.eye(5)
    # 4 is picked by half; 0 and 1 tie; 1 stands almost alone above 2; 2 above 3 by a quarter.
    merit = torch.tensor([1.0, 1.0, 1.0 - 1e-5, 0.75, 2.0], dtype=torch.float64)
    picks = greedy(x[None], merit[None], 5)
    assert picks.order[0].tolist() == [4, 0, 1, 2, 3]
    assert picks.margin[0].tolist() == pytest.approx([0.5, 0, 1e-5, 0.25, 1], rel=1e-4)


def test_what_merely_follows_by_merit_was_no_close_call() -> None:
    picks = greedy(torch.ones(1, 4, 3), torch.ones(1, 4), 4)
    assert picks.order[0].tolist() == [0, 1, 2, 3]
    assert picks.margin[0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(("rank", "noise"), [(64, 1e-4), (16, 1e-6), (16, 0)])
def test_merits_side_by_side_are_picked_each_by_itself(rank: int, noise: float) -> None:
    x = torch.stack([near_low_rank(rank, noise, seed) for seed in (0, 1)])  # two views
    _, rho = random(1152, 1, seed=2)
    merit = torch.stack([rho.view(2, 576), x.double().square().sum(-1), torch.ones(2, 576)])
    for k in (5, 40, 130):  # rows made as they are asked for, and all at once
        picks = greedy(x, merit, k)
        for i in range(3):
            for v in range(2):
                alone, gain = pick(x[v], merit[i, v], k)
                assert picks.order[i, v].tolist() == alone
                torch.testing.assert_close(picks.gain[i, v], gain, rtol=1e-6, atol=0)


def test_methods_together_select_as_each_alone() -> None:
    tokens = picture(50, 30, view=torch.arange(50) % 3)
    methods = {label: method for label, method in PRUNERS.items() if isinstance(method, Greedy)}
    assert {"spare", "cdpruner"} <= set(methods)
    together = select_together(methods, tokens, 20)
    assert list(together) == list(methods)
    for label, method in methods.items():
        assert together[label].order.tolist() == method.select(tokens, 20).order.tolist()
    assert select_together({}, tokens, 20) == {}
    with pytest.raises(ValueError, match="'spare' needs text"):
        select_together(methods, VisualTokens(tokens.features), 20)
    with pytest.raises(ValueError, match="from 1 to 50"):
        select_together(methods, tokens, 51)


@pytest.mark.parametrize("name", ["spare-reconstruction", "cdpruner-diversity", "column-subset"])
@given(rank=st.integers(1, 9), seed=st.integers(0, 999), scale=st.sampled_from([1e-12, 1, 1e12]))
@example(rank=2, seed=17, scale=1)  # the last direction's lowest index has hardly any of it
@settings(max_examples=8)
def test_beyond_the_rank_a_selection_says_that_nothing_is_left(
    name: str, rank: int, seed: int, scale: float
) -> None:
    g = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(30, rank, generator=g, dtype=torch.float64) for _ in range(2))
    tokens = VisualTokens(scale * left @ right.T)
    whole = PRUNERS[name].select(tokens, 30)
    assert whole.informed == rank == int(torch.linalg.matrix_rank(tokens.features))
    for k in (1, rank, rank + 1, 30):
        assert whole.prefix(k).informed == PRUNERS[name].select(tokens, k).informed == min(k, rank)


@given(seed=st.integers(0, 999), k=st.integers(1, 24))
@settings(max_examples=12)
def test_of_views_that_run_out_apart_the_informed_picks_are_counted(seed: int, k: int) -> None:
    g = torch.Generator().manual_seed(seed)
    ranks, rows = (2, 12, 5), []
    for rank in ranks:
        factors = (torch.randn(s, rank, generator=g, dtype=torch.float64) for s in (12, 16))
        rows.append(next(factors) @ next(factors).T)
    tokens = VisualTokens(torch.cat(rows), view=torch.arange(36) // 12)
    methods = {name: PRUNERS[name] for name in ("spare-reconstruction", "cdpruner-diversity")}
    for name, selection in select_together(methods, tokens, k).items():
        given_ = (selection.order // 12).bincount(minlength=3).tolist()
        expected = sum(min(share, rank) for share, rank in zip(given_, ranks, strict=True))
        assert selection.informed == PRUNERS[name].select(tokens, k).informed == expected
        assert PRUNERS[name].select(tokens, 36).prefix(k).informed == expected


def test_a_method_that_never_runs_out_says_nothing() -> None:
    tokens = VisualTokens(torch.ones(4, 2))
    assert PRUNERS["random"].select(tokens, 3).informed is None
    assert PRUNERS["divprune"].select(tokens, 3).prefix(2).informed is None


@given(n=st.integers(1, 60), k=st.integers(1, 60), seed=st.integers(0, 999))
@settings(max_examples=30)
def test_rows_as_they_are_asked_for_are_those_of_the_product(n: int, k: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, 5, generator=g, dtype=torch.float64)
    cosines = Cosines(rows, takes=k)
    for left in range(k, max(0, k - 4), -1):
        pick = int(torch.randint(0, n, (1,), generator=g))
        value = torch.rand(n, generator=g, dtype=torch.float64)
        got = torch.from_numpy(cosines.row(pick, value.numpy(), left))
        torch.testing.assert_close(got, rows @ rows[pick], rtol=0, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_picks_the_same_tokens() -> None:
    x, merit = random(576, 700, seed=4)
    order, gain, _ = greedy(x.cuda()[None], merit.cuda()[None], 192)
    expected, value = pick(x, merit, 192)
    assert order[0].tolist() == expected
    torch.testing.assert_close(gain[0].cpu(), value)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_says_the_same_of_what_is_beyond_the_rank() -> None:
    x = near_low_rank(16, 0)
    for name in ("spare-reconstruction", "cdpruner-diversity"):
        there = PRUNERS[name].select(VisualTokens(x.cuda()), 40)
        assert there.informed == PRUNERS[name].select(VisualTokens(x), 40).informed == 16
