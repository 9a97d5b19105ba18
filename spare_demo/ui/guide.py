"""The steps of a visit: look, choose other methods, answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from PIL import Image

from spare_demo.comparison.pipeline import answer_steps, start_result
from spare_demo.comparison.request import UNPRUNED, LabelledMethods, Request, choose, read_budget
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.images.geometry import Aspect
from spare_demo.images.load import PictureError, file_digest, open_picture
from spare_demo.models import Model, Picture, View
from spare_demo.render.canvas import Canvas
from spare_demo.settings import Settings
from spare_demo.ui.visit import SLOTS, Visit

_CPU = torch.device("cpu")


def methods_by_slot(method_a: str, method_b: str, seed: int) -> LabelledMethods:
    """The methods that two menus name, as a request takes them; raises as `choose`."""
    return dict(zip(SLOTS, choose((method_a, method_b), seed).values(), strict=True))


def explore_on(
    model: Model, view: View, methods: LabelledMethods, budget: int | None = None
) -> Exploration:
    """What the methods keep, chosen on the model's GPU; what stays open lies on the CPU.

    budget: the largest that will be asked for; None for all tokens.
    """
    device = model.device
    exploration = explore(view.to(device) if device.type == "cuda" else view, methods, budget)
    return dataclasses.replace(exploration, view=view.to(_CPU))


class Guide:
    """Leads a visitor through the steps, with the model and the limits of this server."""

    def __init__(self, model: Model, settings: Settings, public: Collection[str] = ()) -> None:
        """public: digests of files that are no visitor's own; what they hold is kept for all."""
        self.model, self.settings, self._public = model, settings, public
        self._pictures: dict[tuple[str, Aspect], tuple[Picture, Canvas]] = {}

    def look(self, request: Request, before: Visit | None = None, digest: str = "") -> Visit:
        """Picture and question as the model sees them, and what is kept. No answer yet.

        request: its image the path of an upload or None, its methods by slot. A budget larger than
        the picture's number of tokens keeps all. The picture is not encoded again where `before`
        holds it already, nor a public one that somebody has asked about.

        digest: of the picture's file, where it is known.

        Raises:
            PictureError, ValueError: with a sentence for the visitor.
        """
        question = self.settings.check_question(request.question)
        digest, path = digest or self.digest(request), str(request.image)
        model, relevance, together = self.model, request.relevance, request.together
        positions = model.position_option(request.positions)
        key = (digest, model.aspect(request.aspect))
        known = self._pictures.get(key)
        if before is not None and before.key == key:
            known = before.exploration.view.picture, before.canvas
        if known is not None:
            picture, canvas = known
            view = model.ask(picture, question, relevance, together)
        else:
            photo = open_picture(path, max_pixels=self.settings.max_pixels)
            view = model.encode(photo, question, key[1], relevance, together)
            view = dataclasses.replace(view, picture=view.picture.to(_CPU))
            canvas = Canvas(view.photo, view.grid)
            if key[0] in self._public:
                self._pictures[key] = view.picture, canvas
        budget = min(request.budget_of(model.most_tokens), view.tokens.n)
        request = dataclasses.replace(
            request, image=view.photo, aspect=key[1], budget=budget, positions=positions
        )
        exploration = explore_on(self.model, view, request.labelled)
        result = start_result(exploration, request.options(), model.name, model.revision)
        ran = ("relevance", "select") if known is not None else ("encode", "relevance", "select")
        return Visit(key, canvas, exploration, request, result, path=path, ran=ran)

    def digest(self, request: Request) -> str:
        """Of the picture's file; PictureError, as of `look`, for none that can be read."""
        path = request.image
        if not isinstance(path, str) or not path:
            raise PictureError("There is no picture yet. Drop one in, or choose an example.")
        _check_size(path, self.settings)
        return file_digest(path)

    def change_methods(self, visit: Visit, methods: LabelledMethods, seed: int) -> Visit:
        """The same picture and question with other methods; answers of what stays are kept."""
        request = dataclasses.replace(visit.request, methods=methods, seed=seed)
        before, exploration = visit.result, explore_on(self.model, visit.exploration.view, methods)
        settings = request.options(budget=before.budget)
        answers = {
            label: answer
            for label, answer in before.answers.items()
            if label == UNPRUNED or visit.request.labelled[label] == methods[label]
        }
        start = start_result(exploration, settings, before.model, before.revision)
        result = dataclasses.replace(start, answers=answers)
        visit = dataclasses.replace(visit, exploration=exploration, request=request, result=result)
        return dataclasses.replace(visit, stopped=False, ran=("select",))

    def answer(self, visit: Visit, budget: int) -> Iterator[Visit]:
        """Answers with all tokens, with A's and with B's, word by word in step.

        Answers that are already there for this budget are not asked for again. A method inside the
        language model whose schedule cannot meet it is passed over, and the result says why.

        Yields:
            the visit with the answers so far, at first and after each word and each answer.
        """
        before, settings = visit.result, visit.request.options(budget=budget)
        answers = {
            label: answer
            for label, answer in before.answers.items()
            if label == UNPRUNED or before.budget == budget
        }
        start = start_result(visit.exploration, settings, before.model, before.revision)
        start = dataclasses.replace(start, answers=answers, kl=before.kl)
        visit = dataclasses.replace(visit, stopped=False)
        for result in answer_steps(self.model, visit.exploration, start):
            yield dataclasses.replace(visit, result=result)


def open_upload(path: str, settings: Settings) -> Image.Image:
    """The photo in an upload; PictureError, with a sentence to show, where it cannot be opened."""
    _check_size(path, settings)
    return open_picture(path, max_pixels=settings.max_pixels)


def _check_size(path: str, settings: Settings) -> None:
    """Refuses a file that is too large to read at all, or that is gone."""
    try:
        size = Path(path).stat().st_size
    except OSError:  # an upload is deleted after some hours
        raise PictureError("The picture could not be opened. Choose it again.") from None
    if size > settings.max_upload_bytes:
        most = settings.max_upload_bytes / 1_000_000
        raise PictureError(f"This file is larger than {most:g} MB. Choose a smaller picture.")


def slider_budget(model: Model, value: object, visit: Visit) -> int:
    """A budget as the slider sends it; a picture with fewer tokens than that keeps them all."""
    return min(read_budget(value, model.most_tokens), visit.exploration.n)
