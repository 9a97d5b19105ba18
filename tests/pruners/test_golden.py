"""Picks that released selection functions made once, replayed.

golden_picks.json was recorded on 24 and 25 November 2026: the operations of each named function on
the tensors that `released_inputs` draws, on the CPU, in float32 where `precision` says nothing
else. No commit is given where the copy that was read had none, and `not_recorded` names the methods
whose code could not be had. `ordered` says whether the function keeps the order of picking.

Of a run:
    views     into how many views of equal size the tokens are split; one where it is not given.
    options   settings of the method here that make it the function.
    shared    how many picks are the same. Where it is not given, all are.
    lengths   of merging methods, the Euclidean length of each row after the projector.

`released_picks.json` has those of three more, with repository, commit, file and function; their
inputs are drawn by functions of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.inside.v2drop import V2Drop

HERE = Path(__file__).parent
GOLDEN = json.loads((HERE / "golden_picks.json").read_text(encoding="utf-8"))
RELEASED = json.loads((HERE / "released_picks.json").read_text(encoding="utf-8"))
RUNS = [(record, run) for record in GOLDEN["records"] for run in record["runs"]]
N = 576
FIRST, TEXT = 35, 20  # rows of the prompt before and after the picture


def released_inputs(seed: int, kind: str = "clusters") -> VisualTokens:
    """576 tokens, in 60 clusters or all noise, five words, and sharp attention, all float32.

    kind: clusters, noise, or wide, which is noise 1024 wide with nothing but CLIP's embeddings.
    """
    random = np.random.RandomState(seed)  # whose numbers are the same in every version

    def drawn(*shape: int) -> Tensor:
        return torch.from_numpy(random.standard_normal(shape)).float()

    def attention(rows: int) -> Tensor:
        weight = np.exp(1.5 * random.standard_normal((rows, N)))
        return torch.from_numpy(weight / (1.1 * weight.sum(axis=1, keepdims=True))).float()

    if kind == "wide":
        return VisualTokens(drawn(N, 1024), drawn(N, 24), drawn(2, 24))
    w, d = (48, 32) if kind == "clusters" else (128, 128)
    if kind == "clusters":
        centres = random.standard_normal((60, w))
        h = centres[random.randint(0, 60, N)] + 0.7 * random.standard_normal((N, w))
    else:
        h = random.standard_normal((N, w))
    weights = random.standard_normal((w, d))
    words = drawn(5, d)
    by_class, early, late = attention(4), attention(1)[0], attention(1)[0]
    image, text, prompt, class_state = drawn(N, 24), drawn(2, 24), drawn(24), drawn(1, w)
    query, keys = drawn(w), drawn(1 + N, w)  # the class token's query; its key, and the patches'
    by_whole_width = (keys @ query / w**0.5).softmax(dim=0)[None, 1:]
    return VisualTokens(
        torch.from_numpy(np.tanh(h @ weights / 7)).float(),
        clip_image=image,
        clip_text=text,
        states=torch.from_numpy(h).float(),
        class_states=class_state,
        project=lambda rows: torch.tanh(rows.double() @ torch.from_numpy(weights) / 7),
        words=lambda: words,
        cls_attention=lambda block, joined=False: by_whole_width if joined else by_class,
        attention_received=lambda block: early if block > 0 else late,
        vision_keys=lambda block: keys[1:].view(N, 4, w // 4).transpose(0, 1),
        clip_sentence=lambda: prompt,
    )


def same_order(record: Any, run: Any, order: list[int]) -> list[int]:
    """The picks as they are recorded: in the order of picking, or ascending."""
    return order if record["ordered"] and "precision" not in run else sorted(order)


@pytest.mark.parametrize(
    ("record", "run"),
    RUNS,
    ids=[f"{r['method']}-{i}" for r in GOLDEN["records"] for i in range(len(r["runs"]))],
)
def test_picks_are_those_of_the_released_function(record: Any, run: Any) -> None:
    tokens = released_inputs(run["seed"], run.get("kind", "clusters"))
    if "views" in run:
        view = torch.arange(N) * run["views"] // N
        tokens = replace(tokens, view=view, class_states=None)
    if run.get("precision") == "float16":
        states = None if tokens.states is None else tokens.states.half()
        tokens = replace(tokens, features=tokens.features.half(), states=states)
    method: Any = replace(PRUNERS[record["method"]], **run.get("options", {}))
    selection = method.select(tokens, run["budget"])
    order = same_order(record, run, selection.order.tolist())
    if "shared" in run:
        assert len(set(order) & set(run["picks"])) == run["shared"]
    else:
        assert order == run["picks"]
    if "lengths" in run:
        lengths = torch.linalg.vector_norm(selection.features, dim=1)
        assert lengths.tolist() == pytest.approx(run["lengths"], rel=1e-4)


@pytest.mark.parametrize(
    "record",
    [r for r in GOLDEN["records"] if any("shared" in run for run in r["runs"])],
    ids=lambda record: record["method"],
)
def test_deviations_say_how_many_picks_are_the_same(record: Any) -> None:
    differing = [run for run in record["runs"] if "shared" in run]
    assert all(run["shared"] < run["budget"] for run in differing)
    shares = [100 * run["shared"] / run["budget"] for run in differing]
    size = f"Where recorded picks differ, {min(shares):.0f} to {max(shares):.0f} % are the same."
    assert size in PRUNERS[record["method"]].deviations


def test_every_method_is_recorded_or_says_why_not() -> None:
    recorded = [record["method"] for record in GOLDEN["records"]] + list(RELEASED)
    inside = HERE / "inside" / "golden_picks_inside.json"
    recorded += json.loads(inside.read_text(encoding="utf-8"))
    assert sorted([*recorded, *GOLDEN["not_recorded"]]) == sorted(PRUNERS), (
        "Record picks of the released function, or say in not_recorded why there are none."
    )


def holov_inputs(seed: int, n: int, sharpness: float) -> tuple[Tensor, Tensor]:
    """(n, 64) features and (16, n) attention of the class token."""
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 64, generator=g)
    scores = sharpness * torch.randn(16, n + 1, generator=g).mean(dim=0) * 4
    return features, scores.softmax(dim=0)[1:].expand(16, n)


def litelvlm_inputs(seed: int, texts: int) -> tuple[Tensor, ...]:
    """(576, 32) and (texts, 32) in CLIP's space; (64,) query, (576, 64) keys and values."""
    g = torch.Generator().manual_seed(seed)
    shapes = ((576, 32), (texts, 32), (64,), (576, 64), (576, 64))
    return tuple(torch.randn(*shape, generator=g) for shape in shapes)


