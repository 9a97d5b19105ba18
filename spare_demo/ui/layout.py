"""What is where on the page. No events; `wiring.py` says what happens on which event."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradio as gr

from spare_demo.ui import panels, tuning
from spare_demo.ui.examples import knows_only_scenes
from spare_demo.ui.gradio_compat.files import cached_picture, cached_thumbnail
from spare_demo.ui.gradio_compat.parts import NumberAsSent, SliderAsSent, TextAsSent, photo_input
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.open_visits import VisitKey
from spare_demo.ui.steps import CHANGES, PageChanges
from spare_demo.ui.terms import glossary_html
from spare_demo.ui.viewer import ON_LOAD, script_part, viewer

CONTROLS = (
    *("image", "question", "method_a", "method_b", "seed", "aspect", "relevance_layer"),
    *("relevance_text", "guidance_text", "together", "positions", "budget"),
)
"""The parts that say what is asked and how, by name."""

_TOWER_LAYERS = [("last but one, as in CDPruner's code", -2), ("last, CLIP's own output", -1)]
_VIEWS = [("an equal share for each view", False), ("all views compete for it", True)]
PERCENTS = (5, 10, 20, 50)
_TWO_QUESTIONS = "Examples: click one again for its other question"
_TEXTS = [("the whole question", "stretches"), ("each token of it", "tokens")]
_THUMBNAIL = 112
"""Side of an example's small picture, in pixels: more than twice what is shown on most screens."""
_GUESS = """<div class="guess-toggle">
<label><input type="checkbox" autocomplete="off">
<span>Guess first: will each answer survive?</span></label>
<b id="guess-score" role="status"></b></div>"""
_GUIDANCE = [("CLIP, as in the papers", "clip"), ("words of the language model, not CLIP", "words")]


def lay_out(demo: gr.Blocks, handlers: Handlers, shown: PageChanges) -> SimpleNamespace:
    """Builds the page inside the current `gr.Blocks`.

    shown: what the parts show as it opens, by name.

    Returns:
        the components that events read or change, by name.
    """
    gives_answers = handlers.model.has_language_model
    parts = SimpleNamespace()
    parts.notice = gr.HTML(elem_id="notice", elem_classes="message-place")
    parts.visit = gr.State(VisitKey(shown["visit"]))
    parts.example = gr.State()
    with gr.Row(elem_id="story"):
        with gr.Column(min_width=0, elem_id="asked"):
            _lay_out_asked(parts, demo, handlers, shown)
        with gr.Column(min_width=320, elem_id="kept"):
            parts.headline = gr.HTML(shown["headline"], elem_id="headline")
            parts.story_card = script_part("story_card", "story-card")
            _lay_out_budget(parts, handlers, shown["rank"])
            parts.own = script_part("edit", "edit")  # above the picture, while it is changed
            if not gives_answers:
                parts.own.elem_classes = ["without-answers"]
            parts.stage = viewer(shown["stage"])
            parts.reply = script_part("reply", "reply")
            _lay_out_answers(parts, shown, gives_answers)
            parts.why = script_part("why", "reason")
    parts.lost_fold = fold(shown["lost_fold"]["label"], "lost")
    with parts.lost_fold:
        parts.curve = gr.Plot(shown["curve"], show_label=False, visible=False, elem_id="curve")
        parts.curve_words = gr.HTML(shown["curve_words"], elem_id="curve-words")
    parts.kl_fold = fold(CHANGES, "changes", gives_answers)
    with parts.kl_fold:
        parts.measure = gr.Button("Measure", size="sm", elem_id="measure")
        parts.kl = gr.Plot(show_label=False, visible=False, elem_id="kl")
        parts.kl_words = gr.HTML(panels.KL_WORDS, elem_id="kl-words")
    parts.cost_fold = fold(shown["cost_fold"]["label"], "price", gives_answers)
    with parts.cost_fold:
        parts.cost = gr.HTML(shown["cost"], elem_id="cost")
    with fold("Two questions about one picture", "against"):
        with gr.Row():
            parts.other = gr.Textbox(
                label="A second question about this picture", scale=4, elem_id="other"
            )
            parts.compare_questions = gr.Button(
                "Compare", scale=1, min_width=100, elem_id="compare-questions"
            )
        parts.second = gr.HTML(elem_id="second")
    with fold("All methods at this budget", "all-methods"):
        parts.compare_all = gr.Button("Compare all methods", size="sm", elem_id="compare-all")
        parts.many = gr.HTML(elem_id="many")
    with fold("Save or cite", "keep"):
        parts.cite = script_part("cite", "cite")
    with fold("Terms", "terms"):
        gr.HTML(glossary_html())
    with fold("Merged tokens: where they came from", "merged"):
        with gr.Row():
            parts.token = gr.Number(
                0,
                label="Token",
                info="0 shows every merged token; any other number shows what went into that one. "
                "Inside the language model, the slider below the picture sets the layer.",
                elem_id="merged-token",
            )
            parts.show_merged = gr.Button(
                "Show", size="sm", scale=0, min_width=120, elem_id="merged-show"
            )
        parts.layer = gr.Number(visible=False)  # where the slider over the layers stands
        parts.merged = gr.HTML(elem_id="merged-drawn")
    return parts


