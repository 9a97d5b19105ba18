"""The page's icon: patches of which two methods kept some."""

from __future__ import annotations

from spare_demo.render.base import BLUE, VERMILION, Colour
from spare_demo.render.display import Box, Display

_GROUND: Colour = (35, 40, 48)
_DROPPED: Colour = (92, 98, 108)
_PATCHES = ((BLUE, _DROPPED, _DROPPED), (_DROPPED, VERMILION, BLUE), (VERMILION, _DROPPED, BLUE))
_SIDE, _GAP = 8, 2


def icon() -> Display:
    """A square of 32 units, twice as many pixels wide."""
    step = _SIDE + _GAP
    boxes = [
        Box(_GAP + column * step, _GAP + row * step, _SIDE, _SIDE, colour)
        for row, colours in enumerate(_PATCHES)
        for column, colour in enumerate(colours)
    ]
    side = _GAP + len(_PATCHES) * step
    return Display(side, side, boxes, "SPARE demo", _GROUND)
