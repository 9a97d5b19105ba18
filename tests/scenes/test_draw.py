"""Pictures of scenes: repeatable, and everything that a question can ask is to be seen."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
from PIL import Image, ImageFilter
from printed import printed_pixels

from spare_demo.scenes.draw import draw, thing_at_each_pixel
from spare_demo.scenes.world import (
    BACKGROUNDS,
    COLOURS,
    SHAPES,
    Scene,
    Thing,
    World,
    rng_of,
    sample_scene,
)

CROWDED = World(things=(6, 14), sizes=(24.0, 72.0))
SCENES = [
    sample_scene(world, rng_of("train", seed)) for world in (World(), CROWDED) for seed in range(90)
]


def test_the_same_scene_gives_the_same_pixels() -> None:
    scene = SCENES[0]
    first, second = draw(scene), draw(scene)
    assert first.mode == "RGB"
    assert first.size == (scene.side, scene.side)
    assert hashlib.sha256(first.tobytes()).digest() == hashlib.sha256(second.tobytes()).digest()


def test_no_print_is_covered_by_a_later_thing() -> None:
    """Up to one hundredth of the ink, which is an edge pixel of a corner of a digit's box."""
    checked = 0
    for scene in SCENES:
        top = thing_at_each_pixel(scene)
        for place, thing in enumerate(scene.things, 1):
            if thing.print:
                ink = printed_pixels(thing, scene.side) > 127
                assert ink.sum() > 8
                assert (ink & (top > place)).sum() <= 0.01 * ink.sum(), (scene, thing)
                checked += 1
    assert checked > 300


def test_every_thing_stays_visible() -> None:
    """At least three fifths of its own pixels are seen: occlusion is partial."""
    for scene in SCENES:
        top = thing_at_each_pixel(scene)
        for place, thing in enumerate(scene.things, 1):
            alone = thing_at_each_pixel(dataclasses.replace(scene, things=(thing,))) > 0
            assert alone.sum() > 60
            assert (top[alone] == place).mean() > 0.6, (scene, thing)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("background", ["plain", "noise"])
def test_pixels_have_the_colour_of_the_thing_they_show(shape: str, background: str) -> None:
    """Away from edges, within the shade of ±14 that each thing is given."""
    for colour, rgb in COLOURS.items():
        scene = Scene(96, background, 5, (Thing(colour, shape, 48, 48, 70),))
        seen = Image.fromarray(thing_at_each_pixel(scene))
        inside = np.asarray(seen.filter(ImageFilter.MinFilter(7))) == 1
        assert inside.sum() > 300
        off = np.abs(np.asarray(draw(scene), np.int32)[inside] - rgb)
        assert off.max() <= 15


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_things_stand_out_from_every_background(background: str) -> None:
    for seed in range(4):
        bare = Scene(96, background, seed, ())
        scene = Scene(96, background, seed, (Thing("red", "circle", 48, 48, 40, number="7"),))
        changed = np.any(np.asarray(draw(bare)) != np.asarray(draw(scene)), axis=-1)
        mask = thing_at_each_pixel(scene) == 1
        assert changed[mask].mean() > 0.97
        # Outside it only the edge line and the smoothing of the reduction.
        assert changed[~mask].mean() < 0.05


def test_shapes_differ_in_outline() -> None:
    masks = [
        thing_at_each_pixel(Scene(64, "plain", 0, (Thing("red", shape, 32, 32, 50),))) > 0
        for shape in SHAPES
    ]
    for i, one in enumerate(masks):
        for other in masks[:i]:
            assert (one & other).sum() / (one | other).sum() < 0.88


def test_a_lump_follows_from_its_seed_and_keeps_to_its_size() -> None:
    def mask(seed: int) -> np.ndarray:
        return thing_at_each_pixel(Scene(96, "plain", 0, (lump(seed),))) > 0

    def lump(seed: int) -> Thing:
        return Thing("", "", 48, 48, 60, tint=(240, 120, 200), blob=seed)

    for seed in range(8):
        assert (mask(seed) == mask(seed)).all()
        assert (mask(seed) != mask(seed + 1)).mean() > 0.01
        rows, columns = mask(seed).nonzero()
        assert min(rows.min(), columns.min()) >= 17 and max(rows.max(), columns.max()) <= 79
    inside = np.asarray(draw(Scene(96, "plain", 0, (lump(0),))))[48, 48].astype(int)
    assert np.abs(inside - (240, 120, 200)).max() <= 15
