"""Guess first: a tick that hides the answers of A and B until the visitor has guessed."""

from __future__ import annotations

import gradio as gr

_TOGGLE = """<div class="guess-toggle">
<label><input type="checkbox" autocomplete="off"> Guess first</label>
<span class="note">does each answer stay the same?</span>
<b id="guess-score" role="status"></b></div>"""


def guess_toggle() -> gr.HTML:
    """The tick and the score of this visit; js/guess.js does the rest in the browser."""
    return gr.HTML(_TOGGLE, js_on_load="SPARE.guess.start(element)", elem_id="guess-first")
