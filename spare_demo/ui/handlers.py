"""What each event of the page does: inputs in, new values of the page's parts out, by name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from spare_demo.comparison import compare, read_budget
from spare_demo.geometry import Aspect
from spare_demo.models import LlavaModel
from spare_demo.pictures import PictureError, open_picture
from spare_demo.record import record
from spare_demo.relevance import RelevanceOptions, TextPieces
from spare_demo.render import Rendered, reconstruction_figure
from spare_demo.settings import Settings
from spare_demo.ui import examples, panels
from spare_demo.ui.stage import stage_html
from spare_demo.ui.visit import SLOTS, Choices, Guide, Visit

# Moving the slider asks again by itself where all answers take less than this.
_QUICK = 2.0

Shown = dict[str, Any]


class Handlers:
    """They hold the model and the settings, and nothing of any visitor."""

    def __init__(self, model: LlavaModel, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.guide = Guide(model, settings)
        self.offered = examples.shipped()
        self.scenes = Path(tempfile.mkdtemp(prefix="spare-scenes-"))

    # What each step shows, by the name of the part of the page.

    def pictures(self, visit: Visit, budget: int, layer: str) -> Shown:
        return {
            "visit": visit,
            "message": panels.message_html(),
            "notes": panels.notes_html(visit),
            "stage": stage_html(visit, budget, layer),
            "answers": panels.answers_html(visit, budget),
        }

    def finished(self, visit: Visit, budget: int, about: str) -> Shown:
        figure = self.curve(visit, budget)
        return {
            "visit": visit,
            "answers": panels.answers_html(visit, budget, about=about),
            "cost": panels.cost_html(visit),
            "curve": figure.image,
            "curve_words": panels.words_html(figure.sentence),
        }

    def curve(self, visit: Visit, budget: int) -> Rendered:
        curves = visit.exploration.curves
        names = {slot: f"{slot} {visit.titles[slot]}" for slot in SLOTS}
        series = {names[slot]: curves.errors[slot] for slot in SLOTS}
        band = (
            curves.random.mean.tolist(),
            curves.random.low.tolist(),
            curves.random.high.tolist(),
        )
        return reconstruction_figure(curves.budgets, series, band, curves.bound.tolist(), budget)

    # Events.

    def ask(
        self,
        path: str | None,
        question: str,
        method_a: str,
        method_b: str,
        seed: float | None,
        aspect: Aspect,
        tower_layer: int,
        text: TextPieces,
        budget: int,
        layer: str,
        example: examples.Example | None,
        before: Visit | None,
    ) -> Iterator[Shown]:
        """Look, show the pictures, answer word by word."""
        relevance = RelevanceOptions(tower_layer, text)
        choices = Choices(method_a, method_b, int(seed or 0), aspect, relevance)
        try:
            visit = self.guide.look(path, question, choices, before)
        except ValueError as error:  # a PictureError is one
            yield {"message": panels.message_html(str(error))}
            return
        truth = self.truth(path, question, example)
        yield self.pictures(visit, budget, layer) | {"truth": panels.truth_html(truth)}
        yield from self.answer(visit, budget, truth)

    def answer(self, visit: Visit, budget: int, truth: str | None) -> Iterator[Shown]:
        for now, label, text in self.guide.answer(visit, budget):
            visit = now
            yield {"visit": visit, "answers": panels.answers_html(visit, budget, label, text)}
        # The model's own warning, where the picture is not one of the scenes it was made for.
        strange = self.model.name == "built-in" and truth is None
        yield self.finished(visit, budget, self.model.description if strange else "")

    def answer_again(
        self,
        path: str | None,
        question: str,
        budget: int,
        example: examples.Example | None,
        visit: Visit,
    ) -> Iterator[Shown]:
        """The answers at the slider's budget."""
        yield from self.answer(visit, budget, self.truth(path, question, example))

    def answer_if_quick(
        self,
        path: str | None,
        question: str,
        budget: int,
        example: examples.Example | None,
        visit: Visit,
    ) -> Iterator[Shown]:
        """The same, unless it would take long."""
        if visit.answered_budget != budget and visit.answer_seconds < _QUICK:
            yield from self.answer_again(path, question, budget, example, visit)

    def redraw(self, budget: int, layer: str, visit: Visit) -> Shown:
        """All that needs no language model, at the slider's budget."""
        return {
            "stage": stage_html(visit, budget, layer),
            "answers": panels.answers_html(visit, budget),
        }

    def change_methods(
        self,
        method_a: str,
        method_b: str,
        seed: float | None,
        budget: int,
        layer: str,
        visit: Visit,
    ) -> Shown:
        """Other methods on the same picture and question."""
        try:
            visit = self.guide.change_methods(visit, Choices(method_a, method_b, int(seed or 0)))
        except ValueError as error:
            return {"message": panels.message_html(str(error))}
        return self.pictures(visit, budget, layer)

    def truth(self, path: str | None, question: str, new: examples.Example | None) -> str | None:
        """The true answer, where the question is the one that came with this drawn scene."""
        known = [*self.offered, *([new] if new else [])]
        return examples.truth(known, path, question)

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
            k = read_budget(budget, self.tokens)
            photo = open_picture(image, max_pixels=self.settings.max_pixels)
            chosen = (method_a, method_b)
            done = compare(
                self.model, photo, asked, chosen, k, self.settings.max_new_tokens, int(seed or 0)
            )
        except ValueError as error:  # a PictureError is one
            raise gr.Error(str(error)) from None
        return record(done)

    @property
    def tokens(self) -> int:
        """Visual tokens of a picture, the largest budget."""
        return (self.model.size // self.model.patch) ** 2
