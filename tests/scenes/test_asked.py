"""What a question is about, and which patches show it, against drawings made in another way."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from printed import printed_pixels

from spare_demo.images.load import open_picture
from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes import draw, sets
from spare_demo.scenes.asked import asked_in

EXAMPLES = ASSETS / "examples"
SIGNED = {
    row["picture"]: row
    for row in json.loads((EXAMPLES / "examples.json").read_text())
    if row["picture"].startswith("scene-")
}
PATCH, SIDE = 14, 336
_cols, _rows = np.meshgrid(np.arange(24), np.arange(24))
BOXES = np.stack([_cols, _rows, _cols + 1, _rows + 1], axis=-1).reshape(-1, 4) * float(PATCH)


def patches(pixels: np.ndarray) -> np.ndarray:
    """(576,) bool: the patches of 14 by 14 pixels with any that is set."""
    return pixels.reshape(24, PATCH, 24, PATCH).any(axis=(1, 3)).ravel()


def grown(pixels: np.ndarray) -> np.ndarray:
    """Those that are set, and all within a pixel of them."""
    padded = np.pad(pixels, 1)
    around = [padded[y : y + SIDE, x : x + SIDE] for y in range(3) for x in range(3)]
    return np.any(around, axis=0)


def ask(file: Path, question: str):
    photo = open_picture(file)
    return asked_in(sets.read_signature(file, photo), photo, question, BOXES)


@pytest.mark.parametrize("name", SIGNED)
def test_an_example_is_the_scene_it_says_and_its_question_is_one_of_the_scene(name: str) -> None:
    asked = ask(EXAMPLES / name, SIGNED[name]["question"])
    assert asked is not None and asked.answer == SIGNED[name]["answer"]
    assert asked.tokens is not None and 0 < asked.tokens.sum() < 60
    typed = ask(EXAMPLES / name, f"  {SIGNED[name]['question'].lower().rstrip('?')} ")
    assert typed is not None and typed.answer == asked.answer


@pytest.mark.parametrize("seed", range(6))
def test_places_of_new_scenes_are_where_another_drawing_has_them(seed: int, tmp_path: Path) -> None:
    sets.save("page", seed, tmp_path / "scene.png")
    scene = sets.scene_of("page", seed)
    numbers = draw.thing_at_each_pixel(scene)
    kinds = set()
    for question in sets.sample_of("page", seed, 50).questions[:8]:
        asked = ask(tmp_path / "scene.png", question.text)
        assert asked is not None and asked.answer == question.answer
        kinds.add(asked.kind)
        if question.answer in ("yes", "no") or not question.things:
            assert asked.tokens is None
        elif asked.kind == "things":
            visible = np.isin(numbers, np.add(question.things, 1))
            assert (patches(visible) <= asked.tokens).all()
            assert (asked.tokens <= patches(grown(visible))).all()
        else:
            (index,) = question.things
            ink = printed_pixels(scene.things[index])
            assert scene.things[index].print == question.answer
            assert (patches(ink > 40) <= asked.tokens).all()
            assert (asked.tokens <= patches(ink > 0)).all()
    assert "things" in kinds


def test_letters_are_told_from_the_thing_that_they_stand_on() -> None:
    file = EXAMPLES / "scene-1008.png"
    asked = ask(file, "What word is written?")
    scene = sets.scene_of("shipped", 1008)
    (index,) = (i for i, thing in enumerate(scene.things) if thing.word == "FOX")
    on_thing = patches(draw.thing_at_each_pixel(scene) == index + 1)
    assert asked.kind == "word" and asked.tokens.sum() < on_thing.sum()
    assert (asked.tokens <= on_thing).all()


def test_boxes_off_the_picture_show_nothing_and_any_part_of_a_pixel_counts() -> None:
    file = EXAMPLES / "scene-1008.png"
    photo, scene = open_picture(file), ("shipped", 1008)
    shown = np.flatnonzero(ask(file, "What word is written?").tokens)
    x0, y0, x1, y1 = BOXES[shown[0]]
    boxes = np.array([[-60.0, 0, -40, 20], [x0 - 0.5, y0 - 0.5, x1 + 0.5, y1 + 0.5]])
    assert asked_in(scene, photo, "What word is written?", boxes).tokens.tolist() == [False, True]


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert ask(EXAMPLES / "scene-1008.png", "What word is written?") is not None
    assert ask(EXAMPLES / "scene-1008.png", "What does the picture show?") is None
    # A part of a scene, which says nothing of it.
    assert ask(EXAMPLES / "wide-1035.png", "What word is written?") is None


def test_a_scene_that_was_changed_is_none_of_ours(tmp_path: Path) -> None:
    """Even where its file still says so."""
    sets.save("page", 3, tmp_path / "scene.png")
    with Image.open(tmp_path / "scene.png") as image:
        image.load()
        changed = image.copy()
    changed.putpixel((5, 5), tuple(255 - v for v in changed.getpixel((5, 5))))
    assert sets.read_signature(tmp_path / "scene.png", image) == ("page", 3)
    assert sets.read_signature(tmp_path / "scene.png", changed) is None


def test_things_taken_out_leave_the_rest_as_it_was() -> None:
    """Else the patches of things drawn later would count as those asked about."""
    scene = sets.scene_of("page", 5)
    first, *others = scene.things
    away = dataclasses.replace(scene, things=(dataclasses.replace(first, x=-10_000.0), *others))
    changed = (np.asarray(draw.draw(scene)) != np.asarray(draw.draw(away))).any(axis=2)
    numbers = draw.thing_at_each_pixel(scene)
    assert not changed[~grown(numbers == 1)].any()
