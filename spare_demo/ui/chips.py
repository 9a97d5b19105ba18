"""Questions below the question's box that the picture can answer; a click asks one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import gradio as gr

from spare_demo.ui.visit import Visit

_ON_LOAD = "SPARE.chips(element, trigger); /* 'choose' */"


def chips_part(html: str) -> gr.HTML:
    """The place of the chips; html: those of the picture that the page opens on.

    Its event `choose` brings the question that was clicked.
    """
    return gr.HTML(html, js_on_load=_ON_LOAD, elem_id="chips")


def chips_html(questions: Sequence[str], source: str) -> str:
    """A button for each question; "" where there is none.

    source: what the page knows their picture by; js/chips.js hides them beside any other.
    """
    if not questions:
        return ""
    buttons = "".join(
        f'<button type="button" class="chip">{escape(question)}</button>' for question in questions
    )
    return (
        f'<div class="question-chips" role="group" aria-label="Questions this picture can answer" '
        f'data-picture="{escape(source)}">{buttons}</div>'
    )


def choose(asked: Mapping[str, Any], visit: Visit) -> Iterator[dict[str, Any]]:
    """The question of the chip that was clicked, in the question's box.

    Raises ValueError for one that the picture on the page was not offered with.
    """
    question = asked.get("question")
    if question not in visit.questions:
        raise ValueError(
            "This question is of another picture. Press Ask to see what is on the page."
        )
    yield {"question": question}
