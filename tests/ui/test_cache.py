"""What is kept for all visitors, and what never is."""

from __future__ import annotations

import pytest

from spare_demo.ui.cache import Seen


def test_what_may_be_shared_is_made_once_and_the_rest_each_time() -> None:
    seen: Seen[str, int] = Seen(lambda key: key != "private", most=4)
    made: list[str] = []

    def make(key: str) -> int:
        made.append(key)
        return len(made)

    got = [seen.get(key, lambda key=key: make(key)) for key in ("a", "private", "a", "private")]
    assert got == [1, 2, 1, 3]
    assert list(seen.keys()) == ["a"]


def test_the_least_lately_used_goes_first() -> None:
    seen: Seen[int, int] = Seen(lambda key: True, most=2)
    for key in (1, 2, 1, 3):
        seen.get(key, lambda key=key: key)
    assert list(seen.keys()) == [1, 3]


def test_what_could_not_be_made_is_asked_for_again() -> None:
    seen: Seen[int, int] = Seen(lambda key: True, most=2)

    def fail() -> int:
        raise ValueError("unreadable")

    with pytest.raises(ValueError, match="unreadable"):
        seen.get(1, fail)
    assert seen.get(1, lambda: 5) == 5
