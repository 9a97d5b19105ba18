"""Surprising cases, mined by `evaluate --gallery`, as thumbnails that open in the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.comparison.request import QuestionOptions
from spare_demo.evaluation.gallery import read_gallery
from spare_demo.images.geometry import Aspect
from spare_demo.ui import examples, panels
from spare_demo.ui.events import QUIET
from spare_demo.ui.gradio_compat.parts import event_data, with_toast
from spare_demo.ui.layout import CONTROLS, fold

GALLERY_FILE = examples.FOLDER / "gallery.json"
_HOW = (
    '<p class="note">Found by <code>python -m spare_demo evaluate --gallery DIR --seeds {} {}'
    "</code>. Click one to ask its question.</p>"
)
TO_TOP = "() => { window.scrollTo(0, 0) }"
OPENED = (*CONTROLS, "example")
"""The parts of the comparison that a case sets, by their names there."""


def gallery_panel(parts: dict[str, Any], folder: Path, aspect: Aspect) -> Any:
    """Puts the folded cases where the page is being built, and connects them.

    Args:
        parts: the comparison's components named in `OPENED`.
        folder: where scenes are drawn.
        aspect: the model's first way of fitting a picture.

    Returns:
        the event after which the comparison holds a case and is to be asked.
    """
    gallery = read_gallery(GALLERY_FILE)
    pictures = [
        (examples.draw_scene(case.set, case.seed, folder).path, f"{case.line}. {case.question}")
        for case in gallery.cases
    ]
    with fold("Surprising cases", "gallery"):
        gr.HTML(panels.words_html(gallery.sentence) + _HOW.format(*gallery.seeds))
        shown = thumbnails(pictures, "gallery-cases")

    def open_case(event: gr.EventData) -> dict[Any, Any]:
        case = examples.read_choice(gallery.cases, event_data(event).get("index"))
        example = examples.draw_scene(case.set, case.seed, folder)
        # A case of one method is shown beside another of those that were measured.
        others = [name for name in gallery.methods if name not in case.methods]
        methods = [*case.methods, *others][:2]
        options = QuestionOptions(aspect=aspect, positions="compact")
        # Of a method that more tokens mislead, it opens where it is misled.
        budget = case.wrong_budget or case.budget
        values = controls_of(example, case.question, methods, budget, 0, options)
        return {parts[name]: value for name, value in values.items()}

    chosen = shown.select(with_toast(open_case), None, [*parts.values()], **QUIET)
    return chosen.then(None, None, None, js=TO_TOP, **QUIET)


def thumbnails(pictures: list[tuple[str, str]], name: str) -> gr.Gallery:
    """Pictures to choose from, each with its caption. name: its id on the page."""
    return gr.Gallery(
        pictures,
        columns=4,
        height="auto",
        allow_preview=False,
        interactive=False,
        show_label=False,
        buttons=[],
        visible=bool(pictures),
        elem_id=name,
        elem_classes=["gallery-cases"],
    )


def controls_of(
    example: examples.Example,
    question: str,
    methods: Sequence[str],
    budget: object,
    seed: int,
    options: QuestionOptions,
) -> dict[str, Any]:
    """All of `OPENED` as something was measured, whatever the visitor tried before.

    methods: the first stands in A and the last in B.
    """
    return {
        "image": example.path,
        "question": question,
        "method_a": methods[0],
        "method_b": methods[-1],
        "budget": budget,
        "example": example,
        "seed": seed,
        "aspect": options.aspect,
        "relevance_layer": options.relevance.layer,
        "relevance_text": options.relevance.text,
        "guidance_text": options.relevance.guidance_text,
        "together": options.together,
        "positions": options.positions,
    }
