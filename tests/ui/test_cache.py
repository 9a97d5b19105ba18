"""What is kept for all visitors, and what never is."""

from __future__ import annotations

from spare_demo.ui.cache import SharedCache


def test_only_what_is_public_is_kept() -> None:
    cache: SharedCache[str, int] = SharedCache(lambda key: key != "private", size=4)
    cache.put("a", 1)
    cache.put("private", 2)
    assert (cache.get("a"), cache.get("private"), cache.get("b")) == (1, None, None)


def test_the_least_lately_used_goes_first() -> None:
    cache: SharedCache[int, int] = SharedCache(lambda key: True, size=2)
    cache.put(1, 10)
    cache.put(2, 20)
    assert cache.get(1) == 10
    cache.put(3, 30)
    assert [cache.get(key) for key in (1, 2, 3)] == [10, None, 30]
