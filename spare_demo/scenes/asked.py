"""What a question about a drawn scene is about, and which visual tokens show some of it.

Known only where the picture is, pixel by pixel, the scene that its file says it is, and the
question one that is asked of that scene.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spare_demo.scenes import draw
from spare_demo.scenes.sets import sample_of
from spare_demo.scenes.wordings import plain_text

Kind = Literal["word", "number", "things"]

_QUESTIONS = 50  # a scene's own questions come first, the rest are those that are likely typed


@dataclass(frozen=True, eq=False)
class Asked:
    """What a question asks for.

    Attributes:
        answer: the true one.
        kind: whether it is a word or a number that is printed there, else things.
        tokens: (n,) bool, the visual tokens with a pixel of it: of the print's letters or digit
            where that is what is asked for, else of the things. None for a question of yes or no,
            which may be about what is not there.
    """

    answer: str
    kind: Kind
    tokens: NDArray[np.bool_] | None


def asked_in(
    scene: tuple[str, int] | None, photo: Image.Image, text: str, boxes: NDArray[np.float64]
) -> Asked | None:
    """What a question asks of a picture; None where that cannot be known.

    Args:
        scene: what `read_signature` says of the picture; photo: its upright RGB pixels.
        text: the question.
        boxes: (n, 4) x0, y0, x1, y1 of each visual token in pixels of the photo.
    """
    if scene is None:
        return None
    sample, wanted = sample_of(*scene, _QUESTIONS), plain_text(text)
    question = next((q for q in sample.questions if plain_text(q.text) == wanted), None)
    if question is None:
        return None
    things = sample.scene.things
    asked = [things[index] for index in question.things]
    kind: Kind = "things"
    if len(asked) == 1 and question.answer == asked[0].print:
        kind = "word" if asked[0].word else "number"
    if question.answer in ("yes", "no") or not asked:
        return Asked(question.answer, kind, None)
    # What changes where it is taken out is what shows it, whatever lies before or behind it. A
    # thing goes far outside the canvas: without it those after it would get other shades.
    absence: dict[str, Any] = {"x": -1e4} if kind == "things" else {"number": None, "word": None}
    rest = (replace(t, **absence) if i in question.things else t for i, t in enumerate(things))
    without = draw.draw(replace(sample.scene, things=tuple(rest)))
    changed = (np.asarray(photo) != np.asarray(without)).any(axis=2)
    return Asked(question.answer, kind, _any_inside(changed, boxes))


def _any_inside(pixels: NDArray[np.bool_], boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(n,) bool: whether any pixel of (height, width) that is set lies in, or partly in, a box."""
    corners = np.hstack([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])]).clip(min=0).astype(int)
    return np.array([pixels[y0:y1, x0:x1].any() for x0, y0, x1, y1 in corners.tolist()])
