"""The parts of the page that its own JavaScript runs, as Gradio takes them.

Their HTML lies in `html/`, their JavaScript in `js/`; nothing is built or fetched. A part's
`on_load` names its events in quotes, which is how Gradio learns of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.render.sentences import TEMPLATES
from spare_demo.results.drawings import OF_MANY, PANELS, USUAL
from spare_demo.ui.gradio_compat.files import write_to_cache
from spare_demo.ui.terms import TERMS
from spare_demo.ui.wire import MadeFile, to_bytes, to_numbered_json

_HERE = Path(__file__).parent
# In the order they build on each other.
_SCRIPTS = (
    *("core", "data", "linear", "colours", "draw", "pane", "layers", "maps", "carrier"),
    *("words", "caption", "viewer", "scrub", "depth", "menus", "messages", "why", "edit"),
    *("answers", "runs"),
    *("link", "cite", "upload", "lost", "chips", "guess", "phone", "rove", "terms", "stories"),
    *("story_card", "folds", "choices", "plots", "print"),
)
ON_LOAD = {
    "viewer": "SPARE.viewer(element, props, trigger, watch);"
    "/* 'picks' 'leftover' 'reopen' 'words' */",
    "why": "SPARE.why(element, trigger); /* 'why' */",
    "edit": "SPARE.edit(element, props, trigger); /* 'ask_own' */",
    "cite": "SPARE.cite(element, trigger); /* 'cite' 'save_page' 'film' */",
    "story_card": "SPARE.storyCard(element, trigger); /* 'choose_methods' */",
    "chips": "SPARE.chips(element, trigger); /* 'choose' */",
    "answers": "SPARE.answers(element, trigger); /* 'answer_now' 'load_tiny' */",
    # js/guess.js hides the answers of A and B until the visitor has guessed.
    "guess": "SPARE.guess.start(element)",
    # The hidden part through which the server answers the page's own questions.
    "reply": "watch('value', () => { if (props.value) SPARE.receive(props.value) });",
}
"""What the page does with a part when it is there, by the part's name."""


def scripts(changing: bool) -> str:
    """All of the page's own JavaScript, for the head of the document.

    changing: with what a page needs on which the model can be changed.
    """
    names = (*_SCRIPTS, "models") if changing else _SCRIPTS
    return f"<script>\n{code(names)}\n</script>"


def code(names: Iterable[str]) -> str:
    """Files of `js/` one after the other, with the sentences and the terms that they write."""
    files = "\n".join((_HERE / "js" / f"{name}.js").read_text("utf-8") for name in names)
    filled = files.replace("SENTENCES = {}", f"SENTENCES = {json.dumps(TEMPLATES)}")
    return filled.replace("TERMS = {}", f"TERMS = {json.dumps(TERMS)}")


def _panel_choices() -> str:
    return "".join(
        f'<label><input type="checkbox" value="{name}"{" checked" if name in USUAL else ""}>'
        f"<span>{escape(words)}</span></label>\n"
        for name, words in PANELS.items()
        if name not in OF_MANY  # the page compares two
    )


def markup(part: str) -> str:
    """A part's HTML; "" for one that has none."""
    template = _HERE / "html" / f"{part}.html"
    html = template.read_text("utf-8") if template.exists() else ""
    if part == "viewer":
        html = html.replace("PANES", (_HERE / "html" / "pane.html").read_text("utf-8") * 3)
    if part == "cite":
        html = html.replace("PANELS", _panel_choices())
    return html


def script_part(part: str, name: str) -> gr.HTML:
    """A part that the page's own JavaScript fills; Gradio only hands it its value.

    Args:
        part: which one: a key of `ON_LOAD`, and where it has HTML, a file of `html/`.
        name: its id on the page.
    """
    return gr.HTML(
        html_template=markup(part), js_on_load=ON_LOAD[part], apply_default_css=False, elem_id=name
    )


def viewer(comparison: dict[str, Any] | None) -> gr.HTML:
    """The patch viewer; its value is the address of a file that `write_comparison` made.

    Gradio's page makes text of a value again and again, to see whether it is another one, and the
    garbage of that would stop the browser while somebody scrubs. Like an upload the file lies in
    Gradio's cache for some hours; that of `comparison`, on which the page opens, stays. Without
    one the viewer is empty until somebody asks.
    """
    part = script_part("viewer", "stage")
    if comparison is not None:
        part.value = write_comparison(comparison)
    return part


def write_comparison(comparison: dict[str, Any]) -> str:
    """The path of a new file of what `payload` gives, for the viewer of the page.

    Asked again the same is written again: it may not have arrived. Raises OSError.
    """
    return write_to_cache(to_bytes(comparison), "comparison.bin")


def write_file(file: MadeFile) -> str:
    """The reply that lets the browser fetch a file; raises OSError where it cannot be written.

    In a reply it would stay in memory for as long as somebody takes to read it.
    """
    path = write_to_cache(file.content, file.name)
    return to_numbered_json("file", name=file.name, type=file.media_type, path=path)
