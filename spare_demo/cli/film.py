"""`compare --film`: the pick order as an animated WebP or GIF."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spare_demo.analysis.growth import growing_budgets, labels_with_order
from spare_demo.cli.options import check_file
from spare_demo.comparison.request import LabelledMethods
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import explore
from spare_demo.models import Model
from spare_demo.render.canvas import Canvas
from spare_demo.render.film import encode_film
from spare_demo.results.film import film_frames, kind_of_film


def check_film(arguments: argparse.Namespace, methods: LabelledMethods) -> None:
    """ValueError or OSError, with a sentence to show, where there can be no film."""
    if arguments.film is None:
        return
    kind_of_film(arguments.film)
    labels_with_order(methods)
    check_file(Path(arguments.film), Path(arguments.out) / "result.json")


def write_film(name: str | None, model: Model, result: Result, marks: Sequence[int]) -> None:
    """Ask at each step, write the film and print where it is; nothing where `name` is None.

    result: finished, of this run: it has its view. marks: budgets to stop at beside the doubled.
    """
    if name is None:
        return
    assert result.view is not None
    exploration = explore(result.view, result.request.labelled, result.budget)
    frames = film_frames(
        model if model.has_language_model else None,
        exploration,
        Canvas(result.photo, result.grid),
        result.titles,
        growing_budgets(result.budget, marks),
        result.settings.max_new_tokens,
        result.settings.positions,
    )
    data = encode_film([frame.image for frame in frames], kind_of_film(name))
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(data)
    print(f"The film is {name}")
