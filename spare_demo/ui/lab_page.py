"""The Lab's tab: what is where on it, and which event calls which step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr

from spare_demo.evaluation.budgets import middle_budget
from spare_demo.pruners import PRUNERS
from spare_demo.scenes.sets import SET_WORDS
from spare_demo.ui.borrowed_gpu import Here
from spare_demo.ui.events import QUIET, begin_on, in_steps, stop_on
from spare_demo.ui.examples import read_choice
from spare_demo.ui.gallery import TO_TOP, controls_of, thumbnails
from spare_demo.ui.gradio_compat.parts import (
    DropdownAsSent,
    NumberAsSent,
    RadioAsSent,
    event_data,
    with_toast,
)
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.lab import METHODS, TO_COME, Bench, Lab
from spare_demo.ui.steps import PageChanges

LAB_CSS = Path(__file__).with_name("lab.css")

# A run takes minutes: it waits for other runs only, and shares the model with those who ask, since
# the model takes turns pass by pass.
_RUNNING: dict[str, Any] = {"concurrency_id": "lab", "concurrency_limit": 1}

# What a run shows once more at its end, should the page have lost it (events.py).
_AGAIN = ("curve", "download")

_INTRO = (
    "<p>Measure how often answers stay right, on drawn scenes whose true answers are known. Every "
    "question is asked with the tokens that each method keeps at each budget. Bars are 95\u00a0% "
    "intervals over scenes.</p>"
)
_CLI = (
    "For longer runs, questions of your own and all figures: "
    "<code>python -m spare_demo evaluate --help</code>"
)


def lay_out_lab(lab: Lab) -> SimpleNamespace:
    """Builds the tab inside the current `gr.Tab`; the components of its events, by name."""
    titles, budgets = lab.methods, list(lab.budgets)
    names = [(title, name) for name, title in titles.items()]
    chosen = [name for name in METHODS if name in titles]
    parts = SimpleNamespace(bench=gr.State(), rows=gr.State([]))
    gr.HTML(_INTRO, elem_classes="lab-intro")
    with gr.Row(elem_id="lab"):
        with gr.Column(scale=3, min_width=280, elem_id="lab-plan"):
            parts.methods = gr.Dropdown(
                names, value=chosen, label="Methods", multiselect=True, elem_id="lab-methods"
            )
            parts.budgets = gr.CheckboxGroup(
                budgets, value=budgets, label="Budgets: visual tokens kept", elem_id="lab-budgets"
            )
            sets = [(words, name) for name, words in SET_WORDS.items()]
            parts.which = gr.Radio(sets, value="held-out", label="Drawn scenes")
            most = f"Scenes (up to {lab.most_scenes})"
            with gr.Row():
                parts.scenes = NumberAsSent(10, label=most, min_width=120, elem_id="lab-scenes")
                parts.seed = NumberAsSent(0, label="Random seed", min_width=120)
            with gr.Row(elem_id="lab-actions"):
                parts.run = gr.Button("Run", variant="primary", min_width=80, elem_id="lab-run")
                parts.stop = gr.Button("Stop", variant="stop", min_width=80, elem_id="lab-stop")
                parts.download = gr.DownloadButton(
                    "Download CSV", min_width=80, interactive=False, elem_id="lab-download"
                )
            parts.message = gr.HTML(elem_id="lab-message", elem_classes="message-place")
            parts.looked = gr.HTML(elem_id="lab-looked")
            parts.progress = gr.HTML(elem_id="lab-progress")
            gr.HTML(f'<p class="note">{_CLI}</p>')
        with gr.Column(scale=7, min_width=320, elem_id="lab-found"):
            gr.HTML("<h2>Right answers at each budget</h2>")
            parts.curve = gr.Plot(show_label=False, elem_id="lab-curve")
            parts.curve_words = gr.HTML(TO_COME, elem_id="lab-curve-words")
            parts.skills = gr.HTML(elem_id="lab-skills")
    gr.HTML("<h2>Where A is right and B is wrong</h2>")
    with gr.Row(elem_id="lab-compared"):
        parts.a = DropdownAsSent(names, value=chosen[0], label="A", elem_id="lab-a")
        parts.b = DropdownAsSent(names, value=chosen[1], label="B", elem_id="lab-b")
        at = middle_budget(budgets)
        parts.at = RadioAsSent(budgets, value=at, label="Budget", elem_id="lab-at")
    parts.cases_words = gr.HTML(elem_id="lab-cases-words")
    parts.cases = thumbnails([], "lab-cases")
    return parts


def wire_lab(
    lab: Lab, parts: SimpleNamespace, opening: dict[str, Any], tabs: gr.Tabs, gpu: Here
) -> Any:
    """Connects the tab's events.

    opening: the comparison's components named in `OPENED`. gpu: where a run measures.

    Returns:
        the event after which the comparison holds a case and is to be asked.
    """
    p = parts
    changed = (
        *("bench", "rows", "message", "progress", "curve", "curve_words", "skills", "at", "a", "b"),
        *("cases", "cases_words", "download"),
    )
    outputs = [getattr(p, name) for name in changed]
    steps_of_run = gpu.stream(lab.measure)

    def put(values: PageChanges) -> dict:
        return {getattr(p, name): value for name, value in values.items()} or gr.skip()

    def running(*inputs: Any) -> Iterator[dict]:
        steps = with_refusals(steps_of_run)(*inputs)
        yield from map(put, in_steps(steps, _AGAIN))

    def show_choices(bench: Bench | None, a: object, b: object, at: object) -> dict:
        return put(lab.choices(bench, a, b, at))

    def stopped(bench: Bench | None, a: object, b: object, at: object) -> dict:
        return put(lab.finished(bench) | lab.choices(bench, a, b, at))

    def show_cases(bench: Bench | None, a: object, b: object, at: object) -> dict:
        (shown,) = with_refusals(lambda: iter([lab.look_into(bench, a, b, at)]))()
        return put(shown)

    def opened(
        bench: Bench, rows: list, a: object, b: object, at: object, event: gr.EventData
    ) -> dict[Any, Any]:
        row = read_choice(rows, event_data(event).get("index"))
        example, seed = lab.case(bench, row)
        # All tokens stand on the comparison anyway; there the other method takes both places.
        methods = [label for label in (a, b) if label in tuple(PRUNERS)] or list(METHODS[:1])
        values = controls_of(example, example.question, methods, at, seed, bench.experiment)
        changes: dict[Any, Any] = {opening[name]: value for name, value in values.items()}
        return changes | {tabs: gr.Tabs(selected="compare")}

    inputs = [p.methods, p.budgets, p.scenes, p.which, p.seed, p.a, p.b, p.at]
    options: dict[str, Any] = {"trigger_mode": "multiple", "show_progress_on": p.looked, **_RUNNING}
    run = begin_on(p.run.click, running, inputs, outputs, "run", **options)
    compared = [p.bench, p.a, p.b, p.at]
    # By now the visitor may have chosen others, or the page have lost these (events.py).
    run.then(show_choices, compared, outputs, **QUIET)
    stop_on(p.stop.click, [run], stopped, compared, outputs, "run")
    for choice in (p.a, p.b, p.at):
        choice.input(show_cases, compared, outputs, trigger_mode="always_last", **QUIET)
    chosen = p.cases.select(
        with_toast(opened), [p.bench, p.rows, p.a, p.b, p.at], [*opening.values(), tabs], **QUIET
    )
    return chosen.then(None, None, None, js=TO_TOP, **QUIET)
