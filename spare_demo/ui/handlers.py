"""What each event of the page does: inputs in, new values of the page's parts out, by name."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.comparison import compare, read_budget
from spare_demo.geometry import Aspect
from spare_demo.models import Model
from spare_demo.pictures import PictureError, open_picture
from spare_demo.record import record
from spare_demo.relevance import RelevanceOptions, TextPieces
from spare_demo.render import reconstruction_figure
from spare_demo.settings import Settings
from spare_demo.ui import examples, panels
from spare_demo.ui.stage import stage_html
from spare_demo.ui.visit import SLOTS, Choices, Guide, Visit

# Moving the slider asks again by itself where all answers take less than this.
_QUICK = 2.0

_SORRY = (
    "Something went wrong on the server. Your picture and question are still here: ask again, or "
    "try a smaller picture."
)

Shown = dict[str, Any]

_log = logging.getLogger(__name__)
_looks = itertools.count()


def guarded(handler: Callable[..., Iterator[Shown]]) -> Callable[..., Iterator[Shown]]:
    """What goes wrong becomes a sentence on the page; the rest of the page stays as it is.

    A ValueError's message is made for the visitor (a PictureError is one). Of anything else the
    visitor learns only that it happened, and the log the rest.
    """

    def run(*inputs: Any) -> Iterator[Shown]:
        try:
            yield from handler(*inputs)
        except ValueError as error:
            yield {"message": panels.message_html(str(error))}
        except Exception:
            _log.exception("An event of the page failed")
            yield {"message": panels.message_html(_SORRY)}

    return run


class Handlers:
    """They hold the model and the settings, and nothing of any visitor.

    Each event is a generator of what changes on the page, by the name of the part.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.guide = Guide(model, settings)
        self.offered = examples.shipped()
        self.scenes = Path(tempfile.mkdtemp(prefix="spare-scenes-"))

    # What each step shows.

    def pictures(self, visit: Visit, budget: int, layer: str) -> Shown:
        """What is kept, and room for the answers to come."""
        return {
            "visit": visit,
            "message": panels.message_html(),
            "notes": panels.notes_html(visit),
            "truth": panels.truth_html(visit.truth),
            "stage": stage_html(visit, budget, layer),
            "answers": self.answers(visit, budget),
            "cost": panels.cost_html(visit),
        }

    def finished(self, visit: Visit, budget: int) -> Shown:
        return {
            "visit": visit,
            "answers": self.answers(visit, budget),
            "cost": panels.cost_html(visit),
            **self.curve(visit, budget),
        }

    def answers(self, visit: Visit, budget: int) -> str:
        # The built-in model's own warning, where the picture is not of the world it knows.
        strange = self.model.name == "built-in" and not visit.drawn
        return panels.answers_html(visit, budget, self.model.description if strange else "")

    def curve(self, visit: Visit, budget: int) -> Shown:
        curves = visit.exploration.curves
        names = {slot: f"{slot} {visit.titles[slot]}" for slot in SLOTS}
        series = {names[slot]: curves.errors[slot] for slot in SLOTS}
        band = (
            curves.random.mean.tolist(),
            curves.random.low.tolist(),
            curves.random.high.tolist(),
        )
        figure = reconstruction_figure(curves.budgets, series, band, curves.bound.tolist(), budget)
        return {"curve": figure.image, "curve_words": panels.words_html(figure.sentence)}

    # Events.

    def ask(
        self,
        path: str | None,
        question: str,
        method_a: str,
        method_b: str,
        seed: object,
        aspect: Aspect,
        tower_layer: int,
        text: TextPieces,
        budget: object,
        layer: str,
        example: examples.Example | None,
        before: Visit | None,
    ) -> Iterator[Shown]:
        """Look, show the pictures, answer word by word."""
        k = read_budget(budget, self.tokens)
        relevance = RelevanceOptions(tower_layer, text)
        choices = Choices(method_a, method_b, _read_seed(seed), aspect, relevance)
        visit = self.guide.look(path, question, choices, before)
        known = [*self.offered, *([example] if example else [])]
        drawn, truth = examples.find(known, visit.key[0], question)
        visit = dataclasses.replace(visit, drawn=drawn, truth=truth)
        # From here on all of the page is about this picture and question.
        looked = f'<i data-look="{next(_looks)}"></i>'
        yield self.pictures(visit, k, layer) | {"looked": looked}
        yield from self._answer(visit, k)

    def change_methods(
        self, method_a: str, method_b: str, seed: object, budget: object, layer: str, visit: Visit
    ) -> Iterator[Shown]:
        """Other methods on the same picture and question."""
        k = read_budget(budget, self.tokens)
        choices = Choices(method_a, method_b, _read_seed(seed))
        visit = self.guide.change_methods(visit, choices)
        yield self.pictures(visit, k, layer)
        yield from self._answer(visit, k)

    def redraw(self, budget: object, layer: str, visit: Visit) -> Iterator[Shown]:
        """All that needs no language model, at the slider's budget."""
        try:
            k = read_budget(budget, self.tokens)
        except ValueError as error:
            yield {"budget_message": panels.message_html(str(error))}
            return
        yield {
            "budget_message": panels.message_html(),
            "stage": stage_html(visit, k, layer),
            "answers": self.answers(visit, k),
            **self.curve(visit, k),
        }

    def settle(self, budget: object, layer: str, visit: Visit) -> Iterator[Shown]:
        """The slider stands still: redraw, and answer at its budget unless that would take long."""
        yield from self.redraw(budget, layer, visit)
        try:
            k = read_budget(budget, self.tokens)
        except ValueError:  # the page says so by now
            return
        if visit.answered_budget != k and visit.answer_seconds < _QUICK:
            yield from self._answer(visit, k)

    def stop(self, budget: object, visit: Visit) -> Iterator[Shown]:
        """What there is of the answers when the visitor has heard enough."""
        visit = dataclasses.replace(visit, stopped=True)
        yield self.finished(visit, read_budget(budget, self.tokens))

    def _answer(self, visit: Visit, budget: int) -> Iterator[Shown]:
        for now in self.guide.answer(visit, budget):
            visit = now
            yield {"visit": visit, "answers": self.answers(visit, budget)}
        yield self.finished(visit, budget)

    def new_scene(self) -> tuple[str, str, examples.Example]:
        example = examples.new_scene(self.scenes)
        return example.path, example.question, example

    def compare(
        self,
        image: str,
        question: str,
        method_a: str = "spare",
        method_b: str = "cdpruner",
        budget: float = 64,
        seed: float = 0,
    ) -> dict[str, Any]:
        """Everything of one comparison: what both methods keep of a picture, and three answers.

        The same as `spare_demo.compare`; the result is what the command line writes to result.json.
        """
        try:
            asked = self.settings.check_question(question)
            if not image:
                raise PictureError("There is no picture. Send one.")
            self.guide.check_size(image)
            k = read_budget(budget, self.tokens)
            photo = open_picture(image, max_pixels=self.settings.max_pixels)
            chosen, longest = (method_a, method_b), self.settings.max_new_tokens
            done = compare(self.model, photo, asked, chosen, k, longest, _read_seed(seed))
        except ValueError as error:  # a PictureError is one
            raise gr.Error(str(error)) from None
        except Exception:
            _log.exception("A comparison failed")
            raise gr.Error(_SORRY) from None
        return record(done)

    @property
    def tokens(self) -> int:
        """Visual tokens of a picture, the largest budget."""
        return self.model.most_tokens


def _read_seed(value: object) -> int:
    """What a number field sends -> a seed; empty is 0."""
    if value is None or value == "":
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value < 2**32:
        raise ValueError("The seed must be a whole number from 0 to 4294967295.")
    return value
