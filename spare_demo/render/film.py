"""Frames of a film, all of one size, and the film as an animated WebP or GIF."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageOps

from spare_demo.render.colours import Colour
from spare_demo.render.display import Box, Display, Item, Photo, add_lines
from spare_demo.render.legend import FAINT, INK
from spare_demo.render.text import LEADING, largest_fit, shorten, wrap
from spare_demo.table import with_full_stop

MOST_BYTES = 2_000_000
KINDS = {".webp": "WEBP", ".gif": "GIF"}
"""Pillow's name of a film's format, by the end of a file's name."""

_WIDTH = 480  # of a picture, in pixels
_EDGE, _GAP = 24, 24
_LARGE, _SMALL = 24, 18
_QUESTION_LINES = 2
_ANSWER_SIZES = ((_LARGE, 3), (_SMALL, 4))
"""Of the answers in a frame, with the most lines of each: of one height in all."""
_FRAME_MS, _LAST_MS = 1000, 4000
_SMALLER = 0.8  # of the sides, each time that a film is too large


class Shot(NamedTuple):
    """One method in a frame."""

    heading: str  # such as "SPARE: 8 of 576 tokens"
    colour: Colour  # of the bar beside the heading and of the answer
    picture: Image.Image  # RGB, what is kept, drawn on the photo
    answer: str | None  # None where the model was not asked


def frame(question: str, shots: Sequence[Shot], note: str = "") -> Display:
    """The question on top, a picture for each shot side by side with its answer, a note below.

    Frames have one size whatever the answers are, if their questions, notes and the sizes of their
    pictures are the same.

    question: as asked; blank for none. shots: at least one. note: what holds for all frames.
    """
    width = 2 * _EDGE + len(shots) * (_WIDTH + _GAP) - _GAP
    lines = wrap(question.strip() or "(no question)", width - 2 * _EDGE, _LARGE, _QUESTION_LINES)
    items: list[Item] = []
    top = add_lines(items, _EDGE, _EDGE, lines, _LARGE, INK) + _GAP // 2
    # A panorama is a strip; what is taller than wide twice over becomes narrower.
    tallest = max(round(_WIDTH * s.picture.height / s.picture.width) for s in shots)
    tall = min(max(1, tallest), 2 * _WIDTH)
    answers = [shot.answer or "" for shot in shots]
    size, most_lines = largest_fit(answers, _WIDTH, _ANSWER_SIZES)
    for index, shot in enumerate(shots):
        x, y = _EDGE + index * (_WIDTH + _GAP), top
        items.append(Box(x, y + 5, 8, _LARGE, shot.colour))
        y = add_lines(items, x + 20, y, [shorten(shot.heading, _WIDTH - 20, _LARGE)], _LARGE, INK)
        items.append(Photo(x, y + 8, ImageOps.contain(shot.picture, (_WIDTH, tall))))
        if shot.answer is not None:
            words = wrap(shot.answer.strip() or "(empty answer)", _WIDTH, size, most_lines)
            add_lines(items, x, y + tall + 16, words, size, shot.colour)
    y = top + round(_LARGE * LEADING) + tall + 16
    if any(shot.answer is not None for shot in shots):
        y += round(_LARGE * LEADING * _ANSWER_SIZES[0][1]) + 8
    y = add_lines(items, _EDGE, y, wrap(note, width - 2 * _EDGE, _SMALL), _SMALL, FAINT)
    answered = [with_full_stop(f"{shot.heading}{_answer(shot)}") for shot in shots]
    return Display(width, y + _EDGE // 2, items, " ".join(filter(None, [*answered, note])))


def encode_film(frames: Sequence[Image.Image], kind: str) -> bytes:
    """An animation without end that rests on its last frame, of at most `MOST_BYTES`.

    frames: RGB, of one size, at least one; made smaller where the film would be too large.
    kind: a value of `KINDS`.
    """
    # A lossy WebP keeps what differs little from the frame before.
    data = _encode(frames, kind, lossless=True)
    if len(data) <= MOST_BYTES:
        return data
    sides: tuple[float, float] = frames[0].size
    while True:
        size = max(1, round(sides[0])), max(1, round(sides[1]))
        data = _encode([f.resize(size, Image.Resampling.LANCZOS) for f in frames], kind)
        if len(data) <= MOST_BYTES or size == (1, 1):
            return data
        sides = sides[0] * _SMALLER, sides[1] * _SMALLER


def _encode(frames: Sequence[Image.Image], kind: str, lossless: bool = False) -> bytes:
    file = io.BytesIO()
    first, *rest = frames
    first.save(
        file,
        kind,
        save_all=True,
        append_images=rest,
        duration=[*[_FRAME_MS] * len(rest), _LAST_MS],
        loop=0,
        lossless=lossless,  # of WebP; GIF has no choice
    )
    return file.getvalue()


def _answer(shot: Shot) -> str:
    return "" if shot.answer is None else f"; answer: {shot.answer.strip() or '(empty)'}"
