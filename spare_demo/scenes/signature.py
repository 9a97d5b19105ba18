"""Drawn scenes as PNG files that say which scenes they are, and telling them from other pictures.

A file carries the set and the seed of its scene. Whether a picture is that scene is decided by
drawing it again: the pixels must be the same, whatever the file says.
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image, PngImagePlugin

from spare_demo.images.load import photo_digest
from spare_demo.scenes import draw
from spare_demo.scenes.sets import SETS
from spare_demo.scenes.world import Scene, World, rng_of, sample_scene

_KEY = "spare-scene"
WORLDS = {"page": World(things=(3, 8)), **{name: World(pairs=SETS[name]) for name in SETS}}
"""The world that each set's scenes are drawn from; "page" is that of new scenes on the page."""


def scene_of(which: str, seed: int) -> Scene:
    """The scene of a set with this seed."""
    return sample_scene(WORLDS[which], rng_of(which, seed))


def save(which: str, seed: int, path: Path) -> None:
    """Draw the scene of a set into a PNG file."""
    text = PngImagePlugin.PngInfo()
    text.add_text(_KEY, f"{which} {seed}")
    draw.draw(scene_of(which, seed)).save(path, pnginfo=text)


def is_scene(path: str | Path, photo: Image.Image) -> bool:
    """Whether the picture of a file is the drawn scene that the file says it is.

    photo: the file's upright RGB pixels.
    """
    try:
        with Image.open(path, formats=["PNG"]) as image:
            match = re.fullmatch(r"([a-z-]+) ([0-9]{1,10})", str(image.info.get(_KEY)))
    except (OSError, ValueError, SyntaxError):
        return False
    if match is None or match[1] not in WORLDS:
        return False
    return photo_digest(draw.draw(scene_of(match[1], int(match[2])))) == photo_digest(photo)
