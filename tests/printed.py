"""What is printed on a thing of a drawn scene, drawn once more by itself."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from spare_demo.scenes.world import PRINT_ROOM, Thing, font_pixels


def printed_pixels(thing: Thing, side: int = 336) -> np.ndarray:
    """(side, side) how much of each pixel the letters or the digit cover, 0 to 255."""
    plan = Image.new("L", (2 * side, 2 * side))
    height = round(2 * font_pixels(thing.shape, thing.size, len(thing.print)))
    y = thing.y + thing.size / 2 * PRINT_ROOM[thing.shape][0]
    font = ImageFont.load_default(size=height)
    ImageDraw.Draw(plan).text((2 * thing.x, 2 * y), thing.print, 255, font, "mm")
    return np.asarray(plan.reduce(2))
