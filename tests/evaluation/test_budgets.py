"""Budgets as numbers and as shares: read, put in order, turned into numbers of tokens."""

from __future__ import annotations

import math

import pytest

from spare_demo.evaluation.budgets import (
    Budget,
    as_share,
    axis_value,
    budget_words,
    kept_tokens,
    middle_budget,
    nearest_budget,
    read_budgets,
    read_cell,
)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["64", "1", "8", "64"], (1, 8, 64)),
        (["50%", "5% ", "12.5 %", "50.0%"], ("5%", "12.5%", "50%")),
        (["100%"], ("100%",)),
    ],
)
def test_what_was_typed_is_in_order_and_once(typed: list[str], read: tuple[Budget, ...]) -> None:
    found = read_budgets(typed)
    assert found == read
    assert tuple(read_cell(str(budget)) for budget in found) == found  # through a file and back


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["0"], "1 or more"),
        (["-3"], "1 or more"),
        (["2.5"], "a number such as 64, or a share such as 25%"),
        (["many"], "a number such as 64"),
        (["0%"], "above 0% and up to 100%"),
        (["101%"], "above 0% and up to 100%"),
        (["nan%"], "above 0% and up to 100%"),
        (["few%"], "above 0% and up to 100%"),
        (["8", "25%"], "all as shares"),
        ([], "at least one"),
    ],
)
def test_what_cannot_be_is_a_sentence(typed: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_budgets(typed)


def test_a_budget_of_a_picture() -> None:
    assert [kept_tokens("25%", n) for n in (576, 6, 1)] == [144, 2, 1]
    assert [kept_tokens(64, n) for n in (576, 64, 6)] == [64, 64, 6]
    assert (axis_value("12.5%"), axis_value(12)) == (12.5, 12.0)
    assert (budget_words("25%"), budget_words(64)) == ("25% of the tokens", "64 tokens")


@pytest.mark.parametrize(("k", "n"), [(12, 144), (1, 3), (148, 2048), (576, 576)])
def test_a_share_that_is_enough_tokens(k: int, n: int) -> None:
    share = axis_value(as_share(k, n))
    assert n * share / 100 >= k - 1e-9
    assert math.isclose(share, 100 * k / n, abs_tol=0.1)


def test_the_middle_is_near_64_of_576() -> None:
    assert middle_budget([16, 32, 128]) == 32
    assert middle_budget(["5%", "10%", "50%"]) == "10%"
    assert middle_budget([]) == 0
    assert nearest_budget([16, 40, 64], 32) == 40
    assert nearest_budget(["5%", "10%", "50%"], 32) == "5%"  # 5.6 %
