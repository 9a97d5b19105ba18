"""Scenes: repeatable, from streams that never meet, with the pairs their set allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spare_demo.scenes.world import (
    COLOURS,
    HELD_OUT_COLOUR_SHAPE,
    HELD_OUT_NUMBER_SHAPE,
    SETS,
    World,
    font_pixels,
    rng_of,
    sample_scene,
)

CROWDED = World(things=(6, 14), sizes=(24.0, 72.0))


def unseen_pairs(world: World, which: str, seeds: range) -> list[bool]:
    """Of every thing of these scenes: whether it shows a pair kept from training."""
    things = [t for seed in seeds for t in sample_scene(world, rng_of(which, seed)).things]
    return [
        (t.colour, t.shape) in HELD_OUT_COLOUR_SHAPE or (t.number, t.shape) in HELD_OUT_NUMBER_SHAPE
        for t in things
    ]


@pytest.mark.parametrize("which", SETS)
def test_the_same_seed_gives_the_same_scene(which: str) -> None:
    assert sample_scene(World(), rng_of(which, 7)) == sample_scene(World(), rng_of(which, 7))
    assert sample_scene(World(), rng_of(which, 7)) != sample_scene(World(), rng_of(which, 8))


@pytest.mark.parametrize("world", [World(), CROWDED, World(side=168, things=(2, 6))])
def test_training_never_shows_a_held_out_pair(world: World) -> None:
    found = unseen_pairs(world, "train", range(200))
    assert len(found) > 400
    assert not any(found)


def test_every_thing_of_an_unseen_scene_shows_a_held_out_pair() -> None:
    found = unseen_pairs(World(pairs="unseen"), "unseen-pairs", range(200))
    assert len(found) > 400
    assert all(found)


def test_each_colour_and_each_digit_is_held_out_with_one_shape() -> None:
    assert len({colour for colour, _ in HELD_OUT_COLOUR_SHAPE}) == 8 == len(HELD_OUT_COLOUR_SHAPE)
    assert {number for number, _ in HELD_OUT_NUMBER_SHAPE} == set("0123456789")


def test_no_two_sets_and_no_two_seeds_share_a_stream() -> None:
    """Seeds as large as training's included: it counts questions' scenes from 10**9."""
    seeds = [*range(300), *range(10**9, 10**9 + 300), *range(2**32, 2**32 + 20)]
    starts = [
        tuple(rng_of(which, seed).integers(2**62, size=2)) for which in SETS for seed in seeds
    ]
    assert len(set(starts)) == len(SETS) * len(seeds)


def test_a_set_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError):
        rng_of("test", 0)


def test_only_training_worlds_hold_what_has_no_name() -> None:
    plain = [t for s in range(100) for t in sample_scene(World(), rng_of("held-out", s)).things]
    assert all(t.colour and t.shape and t.tint is None and t.blob is None for t in plain)
    strange = World(tint_share=0.4, blob_share=0.2)
    things = [t for s in range(100) for t in sample_scene(strange, rng_of("train", s)).things]
    assert any(not t.colour for t in things) and any(not t.shape for t in things)
    for thing in things:
        assert (thing.colour == "") == (thing.tint is not None)
        assert (thing.shape == "") == (thing.blob is not None)
        if thing.tint:
            gaps = [np.linalg.norm(np.subtract(thing.tint, rgb)) for rgb in COLOURS.values()]
            assert min(gaps) > 90  # none could be taken for one with a name
    shown = unseen_pairs(strange, "train", range(200))
    assert not any(shown)


def test_twins_share_colour_and_shape_and_are_no_held_out_pair() -> None:
    def share(world: World) -> float:
        scenes = [sample_scene(world, rng_of("train", seed)) for seed in range(300)]
        looks = [[(t.colour, t.shape) for t in scene.things] for scene in scenes]
        repeats = sum(len(scene) - len(set(scene)) for scene in looks)
        return repeats / sum(len(scene) - 1 for scene in looks)

    often = World(twin_share=0.5)
    assert share(World()) < 0.15 and share(often) > 0.45
    assert not any(unseen_pairs(often, "train", range(200)))


@given(seed=st.integers(0, 10**12))
@settings(max_examples=60)
def test_things_keep_to_the_world(seed: int) -> None:
    scene = sample_scene(CROWDED, rng_of("train", seed))
    assert 1 <= len(scene.things) <= 14
    for thing in scene.things:
        assert 24 <= thing.size <= 72
        assert thing.size / 2 < min(thing.x, thing.y)  # whole on the canvas
        assert max(thing.x, thing.y) < scene.side - thing.size / 2
        assert thing.number is None or thing.word is None
        if thing.print:
            assert font_pixels(thing.shape, thing.size, len(thing.print)) >= 13
