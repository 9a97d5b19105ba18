"""A scene as a picture. Deterministic: the same scene gives the same pixels."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from spare_demo.scenes.world import (
    BLOB_ROOM,
    COLOURS,
    PRINT_ROOM,
    Scene,
    Thing,
    font_pixels,
)

Ink = int | tuple[int, int, int]  # of a grey or of an RGB picture

_SCALE = 2  # drawn at twice the size and reduced, so that edges are smooth


_Corners = list[tuple[float, float]]


def _polygon(shape: str) -> _Corners | None:
    """Corners in the unit square from -1 to 1, or None for what is not a polygon."""
    if shape == "square":
        return [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)]
    if shape == "triangle":
        return [(0, -0.95), (1, 0.85), (-1, 0.85)]
    if shape == "diamond":
        return [(0, -1), (0.86, 0), (0, 1), (-0.86, 0)]
    if shape == "cross":
        a = 0.4
        return [
            *((-a, -1), (a, -1), (a, -a), (1, -a), (1, a), (a, a)),
            *((a, 1), (-a, 1), (-a, a), (-1, a), (-1, -a), (-a, -a)),
        ]
    if shape == "arrow":
        return [
            *((-1, -0.42), (0.15, -0.42), (0.15, -0.95), (1, 0)),
            *((0.15, 0.95), (0.15, 0.42), (-1, 0.42)),
        ]
    if shape == "star":
        turns = np.arange(10) * np.pi / 5 - np.pi / 2
        radii = np.where(np.arange(10) % 2 == 0, 1.0, 0.5)
        return [
            (float(r * np.cos(t)), float(r * np.sin(t) + 0.06))
            for r, t in zip(radii, turns, strict=True)
        ]
    if shape == "heart":
        t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        x = np.sin(t) ** 3
        y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 16
        return list(zip(x.tolist(), (y - 0.05).tolist(), strict=True))
    return None


def _lump(seed: int) -> _Corners:
    """Corners of a lump with a few bulges, like no shape that has a name."""
    rng = np.random.default_rng(seed)
    turns = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    radii = sum(
        rng.uniform(0.05, 0.2) * np.cos(bulges * turns + rng.uniform(0, 2 * np.pi))
        for bulges in range(2, 6)
    )
    radii = 0.75 + np.asarray(radii)
    radii = radii / radii.max()
    return list(
        zip((radii * np.cos(turns)).tolist(), (radii * np.sin(turns)).tolist(), strict=True)
    )


def _corners(thing: Thing) -> _Corners | None:
    return _polygon(thing.shape) if thing.blob is None else _lump(thing.blob)


@cache
def _font(pixels: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=pixels)


def _luma(rgb: tuple[int, int, int]) -> float:
    return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]


def _fill_shape(
    pen: ImageDraw.ImageDraw, thing: Thing, scale: int, fill: Ink, edge: Ink | None = None
) -> None:
    half, x, y = thing.size / 2 * scale, thing.x * scale, thing.y * scale
    corners = _corners(thing)
    if corners is None:
        pen.ellipse((x - half, y - half, x + half, y + half), fill, edge, scale)
    else:
        pen.polygon([(x + half * a, y + half * b) for a, b in corners], fill, edge, scale)


def _draw_thing(pen: ImageDraw.ImageDraw, thing: Thing, rng: np.random.Generator) -> None:
    off = rng.integers(-14, 15, 3)
    shades = np.clip(np.add(thing.tint or COLOURS[thing.colour], off), 0, 255)
    fill = (int(shades[0]), int(shades[1]), int(shades[2]))
    dark = _luma(fill) < 110
    edge = (225, 225, 225) if dark else (40, 40, 40)
    _fill_shape(pen, thing, _SCALE, fill, edge)
    if thing.print:
        ink = (255, 255, 255) if dark or thing.colour in ("red", "green") else (0, 0, 0)
        centre = thing.x, thing.y + thing.size / 2 * PRINT_ROOM.get(thing.shape, BLOB_ROOM)[0]
        pixels = round(font_pixels(thing.shape, thing.size, len(thing.print)) * _SCALE)
        at = (centre[0] * _SCALE, centre[1] * _SCALE)
        pen.text(at, thing.print, ink, _font(pixels), "mm")


def _background(scene: Scene) -> Image.Image:
    """Muted and of low contrast, so that things stand out in colour as well as by their edge."""
    rng = np.random.default_rng(scene.background_seed)
    side = scene.side
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
