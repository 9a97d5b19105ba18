"""Sets of scenes, and PNG files that say which scenes they are.

The sets that are measured on come from streams that training never draws from, and always in the
same order, so that two runs ask the same. A file carries the set and the seed of its scene. Whether
a picture is that scene is decided by drawing it again: the pixels must be the same, whatever the
file says.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, PngImagePlugin

from spare_demo.images.load import photo_digest
from spare_demo.scenes import draw
from spare_demo.scenes.practice import practise
from spare_demo.scenes.questions import Question, ask
from spare_demo.scenes.world import Pairs, Scene, World, rng_of, sample_scene

SETS: dict[str, Pairs] = {
    "held-out": "seen", "unseen-pairs": "unseen", "held-out-wordings": "seen",
}  # fmt: skip
"""The sets that can be evaluated, and which pairs of colour or number and shape each holds."""
SET_WORDS = {
    "held-out": "held-out scenes",
    "unseen-pairs": "scenes with pairs never shown in training",
    "held-out-wordings": "questions in wordings never used in training",
}

WORLDS = {
    "page": World(things=(3, 8)),
    "shipped": World(things=(4, 7)),
    **{name: World(pairs=pairs) for name, pairs in SETS.items()},
}
"""The world that each set's scenes are drawn from; "page" is that of new scenes on the page,
"shipped" that of its examples."""
_STREAMS = {"shipped": "page"}  # whose random stream a set takes, where not its own
_KEY = "spare-scene"  # under which a file says what it shows
_PER_SCENE = 6  # a picture is looked at once, and few scenes allow many more different questions


@dataclass(frozen=True)
class Sample:
    """A scene with its questions; ``seed`` is its number in the set."""

    seed: int
    scene: Scene
    questions: tuple[Question, ...]


def scene_of(which: str, seed: int) -> Scene:
    """The scene of a set of `WORLDS` with this seed."""
    return sample_of(which, seed, 0).scene


def sample_of(which: str, seed: int, count: int = 4) -> Sample:
    """The scene of a set of `WORLDS` with this seed, and up to ``count`` different questions.

    They are always the same ones; where a set is measured on, none offers a choice.
    """
    rng = rng_of(_STREAMS.get(which, which), seed)
    scene = sample_scene(WORLDS[which], rng)
    if which == "held-out-wordings":
        questions = practise(scene, rng, count, held_out=True)
    else:
        questions = ask(scene, rng, count, no_choices=which in SETS)
    return Sample(seed, scene, tuple(questions))


def samples(which: str, count: int) -> Iterator[Sample]:
    """The first ``count`` questions of a set, scene by scene; always the same ones.

    Raises ValueError for a set that is not in `SETS`, or a count below 1.
    """
    if which not in SETS:
        raise ValueError(f"There is no set '{which}'. Choose one of: {', '.join(SETS)}.")
    if count < 1:
        raise ValueError("Ask for at least one question.")
    seed = 0
    while count:
        sample = sample_of(which, seed, min(_PER_SCENE, count))
        if sample.questions:
            yield sample
        count -= len(sample.questions)
        seed += 1


def save(which: str, seed: int, path: Path) -> None:
    """Draw the scene of a set into a PNG file, which nobody ever finds half written."""
    text = PngImagePlugin.PngInfo()
    text.add_text(_KEY, f"{which} {seed}")
    # Scenes become no smaller by more of it, and pressing Draw would take five times as long.
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draw.draw(scene_of(which, seed)).save(part, "PNG", pnginfo=text, compress_level=1)
    os.replace(part, path)


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
