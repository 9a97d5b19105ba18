"""What is folded away below the answers, each part under a title that gives its result."""

from __future__ import annotations

from collections.abc import Mapping

import gradio as gr

from spare_demo.analysis.cost import seconds_text
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import KlCurves
from spare_demo.render.base import number, tokens_word
from spare_demo.render.curves import nearest_place
from spare_demo.ui.visit import SLOTS, Visit

CHANGES = "What changes: the first word's probabilities at each budget (KL to all tokens)"
LOST = "What is lost: reconstruction error at each budget"
COSTS = "What it costs: measured in this run"
_ROUNDING = 1e-6


def fold(title: str, name: str, visible: bool = True) -> gr.Accordion:
    """A part of the page that opens when its title is pressed. name: its id."""
    return gr.Accordion(title, open=False, visible=visible, elem_id=name, elem_classes="fold")


def lost_title(visit: Visit, budget: int) -> str:
    """The reconstruction errors at the budget, or at the nearest one that was computed."""
    curves = visit.exploration.curves
    place = nearest_place(curves.budgets, budget)
    errors = {visit.titles[slot]: curve[place] for slot, curve in curves.errors.items()}
    return _title(
        "What is lost", curves.budgets[place], "error", errors, float(curves.random.mean[place])
    )


def kl_title(visit: Visit, curves: KlCurves, budget: int) -> str:
    """The same of the KL of the first word, in nats."""
    place = nearest_place(curves.budgets, budget)
    values = {visit.titles[slot]: curves.series[slot][place] for slot in SLOTS}
    return _title(
        "What changes", curves.budgets[place], "KL", values, float(curves.random[0][place])
    )


def cost_title(visit: Visit) -> str:
    """How long each answer's prefill took."""
    answers = visit.result.answers
    names = {UNPRUNED: "all tokens", **visit.titles}
    times = [
        f"{names[label]} {seconds_text(answers[label].prefill_seconds)}"
        for label in names
        if label in answers
    ]
    return f"What it costs: prefill {', '.join(times)}" if times else COSTS


def _title(fold: str, k: int, what: str, values: Mapping[str, float | None], random: float) -> str:
    known = {label: value for label, value in values.items() if value is not None}
    words = [f"{label} {_shown(float(value))}" for label, value in known.items()]
    figures = ", ".join([*words, f"random picks {_shown(random)}"])
    return f"{fold} with {tokens_word(k)}: {what} {figures}"


def _shown(value: float) -> str:
    """A number of a title; what is left to rounding is nothing."""
    return number(value) if abs(value) > _ROUNDING else "0"
