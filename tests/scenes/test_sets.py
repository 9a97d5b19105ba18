"""The measured sets: always the same scenes, of their own kind, asked in full."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from spare_demo.scenes.sets import SETS, sample_of, samples, save
from spare_demo.scenes.world import World, rng_of, sample_scene


@pytest.mark.parametrize(("which", "pairs"), SETS.items())
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


@pytest.mark.parametrize("which", ["held-out", "unseen-pairs"])
def test_no_question_names_two_places_so_that_guessing_is_half_right(which: str) -> None:
    asked = [(q.text, q.answer) for s in samples(which, 600) for q in s.questions]
    assert not [text for text, _ in asked if " or " in text]
    spatial = [answer for text, answer in asked if text.startswith("Where is")]
    assert max(Counter(spatial).values()) <= 0.3 * len(spatial)


@pytest.mark.parametrize("which", list(SETS))
def test_what_a_set_asks_of_a_scene_is_known_of_its_file(which: str) -> None:
    for sample in samples(which, 30):
        known = sample_of(which, sample.seed, 50).questions
        assert known[: len(sample.questions)] == sample.questions


def test_nobody_finds_a_file_that_is_still_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def write(image: Image.Image, file: Path, *_: Any, **__: Any) -> None:
        file.write_bytes(b"half of it")
        found.append((tmp_path / "scene.png").exists())

    monkeypatch.setattr(Image.Image, "save", write)
    save("page", 1, tmp_path / "scene.png")
    assert found == [False] and [file.name for file in tmp_path.iterdir()] == ["scene.png"]
