"""What each step of a question changes on the page, by the name of the part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gradio as gr

from spare_demo.analysis.cost import seconds_text
from spare_demo.analysis.first_words import first_words
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import KlCurves
from spare_demo.models import Model
from spare_demo.models.loading.catalogue import TINY_LLAVA
from spare_demo.pruners.views import budget_groups
from spare_demo.render.base import number
from spare_demo.render.curves import nearest_place
from spare_demo.results.drawings import error_curve
from spare_demo.scenes.wordings import plain_text
from spare_demo.table import tokens_word
from spare_demo.ui import panels, permalink
from spare_demo.ui.answers import answers_html, asked_html
from spare_demo.ui.cost_table import cost_html
from spare_demo.ui.payload import payload, per_layer_reply
from spare_demo.ui.visit import SLOTS, Visit

PageChanges = dict[str, Any]
Handler = Callable[..., Iterator[PageChanges]]
"""What an event of the page calls: a generator of what changes there, by the name of the part."""

CHANGES = "What changes: the first word's probabilities at each budget (KL to all tokens)"
LOST = "What is lost: reconstruction error at each budget"
COSTS = "What it costs: measured in this run"
_ROUNDING = 1e-6


class Steps:
    """New values of the page's parts, from what a visit has so far. They hold nothing of it."""

    def __init__(self, model: Model, private: bool, needs: Callable[[], str]) -> None:
        """private: as of `Settings`. needs: what TinyLLaVA needs on this machine, in words."""
        self._model, self._private, self._needs = model, private, needs

    def pictures(self, visit: Visit, budget: int) -> PageChanges:
        """What is kept, and room for the answers to come."""
        asked = plain_text(visit.request.question)
        others = [text for text in visit.questions if plain_text(text) != asked]
        link = permalink.encode(visit.request, self._model, visit.example)
        return {
            "visit": visit,
            "message": panels.message_html(),
            "notes": panels.notes_html(visit),
            "truth": panels.truth_html(visit.truth),
            "headline": panels.headline_html(visit, budget),
            "chips": panels.chips_html(others, visit.source),
            "stage": payload(visit, budget, link),
            "answers": self.answers(visit, budget),
            **self.cost(visit),
            # These were of other picks.
            **dict.fromkeys(("tried", "enough", "carrier", "second", "rank", "many", "merged"), ""),
            "kl": gr.update(value=None, visible=False),
            "kl_words": panels.KL_WORDS,
            "kl_fold": gr.update(label=CHANGES),
        }

    def finished(self, visit: Visit, budget: int) -> PageChanges:
        return {
            "visit": visit,
            "headline": panels.headline_html(visit, budget),
            "answers": self.answers(visit, budget),
            **self.cost(visit),
            **({"reply": reply} if (reply := per_layer_reply(visit)) else {}),
        }

    def cost(self, visit: Visit) -> PageChanges:
        html = cost_html(visit, self._model.prefill_floor)
        return {"cost": html, "cost_fold": gr.update(label=cost_title(visit))}

    def answers(self, visit: Visit, budget: int, saved: bool = False) -> str:
        """The answers so far, under the question and the picture that they are of.

        saved: for a page of its own, which says so at its head.
        """
        if not self._model.has_language_model:
            answers = panels.no_answers_html(saved)
            return answers if saved else asked_html(visit, budget, answers)
        instead = ""
        if visit.unknown:
            needs = TINY_LLAVA.needs if saved else self._needs()
            instead = panels.unknown_picture_html(self._private and not saved, needs)
        elif visit.off_topic:
            instead = panels.off_topic_html()
        tokenizer = self._model.tokenizer

        def word(tokens: Sequence[int]) -> str:
            return "(end)" if [*tokens] == [tokenizer.eos_token_id] else tokenizer.decode(tokens)

        candidates = first_words(visit.result.answers, word)
        answers = answers_html(visit, budget, instead, candidates, saved)
        return answers if saved else asked_html(visit, budget, answers)

    def curve(self, visit: Visit, budget: int) -> PageChanges:
        chart = error_curve(visit.exploration.curves, visit.result.methods, visit.titles, budget)
        view, n = visit.exploration.view, visit.exploration.n
        # Each of several views is picked from by itself, and their own ranks are not at hand.
        rank = view.picture.rank if len(budget_groups(view.tokens)) == 1 else n
        words = f"{chart.sentence} {panels.rank_sentence(rank) if rank < n else ''}".strip()
        return {
            "curve": chart.figure,
            "lost_fold": gr.update(label=lost_title(visit, budget)),
            "curve_words": panels.words_html(words),
            "rank": panels.rank_html(rank, n, budget),
        }


def lost_title(visit: Visit, budget: int) -> str:
    """The reconstruction errors at the budget, or at the nearest one that was computed."""
    curves = visit.exploration.curves
    place = nearest_place(curves.budgets, budget)
    errors = {visit.titles[slot]: curve[place] for slot, curve in curves.errors.items()}
    where = _where(curves.budgets[place], budget)
    random = float(curves.random.mean[place])
    return _title(f"What is lost {where}", "error", errors, random)


def kl_title(visit: Visit, curves: KlCurves, budget: int) -> str:
    """The same of the KL of the first word, in nats."""
    place = nearest_place(curves.budgets, budget)
    values = {visit.titles[slot]: curves.series[slot][place] for slot in SLOTS}
    where = _where(curves.budgets[place], budget)
    return _title(f"What changes {where}", "KL", values, float(curves.random[0][place]))


def _where(k: int, budget: int) -> str:
    """Which budget a title's figures are of. k: that budget. budget: where the slider stands."""
    words = tokens_word(k)
    return f"with {words}" if k == budget else f"at {words}, the nearest computed"


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


def _title(fold: str, what: str, values: Mapping[str, float | None], random: float) -> str:
    known = {label: value for label, value in values.items() if value is not None}
    words = [f"{label} {_shown(float(value))}" for label, value in known.items()]
    figures = ", ".join([*words, f"random picks {_shown(random)}"])
    return f"{fold}: {what} {figures}"


def _shown(value: float) -> str:
    """A number of a title; what is left to rounding is nothing."""
    return number(value) if abs(value) > _ROUNDING else "0"
