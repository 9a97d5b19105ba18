"""At which layers tokens leave, in models of any depth."""

from __future__ import annotations

import pytest

from spare_demo.pruners.inside.base import depths


def test_depths_are_the_same_share_of_the_way() -> None:
    assert depths((8, 16, 24), 32, "It") == (8, 16, 24)
    assert depths((8, 16, 24), 40, "It") == (10, 20, 30)
    assert depths((8, 16, 24), 28, "It") == (7, 14, 21)
    assert depths((3, 7, 16), 5, "It") == (1, 2, 3)  # crowded, never the same
    assert depths((2,), 40, "It") == (2,) and depths((2,), 28, "It") == (2,)
    assert depths((2,), 2, "It") == (1,)
    assert depths((31,), 5, "It") == (4,)  # a layer is left to act in
    assert depths((8, 30, 31), 5, "It") == (1, 3, 4)
    with pytest.raises(ValueError, match=r"It needs .* more than 3 layers, and this one has 3"):
        depths((3, 7, 16), 3, "It")
