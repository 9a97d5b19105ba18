"""What every method promises, whatever it does; a new one is tested by being in the table."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from drawn_tokens import over, picture, read_through
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo import PRUNERS, Selection, VisualTokens
from spare_demo.models.generate.passes import OutOfMemory
from spare_demo.pruners import LayerPruner, Method, Pruner
from spare_demo.pruners.base import GROUPS

# Those inside the language model have no selection; inside/test_base.py has their contract.
METHODS = [method for method in PRUNERS.values() if not isinstance(method, LayerPruner)]
every_method = pytest.mark.parametrize("method", METHODS, ids=[m.name for m in METHODS])


def sorts() -> dict[str, VisualTokens]:
    """Pictures in which something runs out."""
    usual = picture()
    x, image = usual.features, usual.clip_image
    zero = x.clone()
    zero[[0, 7]] = 0
    same = torch.ones(2, 36, 5)
    flat: dict[str, Any] = {
        "states": torch.ones(36, 10),
        "cls_attention": lambda block, joined=False: torch.full((2 - joined, 36), 1 / 37),
        "attention_received": lambda block: torch.full((36,), 1 / 37),
        "vision_keys": lambda block: same,
        "vision_values": lambda block: same,
        "class_queries": lambda block: same,
    }
    alike = over(usual, features=x[:1].repeat(36, 1), clip_image=image[:1].repeat(36, 1), **flat)
    zeros = dict.fromkeys(("vision_keys", "vision_values", "class_queries"), lambda block: 0 * same)
    flat |= {"states": torch.zeros(36, 10), **zeros}
    nothing = over(usual, features=x * 0, clip_image=image * 0, **flat)
    return {
        "one token": picture(n=1),
        "a prime number of tokens": picture(n=37),
        "identical tokens": over(usual, features=x[:1].repeat(36, 1)),
        "everything identical": alike,
        "zero tokens": over(usual, features=zero),
        "nothing but zeros": nothing,
        "rank 3": over(usual, features=x[:, :3] @ x[:3]),
        "constant relevance": over(usual, clip_image=torch.ones_like(image)),
        "a zero question": over(usual, clip_text=torch.zeros(1, 6)),
        "one dimension": over(usual, features=x[:, :1]),
        "float16": picture(dtype=torch.float16),
        "bfloat16": picture(dtype=torch.bfloat16),
        "float64": picture(dtype=torch.float64),
        "tiny": over(usual, features=x * 1e-30, clip_image=image * 1e-30),
        "huge": over(usual, features=x * 1e30, clip_image=image * 1e30),
        "with gradients": over(usual, features=x.clone().requires_grad_()),
        "two views": picture(view=torch.arange(36) % 2),
        "three uneven views": picture(view=torch.tensor([7] * 2 + [3] * 30 + [5] * 4)),
    }


SORTS = sorts()


def test_the_table_is_the_one_of_the_design() -> None:
    assert list(PRUNERS)[:10] == [
        *("spare", "spare-reconstruction", "spare-normal-relevance"),
        *("cdpruner", "cdpruner-paper", "cdpruner-diversity"),
        *("anti-relevance", "normal-relevance", "random", "uniform"),
    ]
    assert all(name == method.name for name, method in PRUNERS.items())
    controls = {"random", "uniform", "spatial-farthest", "magnitude", "leverage", "column-subset"}
    assert {name for name, method in PRUNERS.items() if method.group == "controls"} == controls


@pytest.mark.parametrize("method", PRUNERS.values(), ids=list(PRUNERS))
def test_a_method_says_in_one_line_what_it_does_and_has_a_group(method: Method) -> None:
    assert method.summary.endswith(".")
    assert "\n" not in method.summary
    assert method.group in GROUPS
    assert (method.group == "inside") == isinstance(method, LayerPruner)
    assert (method.group == "merging") == (method.merges and not method.inside)
    assert bool(method.merging_note) == method.merges


@every_method
def test_a_method_describes_itself(method: Pruner) -> None:
    assert method.title
    assert not method.link or method.link.startswith("https://")
    assert method.text_free is None or not PRUNERS[method.text_free].needs_text
    assert method.seeded == any(f.name == "seed" for f in dataclasses.fields(method))
    for field in dataclasses.fields(method):
        assert field.metadata["label"]
        assert field.metadata["help"]
        for choice in field.metadata["choices"]:
            changed = dataclasses.replace(method, **{field.name: choice})
            assert getattr(changed, field.name) == choice
            assert choice == "adaptive" or changed.select(picture(), 3).size == 3
        for number in field.metadata["limits"] or ():
            changed = dataclasses.replace(method, **{field.name: number})
            assert changed.select(picture(), 3).size == 3
        with pytest.raises(ValueError, match="Choose"):
            dataclasses.replace(method, **{field.name: "nonsense"})


@every_method
def test_a_method_reads_features_where_it_says_so(method: Pruner) -> None:
    tokens = picture()
    changed = dataclasses.replace(tokens, features=picture(seed=1).features)
    one, other = (method.select(given, 9) for given in (tokens, changed))
    same = torch.equal(one.order, other.order)
    if one.sources is not None:
        same &= torch.equal(one.sources, other.sources)
    assert same != method.reads_features or method.name == "holov"  # where they decide nothing


@every_method
def test_picks_whatever_pytorch_makes_by_default(
    method: Pruner, request: pytest.FixtureRequest
) -> None:
    tokens = picture(n=576)
    expected = method.select(tokens, 100)
    with torch.device("meta"):  # the caller's own torch.set_default_device
        assert torch.equal(method.select(tokens, 100).order, expected.order)
    request.getfixturevalue("half_by_default")
    assert torch.equal(method.select(tokens, 100).order, expected.order)


@every_method
@pytest.mark.parametrize("tokens", SORTS.values(), ids=list(SORTS))
def test_k_distinct_tokens_whatever_the_picture(method: Pruner, tokens: VisualTokens) -> None:
    tensors = [t for t in vars(tokens).values() if isinstance(t, torch.Tensor)]
    before = [t.clone() for t in tensors]
    whole = method.select(tokens, tokens.n)
    for k in sorted({1, 2, 5, tokens.n // 2, tokens.n - 1, tokens.n}):
        if not 1 <= k <= tokens.n:
            continue
        selection = method.select(tokens, k)
        assert len(selection) == len(set(selection.order.tolist()))
        assert selection.size == k
        assert selection.check(tokens.n).order.dtype == torch.long
        assert torch.equal(selection.order, method.select(tokens, k).order)
        assert (selection.features is not None) == (selection.sources is not None) == method.merges
        if selection.features is not None and selection.sources is not None:
            assert selection.features.shape == (k, tokens.features.shape[1])
            assert selection.features.dtype == tokens.features.dtype
            assert torch.isfinite(selection.features).all()
            assert not selection.features.requires_grad
            assert selection.sources.shape == (k, tokens.n)
            assert float(selection.sources.min()) >= 0
            assert selection.sources[:, selection.order].amax(dim=0).min() == 1
        if selection.gain is not None:
            assert torch.isfinite(selection.gain).all()
            assert not selection.gain.requires_grad
        if method.nested:
            assert torch.equal(selection.order, whole.order[:k])
    assert all(torch.equal(old, new) for old, new in zip(before, tensors, strict=True))
    weight = method.weight(tokens)
    assert weight is None or (weight.shape == (tokens.n,) and bool(torch.isfinite(weight).all()))


@every_method
@given(n=st.integers(1, 50), d=st.integers(1, 40), seed=st.integers(0, 999), data=st.data())
@settings(max_examples=15)
def test_selections_are_nested_where_declared(
    method: Pruner, n: int, d: int, seed: int, data: st.DataObject
) -> None:
    views = data.draw(st.integers(1, 4))
    view = torch.randint(0, views, (n,), generator=torch.Generator().manual_seed(seed))
    tokens = picture(n, d, seed, view=view)
    large = data.draw(st.integers(1, n))
    small = data.draw(st.integers(1, large))
    many, few = method.select(tokens, large), method.select(tokens, small)
    if method.nested:
        assert torch.equal(many.prefix(small).order, few.order)
    assert few.size == small
    assert torch.equal(few.kept, few.order.sort().values)


class Own(Pruner):
    """A method of someone's own."""

    name, title, summary = "own", "Own", "Whatever it is told."

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def _select(self, tokens: VisualTokens, k: int) -> Selection:
        return self.returned(k)


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (lambda k: Selection(range(k // 2)), "asked for 8 visual tokens and kept 4. Let its"),
        (lambda k: Selection(range(2 * k)), "asked for 8 visual tokens and kept 16. Let its"),
        (lambda k: list(range(k)), "returned no Selection. Let it return one"),
        (lambda k: Selection(range(100, 100 + k)), "failed: Patch index 107 does not exist"),
        (lambda k: Selection([0] * k), r"failed in line \d+ of .*contract: Patch index 0 is in"),
        (lambda k: Selection([[0.5] * k]), r"failed in line \d+ of .*contract: "),
        (lambda k: int("x"), r"failed in line \d+ of .*contract: invalid literal for int"),
        (lambda k: {}[k], r"failed in line \d+ of .*contract: KeyError: 8"),
        (lambda k: torch.ones(2) @ torch.ones(3), r"failed in line \d+ of .*: RuntimeError: "),
    ],
)
def test_what_is_not_a_set_of_the_budget_is_refused(returned: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"The method 'own' was.*{problem}"):
        Own(returned).select(picture(), 8)


@pytest.mark.parametrize("kind", [OutOfMemory, torch.OutOfMemoryError])
def test_memory_that_runs_out_in_a_method_is_no_fault_of_the_method(kind: type) -> None:
    def run_out(k: int) -> Selection:
        raise kind("Full.")

    with pytest.raises(kind, match=r"^Full\.$"):
        Own(run_out).select(picture(), 8)


@pytest.mark.parametrize(
    "change",
    [lambda x: x.mul_(2), lambda x: np.divide(x, 2, out=x.numpy())],  # the latter uncounted
    ids=["PyTorch", "NumPy"],
)
def test_a_method_that_changes_the_features_is_refused(change: Any) -> None:
    tokens = picture()
    own = Own(lambda k: (change(tokens.features), Selection(range(k)))[1])
    with pytest.raises(ValueError, match="changed their features"):
        own.select(tokens, 8)
    with torch.inference_mode():  # where PyTorch does not count
        assert Own(lambda k: Selection(range(k))).select(picture(), 8).size == 8


def test_features_alone_are_no_visual_tokens() -> None:
    features: Any = picture().features
    with pytest.raises(ValueError, match=r"not Tensor\. Pass VisualTokens\(features\)"):
        PRUNERS["magnitude"].select(features, 8)


def test_the_uniform_grid_declares_that_it_is_not_nested() -> None:
    assert not PRUNERS["uniform"].nested
    few, many = (set(PRUNERS["uniform"].select(picture(), k).order.tolist()) for k in (4, 9))
    assert not few <= many


@every_method
def test_an_impossible_budget_is_refused(method: Pruner) -> None:
    for budget in (0, -1, 37, True, False, 3.0, 2.5, float("nan"), "3", None, [3], 10**30):
        with pytest.raises(ValueError, match="Choose a whole number from 1 to 36"):
            method.select(picture(), budget)


@every_method
def test_a_budget_may_be_any_kind_of_whole_number(method: Pruner) -> None:
    selection = method.select(picture(), np.int64(5))
    assert torch.equal(selection.order, method.select(picture(), 5).order)


@every_method
def test_without_a_question_methods_run_or_say_that_they_need_text(method: Pruner) -> None:
    usual = picture()
    none = {"clip_text": None, "words": None}
    for tokens in (over(usual, clip_image=None, **none), over(usual, **none)):
        if method.needs_text:
            with pytest.raises(ValueError, match=f"needs text.*{method.text_free or 'question'}"):
                method.select(tokens, 4)
            with pytest.raises(ValueError, match="needs text"):
                method.weight(tokens)
        else:
            assert torch.equal(method.select(tokens, 4).order, method.select(usual, 4).order)
            assert method.weight(usual) is None


@every_method
def test_views_share_the_budget_and_take_turns(method: Pruner) -> None:
    view = torch.tensor([2, 0, 1]).repeat(12)
    tokens = picture(view=view)
    for k in (1, 2, 7, 9, 36):
        order = method.select(tokens, k).order
        counts = [int((view[order] == v).sum()) for v in (0, 1, 2)]
        shares = [k // 3 + (v < k % 3) for v in range(3)]
        # A row that is merged, or the class token's, is no pick.
        assert counts == shares or (
            method.merges
            and method.select(tokens, k).size == k
            and all(min(1, s) <= c <= s for c, s in zip(counts, shares, strict=True))
        )
        if method.nested:
            assert view[order].tolist() == [t % 3 for t in range(k)]


@every_method
def test_a_view_that_runs_out_leaves_its_share_to_the_others(method: Pruner) -> None:
    view = torch.tensor([0] * 2 + [1] * 30 + [2] * 4)
    order = method.select(picture(view=view), 13).order
    counts = [int((view[order] == v).sum()) for v in (0, 1, 2)]
    fewer = all(count <= share for count, share in zip(counts, [2, 7, 4], strict=True))
    assert counts == [2, 7, 4] or (method.merges and fewer)


@pytest.mark.parametrize("name", ["spare-reconstruction", "cdpruner-diversity"])
def test_each_view_is_picked_as_a_picture_of_its_own(name: str) -> None:
    method = PRUNERS[name]
    for view in (torch.arange(36) // 12, torch.tensor([0] * 5 + [1] * 20 + [2] * 11)):
        tokens = picture(view=view)
        order = method.select(tokens, 36).order
        for v in range(3):
            members = (view == v).nonzero().flatten()
            alone = method.select(VisualTokens(tokens.features[members]), len(members)).order
            assert order[view[order] == v].tolist() == members[alone].tolist()


# Those whose choice depends on where a token lies or on the axes of the features, or whose last of
# d picks is a tie, or the first: two tokens can be nearest to each other.
PLACED = (
    *("random", "uniform", "spatial-farthest", "cdpruner-diversity", "prumerge-plus", "visionzip"),
    *("dart-diversity", "column-subset", "divprune", "hiprune", "holov", "vscan"),
)
SYMMETRIC = [m for m in METHODS if m.name not in PLACED]


@pytest.mark.parametrize("method", SYMMETRIC, ids=[m.name for m in SYMMETRIC])
@given(seed=st.integers(0, 999))
@settings(max_examples=10)
def test_the_tokens_count_and_not_their_numbers_axes_or_scale(method: Pruner, seed: int) -> None:
    tokens = picture(seed=seed, dtype=torch.float64)
    expected = method.select(tokens, 12).order
    g = torch.Generator().manual_seed(seed)

    shuffle = torch.randperm(36, generator=g)
    shuffled = dataclasses.replace(
        read_through(tokens, lambda _, v: v[shuffle] if v.ndim == 1 else v[:, shuffle]),
        features=tokens.features[shuffle],
        clip_image=tokens.clip_image[shuffle],
        states=tokens.states[shuffle],
    )
    assert torch.equal(shuffle[method.select(shuffled, 12).order], expected)

    axes = torch.linalg.qr(torch.randn(12, 12, generator=g, dtype=torch.float64)).Q
    words = tokens.words().double() @ axes
    turned = over(
        tokens,
        features=37 * tokens.features @ axes,
        clip_image=0.1 * tokens.clip_image,
        words=lambda: words,
    )
    assert torch.equal(method.select(turned, 12).order, expected)


@every_method
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_keeps_the_same_tokens(method: Pruner) -> None:
    tokens = picture(n=576, d=64)
    tensors = {k: v for k, v in vars(tokens).items() if isinstance(v, torch.Tensor)}
    moved = {name: value.cuda() for name, value in tensors.items()}
    on_gpu = read_through(dataclasses.replace(tokens, **moved), lambda _, values: values.cuda())
    selection = method.select(on_gpu, 64)
    assert selection.order.device.type == "cpu"
    assert torch.equal(selection.order, method.select(tokens, 64).order)
