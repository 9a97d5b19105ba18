"""Ticks are round, and a curve of another length is refused by its name."""

from __future__ import annotations

import math

import pytest

from spare_demo.render.chart import round_ticks
from spare_demo.render.curves import CurveChart


@pytest.mark.parametrize("top", [3e-12, 1e-3, 0.2, 0.999, 1.0, 7, 100, 2345.6])
def test_ticks_are_few_and_reach_the_top(top: float) -> None:
    ticks = round_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] >= top * (1 - 1e-9)
    assert 3 <= len(ticks) <= 6
    first = ticks[1] / 10 ** math.floor(math.log10(ticks[1]) + 1e-9)
    assert first == pytest.approx(1) or first == pytest.approx(2) or first == pytest.approx(5)


def test_every_curve_has_a_value_for_each_budget() -> None:
    pair = [0.2, 0.1]

    def make(budgets: list[int], series: dict[str, list[float]], random: list[float]) -> None:
        CurveChart(budgets, series, (pair[: len(budgets)], random, random), 1, "y", "y")

    make([1, 2], {"a": pair}, pair)
    with pytest.raises(ValueError, match="a: 1 values for 2 budgets"):
        make([1, 2], {"a": [0.2]}, pair)
    with pytest.raises(ValueError, match="random: 0 values for 2 budgets"):
        make([1, 2], {"a": pair}, [])
    with pytest.raises(ValueError, match="random: 0 values for 0 budgets"):
        make([], {}, [])
    with pytest.raises(ValueError, match="SVD bound: 1 values for 2 budgets"):
        CurveChart([1, 2], {"a": pair}, (pair, pair, pair), 1, "y", "y", bound=[0.1])
