"""The pick order as a film: what is kept at a growing budget, and the answer at each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from spare_demo.analysis.growth import Step, grow, labels_with_order, reason_without_order
from spare_demo.comparison.selections import Exploration
from spare_demo.models import Model
from spare_demo.render.canvas import Canvas
from spare_demo.render.colours import colours_of
from spare_demo.render.display import Display
from spare_demo.render.film import KINDS, Shot, frame
from spare_demo.render.overlay import selection_overlay
from spare_demo.tokens import Positions

MOST_METHODS = 2
"""Side by side in a film."""


def kind_of_film(name: str) -> str:
    """The format that a file's name asks for; ValueError, with a sentence to show, for another."""
    kind = KINDS.get(PurePath(name).suffix.lower())
    if kind is None:
        raise ValueError("A film is an animated WebP or GIF. Name its file so, such as film.webp.")
    return kind


def film_frames(
    model: Model | None,
    exploration: Exploration,
    canvas: Canvas,
    titles: Mapping[str, str],
    budgets: Sequence[int],
    max_new_tokens: int,
    positions: Positions | None = None,
) -> Iterator[Display]:
    """A frame for each budget: what the first two methods with a pick order keep, and the answers.

    model: None where it is not to be asked: then the frames have no answers.
    canvas: of the exploration's picture. titles: what to call each label. budgets: each 1 to n.

    Yields the frames in the order of the budgets, each as soon as its answers are there.

    Raises ValueError, with a sentence to show, where no method has a pick order, and as `grow`.
    """
    labels = labels_with_order(exploration.methods)[:MOST_METHODS]
    for step in grow(model, exploration, labels, budgets, max_new_tokens, positions):
        yield step_frame(exploration, canvas, titles, step)


def step_frame(
    exploration: Exploration, canvas: Canvas, titles: Mapping[str, str], step: Step
) -> Display:
    """What `step` keeps, as the panel "kept" draws it, with its answers.

    Args are as of `film_frames`; `step` keeps something of at least one label.
    """
    colours = colours_of(exploration.methods)
    shots = []
    for label, kept in step.kept.items():
        overlay = selection_overlay(canvas, kept, colours[label], titles[label])
        picture = overlay.image.crop((0, 0, *canvas.size))  # the heading says what the legend would
        heading = f"{titles[label]}: {kept.size} of {exploration.n} tokens"
        shots.append(Shot(heading, colours[label], picture, step.answers.get(label)))
    return frame(exploration.view.question, shots, _note(exploration, titles))


def _note(exploration: Exploration, titles: Mapping[str, str]) -> str:
    """Who is not in the film and why, and whose picks are no prefix of the next."""
    sentences = []
    shown = labels_with_order(exploration.methods)[:MOST_METHODS]
    for label, method in exploration.methods.items():
        if reason := reason_without_order(method):
            sentences.append(f"{titles[label]} has no pick order: {reason}.")
        elif label in shown and not method.nested:
            sentences.append(f"{titles[label]} chooses anew at every budget.")
    return " ".join(sentences)
