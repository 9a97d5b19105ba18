"""Costs told against the unpruned answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from spare_demo.analysis.cost import (
    bytes_text,
    cache_text,
    cost_rows,
    cost_sentence,
    newline_sentence,
    operations_text,
    rough_seconds_text,
    seconds_text,
)
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
    slow = replace(whole, prefill_seconds=0.041)
    fast = replace(result.answers["spare"], prefill_seconds=0.010)
    nearly = replace(whole, prefill_seconds=0.039, kv_cache_bytes=whole.kv_cache_bytes - 1)
    rows = cost_rows({"unpruned": whole, "slow": slow, "fast": fast, "nearly": nearly})
    sentence = cost_sentence(rows, {"slow": "Slow", "fast": "Fast", "nearly": "Nearly"})
    assert sentence.startswith(
        "Slow: no gain in prefill time here (41 ms, 102% of the unpruned time), with a cache as "
        "large as the unpruned one. "
    )
    assert "Fast: prefill in 25% of the unpruned time" in sentence
    assert "Nearly: no gain in prefill time here (39 ms, 98%" in sentence
    assert sentence.count("cache") == 3 and sentence.endswith("with a cache >99% as large.")


def test_times_are_in_seconds_from_one_on() -> None:
    texts = [seconds_text(seconds) for seconds in (0.0412, 0.9996, 1.0, 1.5)]
    assert texts == ["41 ms", "1.00 s", "1.00 s", "1.50 s"]


def test_a_time_that_is_not_none_is_not_written_as_none() -> None:
    assert [seconds_text(s) for s in (0, 0.0004, 0.0006)] == ["0 ms", "<1 ms", "1 ms"]


def test_a_guessed_time_has_few_digits() -> None:
    texts = [rough_seconds_text(s) for s in (0.02, 3.21, 45.3, 119, 120, 479.62)]
    assert texts == ["0.1 s", "3.2 s", "45 s", "119 s", "2 min", "8 min"]


def test_bytes_are_in_units_of_1024() -> None:
    texts = [bytes_text(count) for count in (1023, 1024, 276480, 3 * 2**29, 3 * 2**30)]
    assert texts == ["1023 bytes", "1.0 KiB", "270 KiB", "1.5 GiB", "3.0 GiB"]
    assert [bytes_text(count) for count in (2**20 - 1, 102_390)] == ["1.0 MiB", "100 KiB"]


def test_row_ends_are_told_where_there_are_some(result: Result) -> None:
    whole = result.answers["unpruned"]
    assert newline_sentence({"unpruned": whole}) == newline_sentence({}) == ""
    assert cost_rows({}) == []
    rows = newline_sentence({"unpruned": replace(whole, newline_tokens=25)})
    assert rows.startswith("With every budget 25 newline tokens go in as well")


def test_room_for_the_answer_is_told_beside_the_cache(result: Result) -> None:
    (row,) = cost_rows({"unpruned": result.answers["unpruned"]})
    row = replace(row, kv_cache_bytes=2 * 2**20, allocated_bytes=0)
    assert cache_text(row) == "2.0 MiB"
    assert cache_text(replace(row, allocated_bytes=5 * 2**20)) == "2.0 MiB (5.0 MiB allocated)"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "not known"),
        (999, "999 FLOP"),
        (999.7, "1 kFLOP"),
        (1000, "1 kFLOP"),
        (2.31e9, "2.31 GFLOP"),
        (4e12, "4 TFLOP"),
    ],
)
def test_operations_are_in_units_of_a_thousand(count: float, text: str) -> None:
    assert operations_text(count) == text
