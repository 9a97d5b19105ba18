"""A scene as a picture. Deterministic: the same scene gives the same pixels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from spare_demo.scenes.world import BLOB_ROOM, COLOURS, PRINT_ROOM, Scene, Thing, font_pixels

Ink = int | tuple[int, int, int]  # of a grey or of an RGB picture
_Corners = Sequence[Sequence[float]]

_SCALE = 2  # drawn at twice the size and reduced, so that edges are smooth


def _star() -> _Corners:
    turns = np.arange(10) * np.pi / 5 - np.pi / 2
    radii = np.where(np.arange(10) % 2 == 0, 1.0, 0.5)
    return np.stack([radii * np.cos(turns), radii * np.sin(turns) + 0.06], 1).tolist()


def _heart() -> _Corners:
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 16
    return np.stack([np.sin(t) ** 3, y - 0.05], 1).tolist()


def _lump(seed: int) -> _Corners:
    """A lump with a few bulges, like no shape that has a name."""
    rng = np.random.default_rng(seed)
    turns = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    bulges = np.zeros(48)
    for count in range(2, 6):
        bulges += rng.uniform(0.05, 0.2) * np.cos(count * turns + rng.uniform(0, 2 * np.pi))
    radii = 0.75 + bulges
    radii = radii / radii.max()
    return np.stack([radii * np.cos(turns), radii * np.sin(turns)], 1).tolist()


_POLYGONS: dict[str, _Corners] = {
    "square": [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)],
    "triangle": [(0, -0.95), (1, 0.85), (-1, 0.85)],
    "diamond": [(0, -1), (0.86, 0), (0, 1), (-0.86, 0)],
    "cross": [
        (-0.4, -1), (0.4, -1), (0.4, -0.4), (1, -0.4), (1, 0.4), (0.4, 0.4),
        (0.4, 1), (-0.4, 1), (-0.4, 0.4), (-1, 0.4), (-1, -0.4), (-0.4, -0.4),
    ],
    "arrow": [
        (-1, -0.42), (0.15, -0.42), (0.15, -0.95), (1, 0),
        (0.15, 0.95), (0.15, 0.42), (-1, 0.42),
    ],
    "star": _star(),
    "heart": _heart(),
}  # fmt: skip
"""Corners in the square from -1 to 1 of every shape but the circle."""


@cache
def _font(pixels: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=pixels)


def _fill_shape(
    pen: ImageDraw.ImageDraw, thing: Thing, scale: int, fill: Ink, edge: Ink | None = None
) -> None:
    half, x, y = thing.size / 2 * scale, thing.x * scale, thing.y * scale
    corners = _POLYGONS.get(thing.shape) if thing.blob is None else _lump(thing.blob)
    if corners is None:
        pen.ellipse((x - half, y - half, x + half, y + half), fill, edge, scale)
    else:
        pen.polygon([(x + half * a, y + half * b) for a, b in corners], fill, edge, scale)


def _draw_thing(pen: ImageDraw.ImageDraw, thing: Thing, rng: np.random.Generator) -> None:
    shades = np.add(thing.tint or COLOURS[thing.colour], rng.integers(-14, 15, 3))
    red, green, blue = shades.clip(0, 255).tolist()
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 110
    edge = (225, 225, 225) if dark else (40, 40, 40)
    _fill_shape(pen, thing, _SCALE, (red, green, blue), edge)
    if thing.print:
        ink = (255, 255, 255) if dark or thing.colour in ("red", "green") else (0, 0, 0)
        pixels = round(font_pixels(thing.shape, thing.size, len(thing.print)) * _SCALE)
        y = thing.y + thing.size / 2 * PRINT_ROOM.get(thing.shape, BLOB_ROOM)[0]
        pen.text((thing.x * _SCALE, y * _SCALE), thing.print, ink, _font(pixels), "mm")


def _background(scene: Scene) -> Image.Image:
    """Muted and of low contrast, so that things stand out in colour as well as by their edge."""
    rng, side = np.random.default_rng(scene.background_seed), scene.side
    base = rng.uniform(70, 205) + rng.uniform(-28, 28, 3)
    other = base + rng.choice([-1, 1]) * rng.uniform(14, 34) + rng.uniform(-12, 12, 3)
    grid_y, grid_x = np.mgrid[0:side, 0:side].astype(np.float32)
    turn = rng.uniform(0, np.pi)
    along = grid_x * np.cos(turn) + grid_y * np.sin(turn)
    period = rng.uniform(14, 60)
    if scene.background == "gradient":
        mix = (along - along.min()) / np.ptp(along)
    elif scene.background == "stripes":
        mix = (along % period < period / 2).astype(np.float32)
    elif scene.background == "checks":
        mix = ((grid_x // period + grid_y // period) % 2).astype(np.float32)
    elif scene.background == "dots":
        reach = np.hypot(grid_x % period - period / 2, grid_y % period - period / 2)
        mix = (reach < period / 4).astype(np.float32)
    elif scene.background == "noise":  # several octaves, as clouds, grass or cloth have
        mix = np.zeros((side, side), np.float32)
        for cells, share in ((4, 0.5), (12, 0.3), (40, 0.2)):
            coarse = Image.fromarray(rng.random((cells, cells), np.float32))
            mix += share * np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))
        mix = (mix - 0.5) * 2.2 + 0.5
    else:
        mix = np.zeros((side, side), np.float32)
    pixels = base + mix[..., None] * (other - base)
    pixels += rng.normal(0, rng.uniform(0, 6), (side, side, 1))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def draw(scene: Scene) -> Image.Image:
    """The scene as an RGB picture of ``side`` × ``side`` pixels."""
    big = _background(scene).resize((scene.side * _SCALE,) * 2, Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(big)
    rng = np.random.default_rng(scene.background_seed + 1)
    for thing in scene.things:
        _draw_thing(pen, thing, rng)
    return big.reduce(_SCALE)


def thing_at_each_pixel(scene: Scene) -> np.ndarray:
    """(side, side) uint8: the index in ``scene.things`` of what is seen there plus one, else 0."""
    plan = Image.new("L", (scene.side, scene.side))
    pen = ImageDraw.Draw(plan)
    for index, thing in enumerate(scene.things):
        _fill_shape(pen, thing, 1, index + 1)
    return np.asarray(plan)
