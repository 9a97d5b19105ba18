"""Where a question's raw cosine falls on a drawn scene: on what is asked about, or off it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from spare_demo.evaluation.sheets import SheetQuestion
from spare_demo.measures import chance_above
from spare_demo.models import Model, Picture
from spare_demo.models.families.clip_model import RELEVANCE_LAYERS
from spare_demo.relevance import RelevanceOptions, TextPieces
from spare_demo.scenes import draw
from spare_demo.scenes.world import Scene

WORDS = 0
"""In a layer's place: no layer of the tower, but the projected patches and the language model's
words (`guidance_text="words"`)."""


def places(
    model: Model, picture: Picture, scene: Scene, asked: SheetQuestion, text: TextPieces
) -> list[tuple[int, float, float, float, float, float]]:
    """For each layer that the model has, and `WORDS`: the layer, the mean cosines on things asked
    about, on others and on none, and the chances that one asked about exceeds the background, and
    other things.
    """
    owner = owners(scene, picture.grid.boxes.numpy())
    on_asked = np.isin(owner, asked.things)
    masks = [torch.from_numpy(m) for m in (on_asked, (owner >= 0) & ~on_asked, owner < 0)]
    options: dict[int, RelevanceOptions] = {}
    if "clip_text" in model.supplies:
        options = {layer: RelevanceOptions(layer, text) for layer in RELEVANCE_LAYERS}
    if "words" in model.supplies:
        options[WORDS] = RelevanceOptions(guidance_text="words")
    rows = []
    for layer, relevance in options.items():
        cosine = model.ask(picture, asked.question, relevance).relevance
        assert cosine is not None  # a scene is always asked something
        asked_about, others, none = parts = [cosine[mask] for mask in masks]
        mean_asked, mean_others, mean_none = (float(part.mean()) for part in parts)  # NaN of none
        over_none, over_others = chance_above(asked_about, none), chance_above(asked_about, others)
        rows.append((layer, mean_asked, mean_others, mean_none, over_none, over_others))
    return rows


def owners(scene: Scene, boxes: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) index of the thing that covers most of each token's pixels, -1 for the background.

    boxes: (n, 4) x0, y0, x1, y1 in pixels of the scene; outside it there is background.
    """
    thing_numbers = draw.thing_at_each_pixel(scene)
    numbers = np.full(len(boxes), -1)
    for i, (x0, y0, x1, y1) in enumerate(np.rint(boxes).astype(int)):
        part = thing_numbers[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
        if part.size:
            numbers[i] = np.bincount(part.ravel()).argmax() - 1
    return numbers
