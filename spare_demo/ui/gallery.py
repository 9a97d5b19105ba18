"""Surprising cases, mined by `evaluate --gallery`, as thumbnails that open in the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.evaluation.gallery import Case, read_gallery
from spare_demo.ui import examples, panels
from spare_demo.ui.folds import fold

GALLERY_FILE = examples.FOLDER / "gallery.json"
_HOW = (
    '<p class="note">Mined by <code>python -m spare_demo evaluate --gallery DIR</code>. Choose one '
    "to ask it.</p>"
)
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def gallery_panel(parts: dict[str, Any], folder: Path, aspect: str) -> Any:
    """Puts the folded cases where the page is being built, and connects them.

    Args:
        parts: the comparison's components that a case sets, by the names of `case_controls`.
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
        gr.HTML(panels.words_html(gallery.sentence) + _HOW)
        shown = gr.Gallery(
            pictures,
            columns=4,
            height="auto",
            allow_preview=False,
            interactive=False,
            show_label=False,
            buttons=[],
            visible=bool(pictures),
            elem_id="gallery-cases",
        )

    def open_case(event: gr.SelectData) -> dict[Any, Any]:
        values = case_controls(gallery.cases[event.index], gallery.methods, folder, aspect)
        return {parts[name]: value for name, value in values.items()}

    chosen = shown.select(open_case, None, [*parts.values()], **_QUIET)
    return chosen.then(None, None, None, js="() => { window.scrollTo(0, 0) }", **_QUIET)


def case_controls(
    case: Case, methods: tuple[str, ...], folder: Path, aspect: str
) -> dict[str, Any]:
    """What the comparison's controls say for a case, by their names there.

    methods: all that were measured; a case of one method is shown beside another of them.
    """
    example = examples.draw_scene(case.set, case.seed, folder)
    a, b = (*case.methods, *(name for name in methods if name not in case.methods))[:2]
    return {
        "image": example.path,
        "question": case.question,
        "method_a": a,
        "method_b": b,
        "budget": case.budget,
        "example": example,
        # As the cases were measured, whatever the visitor tried before.
        "seed": 0,
        "aspect": aspect,
        "relevance_layer": -2,
        "relevance_text": "stretches",
        "guidance_text": "clip",
        "together": False,
        "positions": "compact",
    }
