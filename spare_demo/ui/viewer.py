"""The parts of the page that its own JavaScript runs, as Gradio takes them.

Their HTML lies in `html/`, their JavaScript in `js/`; nothing is built or fetched. A part's
`on_load` names its events in quotes, which is how Gradio learns of them.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.drawings import PANELS, USUAL

_HERE = Path(__file__).parent
# In the order they build on each other.
_SCRIPTS = (
    *("core", "data", "linear", "colours", "draw", "layers", "maps", "words", "viewer", "scrub"),
    *("depth", "menus", "messages", "why", "edit", "answers", "link", "tour", "cite"),
)
_ON_LOAD = {
    "viewer": "SPARE.viewer(element, props, trigger, watch);"
    "/* 'picks' 'leftover' 'reopen' 'words' */",
    "why": "SPARE.why(element, trigger); /* 'why' */",
    "edit": "SPARE.edit(element, props, trigger); /* 'ask_own' */",
    "cite": "SPARE.cite(element, trigger); /* 'cite' */",
    # The hidden part through which the server answers the page's own questions.
    "mail": "watch('value', () => { if (props.value) SPARE.hear(props.value) });",
}
ANSWERS_ON_LOAD = "SPARE.answers(element, trigger); /* 'answer_now' */"


def scripts(changing: bool = False) -> str:
    """All of the page's own JavaScript, for the head of the document.

    changing: with what a page needs on which the model can be changed.
    """
    names = (*_SCRIPTS, "models") if changing else _SCRIPTS
    code = "\n".join((_HERE / "js" / f"{name}.js").read_text("utf-8") for name in names)
    return f"<script>\n{code}\n</script>"


def _panel_choices() -> str:
    return "".join(
        f'<label><input type="checkbox" value="{name}"{" checked" if name in USUAL else ""}>'
        f"<span>{escape(words)}</span></label>\n"
        for name, words in PANELS.items()
    )


def scripted(part: str, name: str, value: Any = None) -> gr.HTML:
    """A part that the page's own JavaScript fills; Gradio only hands it its value.

    Args:
        part: which one: a key of the list above, and where it has HTML, of `html/`.
        name: its id on the page.
    """
    template = _HERE / "html" / f"{part}.html"
    markup = template.read_text("utf-8") if template.exists() else ""
    if part == "viewer":
        markup = markup.replace("PANES", (_HERE / "html" / "pane.html").read_text("utf-8") * 4)
    if part == "cite":
        markup = markup.replace("PANELS", _panel_choices())
    return gr.HTML(
        value,
        html_template=markup,
        js_on_load=_ON_LOAD[part],
        apply_default_css=False,
        elem_id=name,
    )
