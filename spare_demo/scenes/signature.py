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
from spare_demo.scenes.sets import WORLDS, scene_of

_KEY = "spare-scene"


def save(which: str, seed: int, path: Path) -> None:
    """Draw the scene of a set into a PNG file."""
    text = PngImagePlugin.PngInfo()
    text.add_text(_KEY, f"{which} {seed}")
    # Scenes become no smaller by more of it, and pressing Draw would take five times as long.
    draw.draw(scene_of(which, seed)).save(path, pnginfo=text, compress_level=1)


def read_signature(path: str | Path, photo: Image.Image) -> tuple[str, int] | None:
    """The set and the seed of the drawn scene that a file shows; None for any other picture.

    photo: the file's upright RGB pixels.
    """
    try:
        with Image.open(path, formats=["PNG"]) as image:
            match = re.fullmatch(r"([a-z-]+) ([0-9]{1,10})", str(image.info.get(_KEY)))
    except (OSError, ValueError, SyntaxError):
        return None
    if match is None or match[1] not in WORLDS:
        return None
    which, seed = match[1], int(match[2])
    same = photo_digest(draw.draw(scene_of(which, seed))) == photo_digest(photo)
    return (which, seed) if same else None
