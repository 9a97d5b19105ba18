"""Picks that released code made inside a language model once, made again by `choose`.

golden_picks_inside.json was recorded on 25 November 2026: the operations of each named function, in
float32 on the CPU, on what `DrawnReading` and `drawn_layer` draw. No commit is given where the copy
that was read had none. Of a case:

    kept    at each step the visual rows that stay, ascending.
    shared  how many of them are the same; where it is not given, all are.
    groups  at each step the rows that are merged into one, each list ascending.
    scale   of the states; at 40 all densities of the released clustering are 0.
    alike   of the pairs that are merged at the first step, the share that is merged here as well;
            where it is not given, all groups are the same.
    heads   into how many the keys were split for the released function.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spare_demo import PRUNERS, VisualTokens
from spare_demo.models.generate.layerwise import LayerReading
from spare_demo.pruners.plan import Choice

GOLDEN = json.loads(Path(__file__).with_name("golden_picks_inside.json").read_text("utf-8"))
FIRST, N, TEXT = 35, 576, 20  # rows of the prompt before, of and after the picture
WIDTH, HEADS = 64, 28


def drawn(random: np.random.RandomState, *shape: int) -> Tensor:
    return torch.from_numpy(random.standard_normal(shape)).float()


def rotary(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Llama's (T, width) rotary factors of T positions."""
    angle = positions[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    angle = torch.cat([angle, angle], dim=1)
    return angle.cos(), angle.sin()


class DrawnReading:
    """What a method may read of v visual rows at T positions, all of it random."""

    def __init__(self, random: np.random.RandomState, v: int, positions: Tensor, scale: float):
        rows = len(positions)
        self.visual, self.text = torch.arange(FIRST, FIRST + v), slice(FIRST + v, rows)
        self.hidden = scale * drawn(random, rows, WIDTH)
        self.image_inputs = drawn(random, N, WIDTH) / 4
        self.text_inputs = drawn(random, TEXT, WIDTH) / 4
        self.cos, self.sin = rotary(positions, 32)
        self.weights = (2 * drawn(random, HEADS, TEXT, rows)).softmax(dim=2)
        self.cached = drawn(random, rows, WIDTH)

    def attention(self, rows: Sequence[int], ahead: bool = False) -> Tensor:
        return self.weights[:, [row - self.text.start for row in rows]]

    def keys(self) -> Tensor:
        return self.cached

    def normed(self) -> Tensor:
        return self.hidden


def drawn_layer(random: np.random.RandomState) -> SimpleNamespace:
    """A layer's norm and attention, four heads wide."""
    query, key = drawn(random, WIDTH, WIDTH) / 8, drawn(random, WIDTH, WIDTH) / 8
    return SimpleNamespace(
        input_layernorm=lambda x: x * (x.square().mean(dim=-1, keepdim=True) + 1e-5).rsqrt(),
        self_attn=SimpleNamespace(
            q_proj=lambda x: x @ query, k_proj=lambda x: x @ key, head_dim=16, scaling=16**-0.5
        ),
    )


def case_plan(name: str, case: Any) -> Any:
    method: Any = replace(PRUNERS[name], **case.get("options", {}))
    return method.plan(SimpleNamespace(tokens=VisualTokens(torch.ones(N, 2)), layers=32), case["k"])


def choices(name: str, case: Any) -> Iterator[Choice]:
    """What the method chooses at each of its stops, of as many visual rows as are left."""
    plan = case_plan(name, case)
    random = np.random.RandomState(case["seed"])
    v, positions = N, torch.arange(FIRST + N + TEXT)
    for stop in plan.stops:
        reading: Any = DrawnReading(random, v, positions, case.get("scale", 1.0))
        choice = plan.method.choose(reading, stop)
        yield choice
        stays = torch.ones(len(positions), dtype=torch.bool)
        stays[FIRST : FIRST + v] = False
        stays[FIRST + choice.kept] = True
        v = stop.keep + stop.merged
        positions = positions[: FIRST + v + TEXT] if plan.method.repacks else positions[stays]


def pairs(groups: list[list[int]]) -> set[tuple[int, int]]:
    return {pair for group in groups for pair in itertools.combinations(group, 2)}


def cases(*names: str) -> Any:
    found = [(name, case) for name in names for case in GOLDEN[name]["cases"]]
    ids = [f"{name}-{case['k']}-{case['seed']}" for name, case in found]
    return pytest.mark.parametrize(("name", "case"), found, ids=ids)


@cases("fastv", "dart", "sparsevlm", "sparsevlm-plus")
def test_the_rows_that_stay(name: str, case: Any) -> None:
    found = [choice.kept.sort().values.tolist() for choice in choices(name, case)]
    if "shared" in case:
        assert len(set(found[0]) & set(case["kept"][0])) == case["shared"]
    else:
        assert found == case["kept"]


@cases("sparsevlm")
def test_the_rows_that_are_merged(name: str, case: Any) -> None:
    for step, choice in enumerate(choices(name, case)):
        groups = sorted(row.nonzero().flatten().tolist() for row in choice.merge)
        recorded = sorted(case["groups"][step])
        if "alike" not in case:
            assert groups == recorded
            continue
        assert sorted(itertools.chain(*groups)) == sorted(itertools.chain(*recorded))
        if step == 0:
            there = pairs(recorded)
            assert len(pairs(groups) & there) / len(there) == pytest.approx(case["alike"], abs=1e-3)


def test_deviations_say_how_much_is_the_same() -> None:
    for several in (False, True):
        same = [
            100 * case["shared"] / len(case["kept"][0])
            for case in GOLDEN["dart"]["cases"]
            if (case["heads"] > 1) == several
        ]
        size = f"leaves {min(same):.0f} to {max(same):.0f} % of recorded picks the same"
        assert size in PRUNERS["dart"].deviations
    alike = {f"{100 * c['alike']:.0f}" for c in GOLDEN["sparsevlm"]["cases"] if "alike" in c}
    assert f"{alike.pop()} % of the pairs" in PRUNERS["sparsevlm"].deviations and not alike


@cases("pyramiddrop")
def test_the_rows_that_stay_of_a_pyramid(name: str, case: Any) -> None:
    random = np.random.RandomState(case["seed"])
    layer, plan = drawn_layer(random), case_plan(name, case)
    decoder = SimpleNamespace(layers=[None, layer])
    cache: Any = SimpleNamespace(layers=[SimpleNamespace(keys=torch.zeros(1))])
    v = N
    for stop, kept in zip(plan.stops, case["kept"], strict=True):
        states = drawn(random, 1, FIRST + v + TEXT, WIDTH)
        visual = torch.arange(FIRST, FIRST + v)
        cos, sin = rotary(torch.arange(states.shape[1]), 16)
        inputs, factors = (states, states), (cos[None], sin[None])
        reading = LayerReading(decoder, cache, 1, *inputs, visual, FIRST + v, inputs, factors)
        assert plan.method.choose(reading, stop).kept.sort().values.tolist() == kept
        v = stop.keep
