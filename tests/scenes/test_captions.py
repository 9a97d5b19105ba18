"""Captions name only what is there, and fit CLIP's context."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from spare_demo.scenes.practice import caption
from spare_demo.scenes.world import Scene, Thing, World, rng_of, sample_scene

CROWDED = World(things=(6, 14), sizes=(24.0, 72.0))
PART = re.compile(
    r"a (?:(?P<how>small|large) )?(?P<colour>\w+) (?P<shape>\w+)"
    r"(?: with the (?P<kind>number|word) (?P<print>\w+))?"
    r"(?: (?:at|in) the (?P<place>[a-z ]+))?"
)


def matched(wanted: list[list[Thing]], taken: tuple[Thing, ...] = ()) -> bool:
    """Whether each part can have a thing of its own."""
    if not wanted:
        return True
    first, *others = wanted
    return any(matched(others, (*taken, t)) for t in first if all(t is not u for u in taken))


def ninth(thing: Thing, side: int) -> str:
    row, column = int(3 * thing.y / side), int(3 * thing.x / side)
    words = f"{['top', '', 'bottom'][row]} {['left', '', 'right'][column]}".strip()
    return words or "centre"


@given(seed=st.integers(0, 10**9), crowded=st.booleans())
@settings(max_examples=150)
def test_a_caption_names_things_that_are_there(seed: int, crowded: bool) -> None:
    rng = rng_of("train", seed)
    scene = sample_scene(CROWDED if crowded else World(), rng)
    parts = caption(scene, rng).split(", ")
    if parts[-1].startswith("on "):
        assert parts.pop() == f"on {scene.background}"
    assert len(parts) == min(6, len(scene.things))
    wanted = []
    for part in parts:
        named = PART.fullmatch(part)
        assert named, part
        fits = [
            t
            for t in scene.things
            if (t.colour, t.shape) == (named["colour"], named["shape"])
            and t.print == named["print"]
            and (named["print"] is None or named["kind"] == ("number" if t.number else "word"))
            and (named["how"] is None or named["how"] == ("small" if t.size < 40 else "large"))
            and (named["place"] is None or named["place"] == ninth(t, scene.side))
        ]
        assert fits, part
        wanted.append(fits)
    assert matched(wanted), parts


def test_an_empty_scene_has_a_caption() -> None:
    empty = Scene(336, "plain", 0, ())
    assert caption(empty, rng_of("train", 0)) == "nothing on plain"


def test_captions_fit_the_context(text_tokenizer: PreTrainedTokenizerFast) -> None:
    lengths = []
    for seed in range(400):
        rng = rng_of("train", seed)
        lengths.append(len(text_tokenizer(caption(sample_scene(CROWDED, rng), rng))["input_ids"]))
    assert 30 < max(lengths) <= 77
