"""Colours: of methods, of maps, and of shades of one hue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]

BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
# Okabe and Ito's palette, told apart by people with any colour vision.
BLUE: Colour = (0x00, 0x72, 0xB2)  # method A
VERMILION: Colour = (0xD5, 0x5E, 0x00)  # method B
PALETTE: tuple[Colour, ...] = (
    BLUE,
    VERMILION,
    (0x00, 0x9E, 0x73),
    (0xCC, 0x79, 0xA7),
    (0xE6, 0x9F, 0x00),
    (0x56, 0xB4, 0xE9),
    (0x8C, 0x6D, 0x1F),  # in place of the yellow, which is too pale for a line
)
"""For any number of methods; their black is left for what is no method."""


def colours_of(labels: Iterable[str]) -> dict[str, Colour]:
    """A colour for each label by its place, the same on pictures and curves."""
    return dict(zip(labels, cycle(PALETTE), strict=False))


def hex_of(colour: Sequence[int] | NDArray[np.uint8]) -> str:
    """ "#0072b2" for red, green, blue."""
    return "#" + "".join(f"{int(part):02x}" for part in colour)


# Cividis (Nunez, Anderton and Renslow 2018, PLOS ONE 13(7): e0199239): position in the published
# table of 256 and its red, green, blue there; linear between these, at most two levels off it.
_CIVIDIS = np.array(
    [
        (0, 0, 34, 78),
        (19, 0, 48, 111),
        (21, 0, 49, 112),
        (23, 1, 50, 113),
        (28, 18, 53, 112),
        (34, 30, 58, 111),
        (52, 54, 70, 108),
        (84, 86, 92, 109),
        (126, 123, 122, 120),
        (147, 143, 138, 120),
        (179, 174, 163, 113),
        (205, 201, 185, 101),
        (219, 217, 197, 92),
        (232, 231, 209, 80),
        (243, 243, 219, 66),
        (251, 253, 227, 52),
        (255, 254, 232, 56),
    ],
    np.float64,
)


def cividis(shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n,) numbers 0..1 -> (n, 3) RGB, dark blue for low and yellow for high."""
    return _interpolate(_CIVIDIS[:, 0] / 255, _CIVIDIS[:, 1:], shares)


def hue_ramp(hue: Colour, shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(n,) numbers 0..1 -> (n, 3) RGB, from a dark to a light shade of `hue`."""
    base = np.array(hue, np.float64)
    shades = np.stack([base * 0.35, base, base * 0.25 + 255 * 0.75])
    return _interpolate(np.array([0, 0.5, 1]), shades, shares)


def _interpolate(
    stops: NDArray[np.float64], colours: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.uint8]:
    channels = [np.interp(shares, stops, colours[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