def _lay_out_asked(
    parts: SimpleNamespace, demo: gr.Blocks, handlers: Handlers, shown: PageChanges
) -> None:
    model, offered, opening = handlers.model, handlers.offered, handlers.opening
    parts.image = photo_input(
        value=opening.example.path,
        sources=["upload", "clipboard", "webcam"],
        label="Picture",
        buttons=[],
        height=180,
        elem_id="picture",
    )
    parts.question = TextAsSent(
        opening.question, label="Question", lines=1, max_lines=3, elem_id="question"
    )
    drawn = knows_only_scenes(model.name)
    kind = "of-scenes" if drawn else ""
    parts.chips = gr.HTML(
        shown["chips"], js_on_load=ON_LOAD["chips"], elem_id="chips", elem_classes=kind
    )
    parts.message = gr.HTML(elem_id="message", elem_classes="message-place")
    with gr.Row(elem_id="actions"):
        parts.ask = gr.Button("Ask", variant="primary", min_width=80, elem_id="ask")
        parts.stop = gr.Button("Stop", variant="stop", min_width=80, elem_id="stop")
        parts.scene = gr.Button("New scene", min_width=80, visible=drawn, elem_id="scene")
        parts.find = gr.Button(
            "Find a disagreement",
            min_width=0,
            visible=drawn and model.has_language_model,
            elem_id="find-disagreement",
        )
    parts.tried = gr.HTML(elem_id="tried")
    if model.has_language_model:
        gr.HTML(_GUESS, js_on_load=ON_LOAD["guess"], elem_id="guess-first")
    parts.looked = gr.HTML(elem_id="looked")
    parts.truth = gr.HTML(shown["truth"], visible=model.has_language_model, elem_id="truth")
    parts.offered = gr.Dataset(
        components=[gr.Image(visible=False)],
        samples=[[cached_thumbnail(example.path, _THUMBNAIL)] for example in offered],
        type="index",
        label="Examples" if len(opening.example.answers) == 1 else _TWO_QUESTIONS,
        elem_id="examples",
    )
    for example in offered:  # a page that shows one may ask about it at any time
        cached_picture(example.path)
    # The panels of A and B read it; it stands below them.
    parts.guidance_text = gr.Radio(
        _GUIDANCE,
        value="clip",
        label="Text guidance by",
        visible=model.has_language_model,
        render=False,
        elem_id="guidance-text",
    )
    with gr.Row(elem_id="methods"):
        menus = [
            gr.Dropdown(
                tuning.menu(model.reason_against, name),
                value=name,
                label=label,
                min_width=120,
                elem_id=f"method-{slot}",
            )
            for slot, name, label in zip(
                "ab", handlers.first_methods, ("Method A, blue", "Method B, orange"), strict=True
            )
        ]
    for slot, name, menu in zip("ab", handlers.first_methods, menus, strict=True):
        tuning.method_line(menu, name, slot)
    parts.method_a, parts.method_b = menus
    with gr.Accordion("Settings", open=False, elem_id="settings"):
        parts.tuned_a, parts.tuned_b = (
            tuning.settings_panel(menu, model.reason_against, parts.guidance_text, slot, demo)
            for menu, slot in zip(menus, "AB", strict=True)
        )
        fits = [(words, aspect) for aspect, words in model.aspects.items()]
        parts.aspect = gr.Radio(fits, value=fits[0][1], label="How the model sees the picture")
        parts.guidance_text.render()
        with_clip = model.text_tower is not None
        parts.relevance_layer = gr.Radio(
            _TOWER_LAYERS,
            value=-2,
            label="Relevance is read from the vision layer",
            visible=with_clip,
        )
        parts.relevance_text = gr.Radio(
            _TEXTS,
            value="stretches",
            label="Relevance compares patches with",
            visible=with_clip,
        )
        parts.together = gr.Radio(
            _VIEWS,
            value=False,
            label="How views share the budget",
            visible=model.several_views,
            elem_id="views",
        )
        places = [(words, option) for option, words in model.position_options.items()]
        parts.positions = gr.Radio(
            places,
            value=places[0][1],
            label="Positions of kept tokens",
            info=model.position_note or None,
            interactive=len(places) > 1,
            visible=model.has_language_model,
            elem_id="positions",
        )
        parts.seed = NumberAsSent(handlers.settings.seed, label="Random seed")


