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
from spare_demo.scenes.question import Question
from spare_demo.scenes.sets import SETS, Sample, ask_of
from spare_demo.scenes.world import Rng, Scene, World, rng_of, sample_scene

_KEY = "spare-scene"
WORLDS = {
    "page": World(things=(3, 8)),
    "shipped": World(things=(4, 7)),
    **{name: World(pairs=SETS[name]) for name in SETS},
}
"""The world that each set's scenes are drawn from; "page" is that of new scenes on the page,
"shipped" that of its examples."""
_STREAMS = {"shipped": "page"}  # whose random stream a set takes, where not its own
_CHIPS = 4
_QUESTIONS = 50  # a scene's own questions come first, the rest are those that are likely typed


def scene_of(which: str, seed: int) -> Scene:
    """The scene of a set with this seed."""
    return _sample(which, seed)[0]


def questions_of(which: str, seed: int) -> list[Question]:
    """Questions about the scene of a set with this seed, those that it was made with first."""
    return ask_of(which, *_sample(which, seed), _QUESTIONS)


def sample_of(which: str, seed: int) -> Sample:
    """The scene of a set with this seed, and up to four of its questions; always the same ones."""
    scene, rng = _sample(which, seed)
    return Sample(seed, scene, tuple(ask_of(which, scene, rng, _CHIPS)))


def _sample(which: str, seed: int) -> tuple[Scene, Rng]:
    rng = rng_of(_STREAMS.get(which, which), seed)
    return sample_scene(WORLDS[which], rng), rng


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
