"""Measurements beyond one comparison; each runs the model again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from spare_demo.analysis.answer_shift import compare_questions, kl_curves, word_maps
from spare_demo.analysis.growth import growing_budgets
from spare_demo.analysis.leave_one_out import LeaveOneOut, leave_one_out
from spare_demo.analysis.min_budget import Sufficiency, find_sufficient
from spare_demo.comparison.pipeline import add_first_kl, answer_steps, start_result
from spare_demo.comparison.request import UNPRUNED, able_methods, choose
from spare_demo.comparison.selections import explore
from spare_demo.models import Answer, Model
from spare_demo.models.generate.decoder_inputs import NO_LANGUAGE_MODEL
from spare_demo.pruners import Method
from spare_demo.render.film import encode_film
from spare_demo.render.maps import relevance_change_map
from spare_demo.render.overlay import question_difference
from spare_demo.results.drawings import kl_curve
from spare_demo.results.film import film_frames
from spare_demo.settings import Settings
from spare_demo.ui import panels, studies_html
from spare_demo.ui.guide import explore_on, slider_budget
from spare_demo.ui.payload import identity
from spare_demo.ui.steps import PageChanges, kl_title
from spare_demo.ui.visit import SLOTS, Visit
from spare_demo.ui.wire import MadeFile, array, to_json, to_numbered_json

_NO_SET = (
    "It chooses inside the language model, layer by layer, so there is no one set of tokens to "
    "leave one out of. Choose a method that prunes before the language model."
)
_REDRAW_SECONDS = 1.0
"""Least time between two drawings of all methods: each sends all of its pictures."""


class Studies:
    """They hold the model and the settings, and nothing of any visitor."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings

    def enough(self, visit: Visit) -> Iterator[PageChanges]:
        """The smallest budget that keeps the unpruned answer, for both methods."""
        answers, exploration = visit.result.answers, visit.exploration
        orders = {s: exploration.picks[s] for s in SLOTS if exploration.methods[s].nested}
        if not orders:
            raise ValueError(
                "Both methods choose anew at every budget, so there is no order of picks to "
                "search. Choose SPARE or CDPruner for A or B."
            )
        known = {slot: {visit.result.budget: answers[slot]} for slot in orders if slot in answers}
        longest, positions = self.settings.max_new_tokens, visit.request.positions
        shown: dict[str, Sufficiency] = {}
        for results in find_sufficient(
            self.model, exploration.view, orders, _whole(visit), longest, positions, known
        ):
            if results == shown:
                yield {}  # a moment to be stopped at
                continue
            shown = results
            marks = {slot: each.smallest for slot, each in results.items() if each.done}
            yield {
                "enough": studies_html.enough_html(visit, results),
                "reply": to_json("marks", marks=marks),
            }

    def carrier(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """Which of the kept tokens carries the answer, for both methods; at the end as a map too.

        A method inside the language model has no one set, and is passed over with a sentence.
        """
        if not visit.result.language_model:
            raise ValueError(NO_LANGUAGE_MODEL)
        view, positions = visit.exploration.view, visit.request.positions
        longest = self.settings.max_new_tokens
        k = slider_budget(self.model, budget, visit)
        selections = visit.exploration.selections(k)
        results: dict[str, LeaveOneOut] = {}
        refused = {slot: _NO_SET for slot in SLOTS if slot not in selections}
        for slot, selection in selections.items():
            answers = visit.result.answers if visit.result.budget == k else {}
            answer = answers.get(slot) or self.model.answer(view, selection, longest, positions)
            time_words = studies_html.time_html(visit, slot, answer, selection.size)
            yield {"carrier": studies_html.carrier_html(visit, results, refused) + time_words}
            try:
                for result in leave_one_out(
                    self.model, view, selection, answer, longest, positions
                ):
                    results[slot] = result
                    more = "" if result.done else time_words
                    yield {"carrier": studies_html.carrier_html(visit, results, refused) + more}
            except ValueError as error:
                refused[slot] = str(error)
        yield {"carrier": studies_html.carrier_html(visit, results, refused)}
        if results:
            yield {"reply": studies_html.carrier_reply(visit, k, results, refused)}

    def measure(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """KL of the first token to the unpruned model against k, for A, B and random picks."""
        k = slider_budget(self.model, budget, visit)
        positions = visit.request.positions
        for curves in kl_curves(self.model, visit.exploration, _whole(visit), k, positions):
            if curves.done < 1 and len(curves.budgets) < 2:
                continue  # one point is no curve
            visit = dataclasses.replace(visit, result=dataclasses.replace(visit.result, kl=curves))
            chart = kl_curve(curves, visit.result.methods, visit.titles, k)
            yield {
                "kl": gr.update(value=chart.figure, visible=True),
                "kl_words": panels.words_html(chart.sentence),
                "kl_fold": gr.update(label=kl_title(visit, curves, k)),
                "visit": visit,
            }

    def words(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """Each word of the question with a relevance map of its own."""
        view = visit.exploration.view
        options = dataclasses.replace(visit.request.relevance, text="tokens")
        words, maps = word_maps(self.model.ask(view.picture, view.question, options))
        values, of = array(maps.T, "f4"), identity(visit)
        yield {"reply": to_numbered_json("words", of=of, words=list(words), values=values)}

    def second(self, other: str, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """Another question on the same picture: how far relevance and picks moved."""
        question, request = self.settings.check_question(other), visit.request
        if not request.question or question in ("", request.question):
            raise ValueError("This compares two questions. Ask one above and type the other here.")
        k, first = slider_budget(self.model, budget, visit), visit.exploration
        picture = first.view.picture
        view = self.model.ask(picture, question, request.relevance, request.together)
        second = explore(view, first.methods)
        shift = compare_questions(first.view, view)
        canvas, figures = visit.canvas, []
        if shift.relevance is not None:
            change = relevance_change_map(canvas, shift.relevance)
            key = studies_html.change_key_html(float(shift.relevance.abs().max()))
            figures.append((change, key))
        one, two = (e.selections(k) for e in (first, second))
        for slot in [slot for slot in SLOTS if slot in one]:
            kept = one[slot].kept, two[slot].kept
            display = question_difference(canvas, *kept, visit.titles[slot])
            key = studies_html.questions_key_html(bool(canvas.grid.padding.any()))
            figures.append((display, key))
        correlation = shift.correlation
        words = ""
        if correlation is not None:
            words = f"The two maps have a correlation of {correlation:z.2f}."
        pictures = studies_html.figures_html(canvas, figures, words)
        yield {"second": pictures}
        if not _answers_here(visit) or not visit.result.finished or visit.result.budget != k:
            return
        settings = dataclasses.replace(visit.request, question=question).options(budget=k)
        start = start_result(second, settings, self.model.name, self.model.revision)
        *_, last = answer_steps(self.model, second, start)
        yield {"second": pictures + studies_html.two_questions_html(visit, question, last)}

    def film(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """The picks of A and B up to the budget as an animated WebP, a file to hand over."""
        exploration, longest = visit.exploration, self.settings.max_new_tokens
        budgets = growing_budgets(slider_budget(self.model, budget, visit), self.settings.marks)
        asked, positions = self.model if _answers_here(visit) else None, visit.request.positions
        frames = []
        for frame in film_frames(
            asked, exploration, visit.canvas, visit.titles, budgets, longest, positions
        ):
            frames.append(frame.image)
            yield {"reply": to_json("film", done=len(frames), of=len(budgets))}
        yield {"file": MadeFile("spare-picks.webp", "image/webp", encode_film(frames, "WEBP"))}

    def all_methods(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """Every method that can run at the budget: first what it keeps, then its answer."""
        view, model = visit.exploration.view, self.model
        n, by = view.tokens.n, visit.request.relevance.guidance_text
        k = slider_budget(model, budget, visit)
        names, reasons = able_methods(model, n, k, bool(view.question.strip()), by)
        yield {"many": panels.words_html(f"Choosing tokens with {len(names)} methods …", False)}
        exploration = explore_on(model, view, choose(names, visit.request.seed), k)
        settings = visit.request.options(budget=k)
        result = start_result(exploration, settings, model.name, model.revision)
        answers = _answers(visit, exploration.methods, k) if _answers_here(visit) else {}
        result = dataclasses.replace(result, answers=answers, errors=exploration.errors(k))
        write = studies_html.ManyHtml(visit.canvas, reasons, visit.truth)
        total, drawn = len(names) + 1, time.monotonic()
        yield {"many": write(result, "The answers follow …" if _answers_here(visit) else "")}
        if not _answers_here(visit):
            return
        for now in answer_steps(model, exploration, result):
            count = len(now.answers)
            waited = time.monotonic() - drawn > _REDRAW_SECONDS
            if count > len(result.answers) and count < total and waited:
                drawn = time.monotonic()
                result = add_first_kl(now)
                yield {"many": write(result, f"{count - 1} of {total - 1} answers are there …")}
        yield {"many": write(add_first_kl(now))}


def _answers(visit: Visit, methods: Mapping[str, Method], budget: int) -> dict[str, Answer]:
    """The answers of a visit that need not be asked for again, by the labels of `methods`."""
    result = visit.result
    answers = {UNPRUNED: result.answers[UNPRUNED]} if UNPRUNED in result.answers else {}
    for slot in SLOTS:
        if slot in result.answers and result.budget == budget:
            same = (x for x, method in methods.items() if method == visit.exploration.methods[slot])
            answers |= {label: result.answers[slot] for label in same}
    return answers


def _answers_here(visit: Visit) -> bool:
    """Whether the model can answer the question about the picture, and was made for it."""
    return visit.result.language_model and not (visit.unknown or visit.off_topic)


def _whole(visit: Visit) -> Answer:
    if not visit.result.language_model:
        raise ValueError(NO_LANGUAGE_MODEL)
    answer = visit.result.answers.get(UNPRUNED)
    if answer is None:
        raise ValueError("There is no finished answer from all tokens yet. Ask first.")
    return answer