def _lay_out_budget(parts: SimpleNamespace, handlers: Handlers, rank: str) -> None:
    """The slider, its marks, and what is said of the budget. rank: as of `panels.rank_html`."""
    tokens = handlers.model.most_tokens
    with gr.Row(elem_id="budget-row"):
        parts.budget = SliderAsSent(
            1,
            tokens,
            handlers.opening.budget,
            step=1,
            label="Budget: visual tokens kept",
            buttons=[],
            elem_id="budget",
        )
        marks: list[int | str] = [mark for mark in handlers.settings.marks if mark <= tokens]
        if handlers.model.counts_vary:  # of the picture's own tokens, however many it has
            marks += [f"{percent}%" for percent in PERCENTS]
        with gr.Row(elem_id="marks"):
            parts.marks = tuple(
                (mark, gr.Button(str(mark).replace("%", " %"), size="sm", min_width=44))
                for mark in marks
            )
    parts.budget_message = gr.HTML(elem_id="budget-message", elem_classes="message-place")
    parts.rank = gr.HTML(rank, elem_id="rank")


def _lay_out_answers(parts: SimpleNamespace, shown: PageChanges, gives_answers: bool) -> None:
    """The answers below their pictures, and what can be asked further about them.

    gives_answers: whether the model does.
    """
    parts.own_answer = gr.HTML(elem_id="own-answer")
    parts.answers = gr.HTML(shown["answers"], js_on_load=ON_LOAD["answers"], elem_id="answers")
    parts.notes = gr.HTML(shown["notes"], elem_id="notes")
    with gr.Row(elem_id="further"):
        studies: dict[str, Any] = {"size": "sm", "visible": gives_answers}
        parts.find_enough = gr.Button(
            "How few are enough?", min_width=150, elem_id="find-enough", **studies
        )
        parts.find_carrier = gr.Button(
            "Which token carries the answer?", min_width=220, elem_id="find-carrier", **studies
        )
        parts.by_hand = gr.Button("Change by hand", size="sm", min_width=120, elem_id="by-hand")
        parts.keep = gr.Button("Save or cite", size="sm", min_width=110, elem_id="save-or-cite")
    parts.enough = gr.HTML(elem_id="enough")
    parts.carrier = gr.HTML(elem_id="carrier")


def fold(title: str, name: str, visible: bool = True) -> gr.Accordion:
    """A part of the page that opens when its title is pressed. name: its id."""
    return gr.Accordion(title, open=False, visible=visible, elem_id=name, elem_classes="fold")
