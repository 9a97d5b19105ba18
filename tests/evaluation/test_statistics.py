"""The paired test and the correction against SciPy and definitions written out here."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from spare_demo.evaluation.statistics import holm, sign_flip_test


@given(st.lists(st.integers(-4, 4), max_size=9))
@settings(max_examples=60)
def test_the_p_value_is_the_share_of_signs_that_reach_as_far(differences: list[int]) -> None:
    sums = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    share = sum(far >= abs(sum(differences)) for far in sums) / len(sums)
    assert sign_flip_test(differences) == share  # not almost: equal chances are printed alike
    assert sign_flip_test([-d for d in differences]) == share


@given(st.integers(0, 4000), st.integers(0, 4000))
@settings(max_examples=40)
def test_with_one_question_a_picture_it_is_mcnemars_exact_test(gained: int, lost: int) -> None:
    differences = [1] * gained + [-1] * lost + [0] * 5
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert sign_flip_test(differences) == pytest.approx(expected, rel=1e-9)


def test_holm_rejects_step_by_step() -> None:
    # Holm (1979): the smallest is multiplied by how many there are, the next by one fewer.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_what_holm_rejects_is_what_its_definition_rejects(p: list[float], level: float) -> None:
    rejected, left = set(), len(p)
    for i in sorted(range(len(p)), key=lambda i: p[i]):
        if p[i] * left > level:
            break
        rejected.add(i)
        left -= 1
    adjusted = holm(p)
    assert {i for i, value in enumerate(adjusted) if value <= level} == rejected
    assert all(a >= b for a, b in zip(adjusted, p, strict=True))