def v2drop_inputs(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """At each step (1, 631, 16) states before and after the last layer, of all rows."""
    g = torch.Generator().manual_seed(seed)
    while True:
        yield tuple(torch.randn(1, FIRST + 576 + TEXT, 16, generator=g) for _ in "ab")


def cases(method: str) -> Any:
    return pytest.mark.parametrize("case", RELEASED[method]["cases"])


@cases("holov")
def test_holov(case: dict[str, Any]) -> None:
    features, attention = holov_inputs(case["seed"], case["n"], case["sharpness"])
    tokens = VisualTokens(features, cls_attention=lambda block, joined=False: attention)
    order = PRUNERS["holov"].select(tokens, case["k"]).order.tolist()
    picks = case["picks"]  # fewer than k where the code fills up with zero vectors
    assert sorted(order[: len(picks)]) == picks


def test_one_of_the_cases_ends_in_zero_vectors() -> None:
    assert any(len(case["picks"]) < case["k"] for case in RELEASED["holov"]["cases"])


@cases("litelvlm")
def test_litelvlm(case: dict[str, Any]) -> None:
    image, text, query, keys, values = litelvlm_inputs(case["seed"], case["texts"])
    tokens = VisualTokens(
        torch.ones(576, 2),
        image,
        text,
        class_queries=lambda block: query.expand(1, 576, 64),
        vision_keys=lambda block: keys[None],
        vision_values=lambda block: values[None],
    )
    selection = PRUNERS["litelvlm"].select(tokens, case["k"])
    assert selection.kept.tolist() == case["picks"]


@cases("v2drop")
def test_v2drop(case: dict[str, Any]) -> None:
    view: Any = SimpleNamespace(tokens=VisualTokens(torch.ones(576, 2)), layers=32)
    alive = torch.arange(576)
    stops = V2Drop().plan(view, 203).stops
    for stop, kept, (before, hidden) in zip(
        stops, case["kept"], v2drop_inputs(case["seed"]), strict=False
    ):
        reading: Any = SimpleNamespace(before=before[0], hidden=hidden[0], visual=FIRST + alive)
        alive = alive[V2Drop().choose(reading, stop).kept].sort().values
        assert alive.tolist() == kept
    assert len(stops) == len(case["kept"]) == 3
