"""What each event of the page does: inputs in, new values of the page's parts out, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from spare_demo.analysis.answer_shift import measure_change
from spare_demo.comparison.request import UNPRUNED, Request, name_of, read_budget, read_seed
from spare_demo.images.geometry import Aspect
from spare_demo.models import Model
from spare_demo.models.loading.catalogue import TINY_LLAVA
from spare_demo.relevance import GuidanceText, RelevanceOptions, TextPieces
from spare_demo.results.io import read_pick_list
from spare_demo.scenes.asked import asked_in
from spare_demo.scenes.sets import read_signature
from spare_demo.settings import Settings
from spare_demo.tokens import Positions
from spare_demo.ui import examples, panels, tuning
from spare_demo.ui.answers import own_html
from spare_demo.ui.guide import Guide, methods_by_slot, open_upload, slider_budget
from spare_demo.ui.permalink import controls_of_link
from spare_demo.ui.replies import Replies
from spare_demo.ui.sources import merged_html
from spare_demo.ui.steps import PageChanges, Steps
from spare_demo.ui.studies import Studies
from spare_demo.ui.visit import OWN, Visit

QUICK = 2.0
"""Seconds of all answers below which the page asks again by itself."""

NO_QUESTION = "Type a question, or choose an example."


class Handlers:
    """They hold the model and the settings, and nothing of any visitor."""

    def __init__(
        self, model: Model, settings: Settings, needs: Callable[[], str] = lambda: TINY_LLAVA.needs
    ) -> None:
        """needs: as of `Steps`; without it, what the table of models says."""
        self.model, self.settings = model, settings
        self.studies = Studies(model, settings)
        self.offered = examples.load_examples(model.name)
        opening = examples.choose_opening(model.name, self.offered, settings)
        budget = min(opening.budget, model.most_tokens)
        self.opening = dataclasses.replace(opening, budget=budget)
        self.steps = Steps(model, settings.private, needs)
        self.replies = Replies(model, self.steps)
        self.guide = Guide(model, settings, {example.key for example in self.offered})
        first, last = (tuning.able(settings.methods[i], model.reason_against) for i in (0, -1))
        self.first_methods = (first, last)  # in A and B when the page opens
        # Goes with this, or at exit.
        self._folder = TemporaryDirectory(prefix="spare-scenes-", ignore_cleanup_errors=True)
        self.scenes = Path(self._folder.name)
        self._finished: dict[Hashable, Visit] = {}

    def prepare(self) -> None:
        """Finish each question of each example, so that choosing it shows its results."""
        for key, request in self._first_requests.items():
            visit = self._look(request)
            *_, self._finished[key] = self.guide.answer(visit, visit.result.budget)

    @cached_property
    def _first_requests(self) -> dict[Hashable, Request]:
        """What is asked about each example at the start's settings, by its key."""
        requests: dict[Hashable, Request] = {}
        for example in self.offered:
            for question in example.answers:
                request = self.request(**self.first_controls(example.path, question))
                requests[_key(example.key, request)] = request
        return requests

    def first_controls(self, path: str, question: str) -> dict[str, Any]:
        """What the controls say at the start's settings, as `request` takes them."""
        method_a, method_b = self.first_methods
        return {
            "image": path,
            "question": question,
            "method_a": method_a,
            "method_b": method_b,
            "seed": self.settings.seed,
            "budget": self.opening.budget,
        }

    def request(
        self,
        *,
        image: str | None,
        question: str,
        method_a: str,
        method_b: str,
        seed: object,
        budget: object,
        aspect: Aspect | None = None,
        relevance_layer: int = -2,
        relevance_text: TextPieces = "stretches",
        together: bool = False,
        guidance_text: GuidanceText = "clip",
        positions: Positions | None = None,
    ) -> Request:
        """What the controls say, with methods by slot; for None the model has its usual.

        Raises ValueError, with a sentence to show, for what cannot be meant.
        """
        k, start = read_budget(budget, self.model.most_tokens), read_seed(seed)
        return Request(
            image=image,  # type: ignore[arg-type]  # None is refused with a sentence
            question=question,
            methods=methods_by_slot(method_a, method_b, start),
            budget=k,
            max_new_tokens=self.settings.max_new_tokens,
            seed=start,
            aspect=self.model.aspect(aspect),
            relevance=RelevanceOptions(relevance_layer, relevance_text, guidance_text),
            together=together,
            positions=self.model.position_option(positions),
        )

    def ask(
        self,
        *,
        example: examples.Example | None = None,
        visit: Visit | None = None,
        **controls: Any,
    ) -> Iterator[PageChanges]:
        """Look, show the pictures, answer word by word. Without a question nothing is run.

        controls: as `request` takes them. example: the new scene on the page. visit: what was
        looked at before.
        """
        if not (controls["question"] or "").strip():
            yield {"message": panels.message_html(NO_QUESTION)}
            return
        request = self.request(**controls)
        digest = self.guide.digest(request)
        if finished_visit := self._finished.get(_key(digest, request)):
            now = dataclasses.replace(finished_visit, path=controls["image"], ran=())
        else:
            now = self._look(request, example, visit, digest)
        k = now.result.budget
        # From here on all of the page is about this picture and question.
        yield self.steps.pictures(now, k) | {"own_answer": ""}
        if finished_visit:
            yield self.steps.finished(now, k)
            return
        for values in self._answer(now, k):
            now = values.get("visit", now)
            yield values
        self.keep_finished(now)

    def ask_linked(self, **asked: Any) -> Iterator[PageChanges]:
        """`ask` after `reopen`. Without a picture the notice of the link says what to do."""
        if asked["image"]:
            yield from self.ask(**asked)

    def keep_finished(self, visit: Visit) -> None:
        """Keep an example's finished comparison as it is asked first: others need not wait."""
        key = _key(visit.key[0], visit.request)
        if visit.result.finished and key in self._first_requests:
            self._finished[key] = visit

    def check_upload(self, image: str | None) -> Iterator[PageChanges]:
        """What Ask would refuse about a new picture, at once; nothing else changes."""
        if image:
            open_upload(image, self.settings)
        yield {"message": panels.message_html()}

    def _look(
        self,
        request: Request,
        example: examples.Example | None = None,
        before: Visit | None = None,
        digest: str = "",
    ) -> Visit:
        visit = self.guide.look(request, before, digest)
        listed = [*self.offered, *([example] if example else [])]
        known, truth = examples.find(listed, visit.key[0], request.question)
        names = {offered.key: offered.name for offered in self.offered}
        path, view = str(request.image), visit.exploration.view
        scene = read_signature(path, view.photo)
        asked = asked_in(scene, view.photo, request.question, view.grid.boxes.numpy())
        if truth is None and asked is not None:
            truth = asked.answer
        few_kinds = examples.knows_only_scenes(self.model.name)
        return dataclasses.replace(
            visit, unknown=few_kinds and not known and scene is None, truth=truth, asked=asked,
            example=names.get(visit.key[0]),
            questions=examples.questions_about(listed, visit.key[0], scene),
        )  # fmt: skip

    def change_methods(
        self, method_a: str, method_b: str, seed: object, budget: object, visit: Visit
    ) -> Iterator[PageChanges]:
        """Other methods, or another seed, on the same picture and question."""
        k, start = slider_budget(self.model, budget, visit), read_seed(seed)
        methods = methods_by_slot(method_a, method_b, start)
        if (methods, start) == (visit.request.labelled, visit.request.seed):
            return  # who passes a menu or the seed with the Tab key has chosen nothing
        visit = self.guide.change_methods(visit, methods, start)
        yield self.steps.pictures(visit, k)
        yield from self._answer(visit, k)

    def draw_curve(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """The reconstruction errors of what is there, after the answers and beside the model."""
        try:
            k = slider_budget(self.model, budget, visit)
        except ValueError:  # what the box holds by now is refused beside the box
            return
        yield self.steps.curve(visit, k)

    def redraw(self, budget: object, visit: Visit) -> Generator[PageChanges, None, int | None]:
        """What the page does not draw by itself at the slider's budget, and needs no model.

        Returns that budget, None where it is none.
        """
        try:
            k = slider_budget(self.model, budget, visit)
        except ValueError as error:
            yield {"budget_message": panels.message_html(str(error))}
            return None
        yield {
            "budget_message": panels.message_html(),
            "headline": panels.headline_html(visit, k),
            "answers": self.steps.answers(visit, k),
            **self.steps.curve(visit, k),
        }
        return k

    def merged(
        self, token: float | None, layer: float | None, budget: object, visit: Visit
    ) -> Iterator[PageChanges]:
        """What was merged at the slider's budget; token and layer as of `merged_html`."""
        yield {"merged": merged_html(visit, slider_budget(self.model, budget, visit), token, layer)}

    def settle(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """The slider stands still: redraw, and answer at its budget unless that would take long."""
        k = yield from self.redraw(budget, visit)
        if k is not None and k != visit.result.budget and visit.answer_seconds < QUICK:
            yield from self._answer(visit, k)

    def answer_now(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """Answer at the slider's budget, however long it takes."""
        yield from self._answer(visit, slider_budget(self.model, budget, visit))

    def ask_own(self, own: str | None, visit: Visit) -> Iterator[PageChanges]:
        """Answer from a set made by hand, and compare with the unpruned answer."""
        selection = read_pick_list(own or "[]", OWN)
        selection.check(visit.exploration.n)
        whole, view = visit.result.answers.get(UNPRUNED), visit.exploration.view
        longest, positions = self.settings.max_new_tokens, visit.request.positions
        kept, text = len(selection), ""
        pieces = self.model.stream(view, selection, longest, positions=positions)
        while True:
            yield {"own_answer": own_html(text, kept, None, whole, None, visit.truth)}
            try:
                text += next(pieces)
            except StopIteration as end:
                answer = end.value
                break
        moved = measure_change(self.model, view, selection, whole, positions) if whole else None
        yield {
            "own_answer": own_html(answer.text, kept, answer, whole, moved, visit.truth),
            "visit": dataclasses.replace(visit, own=(selection, answer)),
        }

    def stop(self, budget: object, visit: Visit) -> Iterator[PageChanges]:
        """The answers so far, when the visitor presses Stop.

        A method that was chosen and not run yet gives way in the menus to that of the pictures.
        """
        visit = dataclasses.replace(visit, stopped=True)
        guidance_text = visit.request.relevance.guidance_text
        menus = self.menus(guidance_text, *map(name_of, visit.request.labelled.values()))
        yield self.steps.finished(visit, slider_budget(self.model, budget, visit)) | dict(
            zip(("method_a", "method_b"), menus, strict=True)
        )

    def _answer(self, visit: Visit, budget: int) -> Iterator[PageChanges]:
        for now in self.guide.answer(visit, budget):
            visit = now
            yield {"visit": visit, "answers": self.steps.answers(visit, budget)}
        yield self.steps.finished(visit, budget)

    def reopen(self, asked: Mapping[str, Any], visit: Visit) -> Iterator[PageChanges]:
        """The settings that a link names, in the page's controls; what it cannot open is said."""
        query = asked.get("query")
        settings_sent = query if isinstance(query, dict) else {}
        yield controls_of_link(settings_sent, self.model, self.settings, self.offered)

    def menus(self, guidance_text: GuidanceText, *current: str) -> list[Any]:
        """The menus of A and B where text guidance is by this: other methods can run then.

        current: what they say; a method that can no longer run gives way to its text-free form.
        """
        against = partial(self.model.reason_against, guidance_text=guidance_text)
        values = [tuning.able(value, against) for value in current]
        return [gr.update(choices=tuning.menu(against, v), value=v) for v in values]

    def story_methods(self, guidance_text: GuidanceText) -> list[str]:
        """Those that two of the stories compare in A and B, in a form that the model can run.

        One that rebuilds, and one that keeps what differs.
        """
        against = partial(self.model.reason_against, guidance_text=guidance_text)
        return [tuning.able(name, against) for name in ("spare", "cdpruner")]

    def load_example(self, index: object, question: str | None) -> tuple[str, str]:
        """An example's picture, and its question that follows the one on the page."""
        example = examples.read_choice(self.offered, index)
        return example.path, example.question_after((question or "").strip())

    def new_scene(self) -> tuple[str, str, examples.Example]:
        example = examples.new_scene(self.scenes)
        return example.path, example.question, example

    def marked(self, mark: int | str, visit: Visit) -> int:
        """The slider's place at a mark: a number of tokens, or a share of this picture's own."""
        return mark if isinstance(mark, int) else read_budget(mark, visit.exploration.n)


def _key(digest: str, request: Request) -> Hashable:
    """What makes two requests about one file the same."""
    return digest, request.question, tuple(request.labelled.values()), request.options()
