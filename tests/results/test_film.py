"""The frames of a film: the pictures of the panel "kept", and who is left out."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.models import LlavaModel, View
from spare_demo.render.canvas import Canvas
from spare_demo.render.display import Display, Photo
from spare_demo.results.drawings import drawings
from spare_demo.results.film import film_frames, kind_of_film

QUESTION = "Which number is written on the small triangle?"


def frames_of(model: LlavaModel | None, exploration: Exploration, *budgets: int) -> list[Display]:
    view = exploration.view
    titles = {label: label.upper() for label in exploration.methods}
    canvas = Canvas(view.photo, view.grid)
    return list(film_frames(model, exploration, canvas, titles, budgets, 3))


def pictures(frame: Display) -> list[Image.Image]:
    return [item.picture for item in frame.items if isinstance(item, Photo)]


def test_the_last_frame_is_the_panel_kept(tiny_model: LlavaModel, photo: Image.Image) -> None:
    result = compare(tiny_model, photo, QUESTION, ("spare", "cdpruner"), 5, max_new_tokens=3)
    assert result.view is not None
    exploration = explore(result.view, result.request.labelled)
    frames = frames_of(tiny_model, exploration, 1, 5)
    assert "SPARE: 1 of 16 tokens; answer: " in frames[0].sentence
    assert f"CDPRUNER: 5 of 16 tokens; answer: {result.answers['cdpruner'].text.strip()}" in (
        frames[1].sentence
    )
    canvas = Canvas(result.photo, result.grid)
    kept = [d.display.image for d in drawings(result, ("kept",))]
    for shown, panel in zip(pictures(frames[1]), kept, strict=True):
        bare = panel.crop((0, 0, *canvas.size)).resize(shown.size, Image.Resampling.BICUBIC)
        np.testing.assert_array_equal(np.asarray(shown), np.asarray(bare))


def test_who_has_no_pick_order_is_named(view: View) -> None:
    (frame,) = frames_of(None, explore(view, choose(("fastv", "uniform", "spare", "random"))), 4)
    assert len(pictures(frame)) == 2
    assert "UNIFORM: 4 of 16 tokens. SPARE: 4 of 16 tokens. FASTV has no" in frame.sentence
    assert "UNIFORM chooses anew at every budget." in frame.sentence
    (frame,) = frames_of(None, explore(view, choose(("spare", "random", "uniform"))), 4)
    assert "UNIFORM" not in frame.sentence  # it is not in the film


def test_a_films_name_says_its_format() -> None:
    assert (kind_of_film("a/b.WebP"), kind_of_film("x.gif")) == ("WEBP", "GIF")
    with pytest.raises(ValueError, match=r"Name its file so, such as film\.webp\."):
        kind_of_film("film.mp4")
