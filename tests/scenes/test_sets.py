"""The measured sets: always the same scenes, of their own kind, asked in full."""

from __future__ import annotations

from typing import Any

import pytest

from spare_demo.scenes.sets import samples
from spare_demo.scenes.world import World, rng_of, sample_scene


@pytest.mark.parametrize(("which", "pairs"), [("held-out", "seen"), ("unseen-pairs", "unseen")])
def test_samples_are_the_first_of_their_set_and_always_the_same(which: str, pairs: Any) -> None:
    asked = list(samples(which, 31))
    assert asked == list(samples(which, 31))
    assert sum(len(sample.questions) for sample in asked) == 31
    for sample in asked:
        assert 1 <= len(sample.questions) <= 6
        assert sample.scene == sample_scene(World(pairs=pairs), rng_of(which, sample.seed))
    assert [sample.seed for sample in asked] == sorted({sample.seed for sample in asked})
    longer = list(samples(which, 60))
    assert longer[: len(asked) - 1] == asked[:-1]


@pytest.mark.parametrize(("which", "count"), [("train", 10), ("held-out", 0)])
def test_what_cannot_be_sampled_is_refused(which: str, count: int) -> None:
    with pytest.raises(ValueError, match=r"held-out|at least one"):
        list(samples(which, count))
