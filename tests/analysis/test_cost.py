"""Costs told against the unpruned answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from spare_demo.analysis.cost import cost_rows, cost_sentence
from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.models import LlavaModel

QUESTION = "Which number is written on the small triangle?"
N = 16


@pytest.fixture(scope="module")
def result(tiny_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(tiny_model, photo, QUESTION, budget=5, max_new_tokens=4)


def test_cost_is_told_against_the_unpruned_answer(result: Result) -> None:
    rows = {row.label: row for row in cost_rows(result.answers)}
    whole, pruned = rows["unpruned"], rows["spare"]
    assert (whole.prefill_share, whole.kv_cache_share) == (1.0, 1.0)
    assert whole.prompt_tokens - pruned.prompt_tokens == N - 5
    assert pruned.kv_cache_share == pytest.approx(pruned.prompt_tokens / whole.prompt_tokens)


def test_where_nothing_is_gained_the_sentence_says_so(result: Result) -> None:
    whole = replace(result.answers["unpruned"], prefill_seconds=0.040)
    slow = replace(result.answers["spare"], prefill_seconds=0.041)
    fast = replace(result.answers["spare"], prefill_seconds=0.010)
    rows = cost_rows({"unpruned": whole, "slow": slow, "fast": fast})
    sentence = cost_sentence(rows, {"slow": "Slow", "fast": "Fast"})
    assert "Slow: no gain in prefill time here (41 ms, 102% of the unpruned time)" in sentence
    assert "Fast: prefill in 25% of the unpruned time" in sentence
    assert sentence.count("cache") == 2
