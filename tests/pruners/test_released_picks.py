"""Picks that released functions made of seeded tensors, made again by the methods here.

`released_picks.json` has them with repository, commit, file and function; the code itself is not
here. Inputs are drawn by the functions below, in float32 on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from spare_demo import PRUNERS, VisualTokens
from spare_demo.pruners.inside.v2drop import V2Drop

RELEASED = json.loads(Path(__file__).with_name("released_picks.json").read_text("utf-8"))
FIRST, TEXT = 35, 20  # rows of the prompt before and after the picture


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
