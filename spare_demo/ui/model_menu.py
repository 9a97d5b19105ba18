"""The folded menu of a private page that changes its model. A public page has none of it."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from spare_demo.models import ModelError
from spare_demo.models.loading.memory import BITS
from spare_demo.ui import panels
from spare_demo.ui.model_switch import ModelSwitch

# Also shows the bars that downloading and reading weights draw on a terminal.
_PROGRESS = gr.Progress(track_tqdm=True)
_LOADING = "<p class='note'>Waiting for the current answer to finish.</p>"


def model_menu(demo: gr.Blocks, model_switch: ModelSwitch) -> None:
    """Puts the menu where the page is being built. While a model loads, its progress is shown."""
    with gr.Accordion("Another model", open=False, elem_id="another-model"):
        with gr.Row():
            name = gr.Dropdown(
                model_switch.offered,
                value=model_switch.settings.model,
                label="Model",
                info="Those of the table, and those the server was started with by --models.",
                scale=3,
                elem_id="model-name",
            )
            typed = gr.Textbox(
                label="Or another one",
                info="A folder with a checkpoint, or a repository of the Hugging Face hub.",
                scale=3,
                elem_id="model-typed",
            )
            bits = gr.Radio(
                [("as published" if b == 16 else f"{b} bits", b) for b in BITS],
                value=model_switch.settings.bits,
                label="Weights",
                info="8 and 4 need a GPU and bitsandbytes.",
                scale=2,
            )
            load = gr.Button("Load it", scale=1, min_width=100, elem_id="load-model")
        status = gr.HTML(elem_id="model-status", elem_classes="message-place", min_height=60)
    gr.HTML(elem_id="model-changed", elem_classes="message-place")

    def change(name: str | None, typed: str, bits: int, progress: gr.Progress = _PROGRESS) -> str:
        def report(sentence: str) -> None:
            print(sentence, flush=True)
            progress(None, desc=sentence)

        try:
            return panels.words_html(model_switch.change(typed.strip() or name, bits, report))
        except (ModelError, ValueError) as error:
            return panels.message_html(str(error))

    # The turn of a question: who asked before gets the answer.
    private: dict[str, Any] = {"api_visibility": "private"}
    turn = {"concurrency_id": "model", "concurrency_limit": 1, **private}
    quiet = {"queue": False, "show_progress": "hidden", **private}
    begun = load.click(lambda: _LOADING, None, status, **quiet)
    begun.then(None, None, None, js="() => SPARE.awaitModel()", **quiet)
    begun.then(change, [name, typed, bits], status, show_progress="full", **turn)
    model = model_switch.model
    here = json.dumps([f"{model.name}@{model.revision}", model.title])
    demo.load(None, None, None, js=f"() => SPARE.announceModel(...{here})", **quiet)
