"""A finished comparison as one HTML file, which opens from a disk without a server or a network.

It has the viewer of the page: the same HTML, JavaScript and payload (`html/saved.html`,
`js/saved.js`). What needs a model it does not have: other answers, and sets made by hand.
"""

from __future__ import annotations

import base64
import dataclasses
import io
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import torch

import spare_demo
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import explore
from spare_demo.images.load import photo_digest
from spare_demo.render.canvas import Canvas
from spare_demo.tokens import cpu_by_default
from spare_demo.ui import panels
from spare_demo.ui.answers import answers_html
from spare_demo.ui.payload import payload
from spare_demo.ui.viewer import code, markup
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import to_bytes

MOST_BYTES = 1_000_000
"""Of a saved page, the picture in it included."""

_HERE = Path(__file__).parent
_SCRIPTS = (
    *("core", "data", "linear", "colours", "draw", "pane", "layers", "maps", "words"),
    *("caption", "viewer", "scrub", "depth", "why", "answers", "link", "terms", "phone", "saved"),
)
# Ever smaller; only the first loses nothing.
_PICTURE_FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("PNG", {"optimize": True}),
    *(("JPEG", {"quality": quality}) for quality in (95, 85, 70, 50, 30)),
)


@cpu_by_default()
def saved_page(result: Result) -> str:
    """The page of a result that `compare` or `run` gave: of its first two methods.

    Raises ValueError, with a sentence to show, for a result without features, without two methods
    or without all its answers.
    """
    note = ""
    if (count := len(result.methods)) > len(SLOTS):
        note = f"{count} methods were compared: this page shows the first {len(SLOTS)} of them."
    return save_visit(visit_of(result), note)


def save_visit(visit: Visit, note: str = "", answers: str | None = None) -> str:
    """The page of a finished visit, at the budget of its answers.

    note: a sentence below the answers. answers: HTML of them; None makes it, without the
        probabilities of first words, which need the model's tokenizer.

    Raises ValueError, with a sentence to show, while an answer is missing.
    """
    visit.check_finished()
    result, budget = visit.result, visit.result.budget
    if answers is None:
        answers = (
            answers_html(visit, budget, saved=True)
            if result.language_model
            else panels.no_answers_html(saved=True)
        )
    question = result.question or "(no question)"
    values = {
        "title": escape(f"{question} – SPARE demo"),
        "question": escape(question),
        "methods": escape(" and ".join(visit.titles.values())),
        "model": escape(result.model),
        "revision": escape(result.revision),
        "version": spare_demo.__version__,
        "style": "\n".join(
            (_HERE / name).read_text("utf-8") for name in ("style.css", "saved.css")
        ),
        "headline": panels.headline_html(visit, budget),
        "viewer": markup("viewer"),
        "why": markup("why"),
        "n": visit.exploration.n,
        "budget": budget,
        "answers": answers,
        "notes": panels.notes_html(visit, note),
        "scripts": code(_SCRIPTS),
    }
    template = Template((_HERE / "html" / "saved.html").read_text("utf-8"))
    # One pass over the template: what stands in a question is never taken for a place in it.
    empty = len(template.substitute(values, comparison="").encode())
    comparison = _fit(payload(visit, budget), visit.canvas, MOST_BYTES - empty)
    return template.substitute(values, comparison=comparison)


def visit_of(result: Result) -> Visit:
    """A result's first two methods in the page's slots, their picks at every budget made again.

    Raises ValueError, with a sentence to show, for a result without features or two methods.
    """
    if result.view is None:
        raise ValueError(
            "This result came from a file or another process and has no features. Ask again with "
            "compare --from FILE --again, or run(model, result.request) in Python."
        )
    labels = list(result.methods)[: len(SLOTS)]
    if len(labels) < len(SLOTS):
        raise ValueError("A page shows two methods side by side. Compare one more.")
    slots = dict(zip(labels, SLOTS, strict=True))
    request = result.request
    methods = {slot: request.labelled[label] for label, slot in slots.items()}
    every_merging_note = {method.merging_note for method in request.labelled.values()}
    request = dataclasses.replace(request, methods=methods)
    assert request.aspect is not None  # the run has chosen one
    exploration = explore(result.view, methods)
    unshown = every_merging_note - {*exploration.notes}
    notes = tuple(note for note in result.notes if note not in unshown)
    view = result.view.to(torch.device("cpu"))
    exploration = dataclasses.replace(exploration, view=view, notes=notes)
    return Visit(
        key=(photo_digest(result.photo), request.aspect),
        canvas=Canvas(result.photo, result.grid),
        exploration=exploration,
        request=request,
        result=_only(result, labels).relabel(slots),
    )


def _only(result: Result, labels: list[str]) -> Result:
    """The result with some of its methods, by the names that it gives them on pictures."""
    titles, kept = result.titles, {UNPRUNED, *labels}
    # In every field, or a left-out method called "B" would stand in the place of the second one.
    by_label: dict[str, Any] = {
        name: {label: value for label, value in values.items() if label in kept}
        for name, values in vars(result).items()
        if isinstance(values, dict)
    }
    for label, record in by_label["methods"].items():
        by_label["methods"][label] = dataclasses.replace(record, title=titles[label])
    return dataclasses.replace(result, **by_label)


def _fit(comparison: dict[str, Any], canvas: Canvas, most: int) -> str:
    """The comparison as base64 of at most so many letters; a large picture loses detail for it."""
    for kind, settings in _PICTURE_FORMATS:
        picture = io.BytesIO()
        canvas.image.save(picture, kind, **settings)
        text = base64.b64encode(to_bytes(comparison | {"picture": picture.getvalue()})).decode()
        if len(text) <= most:
            return text
    raise ValueError(
        "This comparison does not fit a page of 1 MB. Take a smaller picture or a shorter question."
    )
