"""The drawn world: what a scene is made of, and how one is sampled.

A scene is a square canvas with a background and a few *things*: a coloured shape, with a number, a
word or nothing printed on it. Everything that a question can ask follows from this description, so
answers are exact. Lengths are pixels of the canvas; ``x`` grows to the right, ``y`` downwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40), "orange": (245, 134, 24), "yellow": (250, 214, 40),
    "green": (46, 158, 66), "blue": (38, 92, 204), "purple": (132, 58, 176),
    "white": (245, 245, 245), "black": (28, 28, 30),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "diamond", "arrow")
WORDS = (
    "CAT", "DOG", "SUN", "SKY", "BUS", "CAR", "TEA", "ICE",
    "MAP", "KEY", "BOX", "HAT", "PEN", "CUP", "FOX", "BED",
)  # fmt: skip
# Where print sits below the centre, and how high it may be, in units of half the shape's size.
PRINT_ROOM = {
    "circle": (0.0, 1.25), "square": (0.0, 1.35), "triangle": (0.32, 0.95), "star": (0.08, 0.9),
    "heart": (-0.12, 1.05), "cross": (0.0, 0.85), "diamond": (0.0, 1.0), "arrow": (0.0, 0.8),
}  # fmt: skip
BLOB_ROOM = (0.0, 0.9)  # the same for a shape without a name
BACKGROUNDS = ("plain", "gradient", "noise", "stripes", "checks", "dots")

# Pairs that training never shows, so that a test on them is a test of composition.
HELD_OUT_COLOUR_SHAPE = frozenset(zip(COLOURS, SHAPES, strict=True))
HELD_OUT_NUMBER_SHAPE = frozenset((str(d), SHAPES[(d + 3) % len(SHAPES)]) for d in range(10))

_FAR = 90.0  # in RGB; a colour this far from one with a name, drawn within 25, is not like it

Pairs = Literal["seen", "unseen"]
Rng = np.random.Generator

# Seeds of different sets can never meet: each set draws from a stream of its own.
SETS = {"train": 1, "held-out": 2, "unseen-pairs": 3, "page": 4, "held-out-wordings": 5}


@dataclass(frozen=True)
class Thing:
    """One shape. ``(x, y)`` is its centre, ``size`` the side of the square it fills, in pixels.

    A colour or a shape without a name is an empty string; ``tint`` and ``blob`` say what it is.
    """

    colour: str
    shape: str
    x: float
    y: float
    size: float
    number: str | None = None
    word: str | None = None
    tint: tuple[int, int, int] | None = None  # the colour that has no name
    blob: int | None = None  # the seed of the lump that has no name

    @property
    def print(self) -> str | None:
        """What is printed on it: a number, a word or nothing."""
        return self.number or self.word


@dataclass(frozen=True)
class Scene:
    """A canvas of ``side`` × ``side`` pixels; later things lie on top of earlier ones."""

    side: int
    background: str
    background_seed: int
    things: tuple[Thing, ...]

    def inside(self, side: int, left: int, top: int) -> Scene:
        """The same things as parts of a larger canvas, of which this one is a window."""
        moved = tuple(replace(t, x=t.x + left, y=t.y + top) for t in self.things)
        return replace(self, side=side, things=moved)


@dataclass(frozen=True)
class World:
    """What is likely: numbers of things and their sizes, in pixels of a canvas of ``side``."""

    side: int = 336
    things: tuple[int, int] = (2, 8)
    sizes: tuple[float, float] = (24.0, 92.0)
    number_share: float = 0.45
    word_share: float = 0.2
    same_share: float = 0.35  # how often a thing repeats the colour or shape of one before it
    twin_share: float = 0.0  # how often it repeats both, in training only
    # How often a colour, else a shape, is one without a name: practice in seeing each property
    # apart from the others, in training only.
    tint_share: float = 0.0
    blob_share: float = 0.0
    pairs: Pairs = "seen"
    print_pixels: float = 13.0  # the smallest font used, so that every print can be read


def font_pixels(shape: str, size: float, letters: int) -> float:
    """The height of the font, in pixels, of a print of so many letters on a shape of this size."""
    height = size / 2 * PRINT_ROOM.get(shape, BLOB_ROOM)[1] * 1.15
    return height if letters == 1 else height * 0.5  # three letters side by side want less


def rng_of(which: str, seed: int) -> Rng:
    """The random stream of one scene of a set (``SETS``): the same seed gives the same scene."""
    return np.random.default_rng([SETS[which], seed])


def place_of(thing: Thing, side: int, clear: float = 0.0) -> str | None:
    """Which of nine equal parts of the canvas its centre lies in, in words.

    None where it is nearer than ``clear`` pixels to a line between parts.
    """
    words = []
    for at, (low, high) in ((thing.y, ("top", "bottom")), (thing.x, ("left", "right"))):
        if min(abs(at - side / 3), abs(at - 2 * side / 3)) < clear:
            return None
        words.append(low if at < side / 3 else high if at > 2 * side / 3 else "")
    return " ".join(word for word in words if word) or "centre"


def is_held_out(colour: str, shape: str, number: str | None = None) -> bool:
    """Whether training never shows such a thing."""
    return (colour, shape) in HELD_OUT_COLOUR_SHAPE or (number, shape) in HELD_OUT_NUMBER_SHAPE


def _new_thing(world: World, rng: Rng, others: list[Thing], size: float) -> Thing:
    """One within the pairs that the world allows, not yet anywhere."""
    while True:
        colour = str(rng.choice(list(COLOURS)))
        shape = str(rng.choice(SHAPES))
        if others and rng.random() < world.same_share:
            other = others[rng.integers(len(others))]
            if rng.random() < 0.5:
                colour = other.colour or colour
            else:
                shape = other.shape or shape
        if others and world.twin_share and rng.random() < world.twin_share:
            other = others[rng.integers(len(others))]
            colour, shape = other.colour or colour, other.shape or shape
        tint, blob = _nameless(world, rng)
        colour, shape = "" if tint else colour, shape if blob is None else ""
        number = word = None
        roll = rng.random()
        if roll < world.number_share and font_pixels(shape, size, 1) >= world.print_pixels:
            number = str(rng.integers(10))
        if roll > 1 - world.word_share and font_pixels(shape, size, 3) >= world.print_pixels:
            word = str(rng.choice(WORDS))
        if is_held_out(colour, shape, number) == (world.pairs == "unseen"):
            return Thing(colour, shape, 0.0, 0.0, size, number, word, tint, blob)


def _nameless(world: World, rng: Rng) -> tuple[tuple[int, int, int] | None, int | None]:
    """A colour far from those with a name, or a shape like none with a name, or neither."""
    if not (world.tint_share or world.blob_share):
        return None, None  # the scenes that are measured draw no number for it
    if rng.random() < world.tint_share:
        red, green, blue = tint = rng.integers(20, 250, 3)
        if all(np.linalg.norm(tint - other) > _FAR for other in COLOURS.values()):
            return (int(red), int(green), int(blue)), None
    elif rng.random() < world.blob_share:
        return None, int(rng.integers(2**31))
    return None, None


def _has_room(thing: Thing, others: list[Thing]) -> bool:
    """Whether a thing may lie where it is: edges may overlap, but no print may be covered."""
    return all(
        np.hypot(other.x - thing.x, other.y - thing.y)
        >= (0.5 if other.print or thing.print else 0.4) * (thing.size + other.size)
        for other in others
    )


def sample_scene(world: World, rng: Rng) -> Scene:
    """Draws a scene of ``world``. A thing that finds no room in 20 tries is left out."""
    wanted = int(rng.integers(world.things[0], world.things[1] + 1))
    low, high = world.sizes
    # Crowded canvases get smaller things, so that they fit.
    high = min(high, 1.1 * world.side / np.sqrt(wanted))
    things: list[Thing] = []
    for _ in range(wanted):
        size = float(np.exp(rng.uniform(np.log(low), np.log(max(high, low)))))
        new = _new_thing(world, rng, things, size)
        for _ in range(20):
            x, y = rng.uniform(size / 2 + 1, world.side - size / 2 - 1, 2)
            thing = replace(new, x=float(x), y=float(y))
            if _has_room(thing, things):
                things.append(thing)
                break
    background = str(rng.choice(BACKGROUNDS))
    return Scene(world.side, background, int(rng.integers(2**31)), tuple(things))
