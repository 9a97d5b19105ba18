"""What one visitor looks at, and the steps that make it. No Gradio.

A `Visit` is never changed, only replaced: two visitors share nothing but the model.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spare_demo.comparison.request import UNPRUNED, choose
from spare_demo.comparison.result import KlCurves
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.images.geometry import Aspect
from spare_demo.images.load import PictureError, open_picture
from spare_demo.models import Answer, Model, Picture
from spare_demo.pruners import PRUNERS, LayerPlan, Pruner
from spare_demo.pruners.options import title_of
from spare_demo.relevance import RelevanceOptions
from spare_demo.render import Canvas
from spare_demo.settings import Settings
from spare_demo.tokens import Selection
from spare_demo.ui.cache import SharedCache

SLOTS = ("A", "B")

_KEPT_FOR_ALL = 12  # encoded pictures; there are about half as many examples


@dataclass(frozen=True)
class Choices:
    """What the controls say, beside picture and question."""

    method_a: str
    method_b: str
    seed: int = 0
    aspect: Aspect | None = None
    relevance: RelevanceOptions = RelevanceOptions()
    together: bool = False


@dataclass(frozen=True, eq=False)
class Visit:
    """A picture that was looked at, a question, what both methods keep, and the answers so far.

    Attributes:
        key: what was looked at: the file's digest and the way it was fitted.
        exploration: the picks of slots "A" and "B" at every budget.
        choices: what the controls said.
        example: its number among the shipped examples, None for any other picture.
        drawn: whether this is one of the scenes drawn here; `truth` the answer to its own question.
        answers: by "unpruned", "A", "B"; those that are finished, all at `answered_budget`.
        refused: why a slot has no answer at `answered_budget`: its schedule cannot meet it.
        writing: the labels being answered, each with its text so far.
        stopped: whether the visitor ended the answering.
        kl: how far the first word moves with the budget, where that was measured.
        own: the set made by hand that was asked with last, and its answer.
    """

    key: tuple[str, Aspect]
    picture: Picture
    canvas: Canvas
    exploration: Exploration
    choices: Choices
    drawn: bool = False
    example: int | None = None
    truth: str | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    answered_budget: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False
    kl: KlCurves | None = None
    own: tuple[Selection, Answer] | None = None

    def __deepcopy__(self, memo: dict) -> Visit:
        return self  # nothing in it changes, so visitors may start from the same one

    @property
    def titles(self) -> dict[str, str]:
        """The name of the method in each slot."""
        return {slot: _title(self.exploration.methods[slot]) for slot in SLOTS}

    @property
    def answer_seconds(self) -> float:
        """How long the finished answers took the model, all together."""
        return sum(a.prefill_seconds + a.decode_seconds for a in self.answers.values())


def _title(method: object) -> str:
    assert isinstance(method, Pruner)
    return title_of(method, PRUNERS)


def digest(path: str | Path) -> str:
    """sha256 of a file's bytes: pictures are told apart by what they hold, not by name."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Guide:
    """Leads a visitor through the steps, with the model and the limits of this server."""

    def __init__(self, model: Model, settings: Settings, public: Collection[str] = ()) -> None:
        """public: digests of files that are no visitor's own; what they hold is kept for all."""
        self.model, self.settings = model, settings
        self._pictures: SharedCache[tuple[str, Aspect], tuple[Picture, Canvas]] = SharedCache(
            lambda key: key[0] in public, _KEPT_FOR_ALL
        )

    def look(
        self, path: str | None, question: str, choices: Choices, before: Visit | None
    ) -> Visit:
        """Picture and question as the model sees them, and what is kept. No answer yet.

        The picture is not encoded again where `before` holds it already, nor a public one that
        somebody has asked about.

        Raises:
            PictureError, ValueError: with a sentence for the visitor.
        """
        question = self.settings.check_question(question)
        if not path:
            raise PictureError("There is no picture yet. Drop one in, or take an example below it.")
        self.check_size(path)
        key = (digest(path), self.model.aspect(choices.aspect))
        if before is not None and before.key == key:
            looked: tuple[Picture, Canvas] | None = before.picture, before.canvas
        else:
            looked = self._pictures.get(key)
        if looked is not None:
            picture, canvas = looked
            view = self.model.ask(picture, question, choices.relevance, choices.together)
        else:
            photo = open_picture(path, max_pixels=self.settings.max_pixels)
            view = self.model.encode(photo, question, key[1], choices.relevance, choices.together)
            picture, canvas = view.picture, Canvas(view.photo, view.grid)
            self._pictures.put(key, (picture, canvas))
        return Visit(key, picture, canvas, explore(view, self._methods(choices)), choices)

    def check_size(self, path: str) -> None:
        """Refuses a file that is too large to read at all, or that is gone."""
        try:
            size = Path(path).stat().st_size
        except OSError:  # an upload is deleted after some hours
            raise PictureError("The picture could not be opened. Upload it again.") from None
        if size > self.settings.max_upload_bytes:
            most = self.settings.max_upload_bytes / 1_000_000
            raise PictureError(f"This file is larger than {most:g} MB. Choose a smaller picture.")

    def change_methods(self, visit: Visit, choices: Choices) -> Visit:
        """The same picture and question with other methods; answers of what stays are kept."""
        methods = self._methods(choices)
        kept = {
            label: answer
            for label, answer in visit.answers.items()
            if label == UNPRUNED or visit.exploration.methods[label] == methods[label]
        }
        again = explore(visit.exploration.view, methods)
        now = dataclasses.replace(
            visit.choices,
            method_a=choices.method_a,
            method_b=choices.method_b,
            seed=choices.seed,
        )
        return dataclasses.replace(
            visit,
            exploration=again,
            choices=now,
            answers=kept,
            refused={},
            writing={},
            stopped=False,
            kl=None,
        )

    def answer(self, visit: Visit, budget: int) -> Iterator[Visit]:
        """Answers with all tokens, with A's and with B's, word by word in step.

        Answers that are already there for this budget are not asked for again. A method inside the
        language model whose schedule cannot meet it is passed over, and the visit says why.

        Yields:
            the visit with the answers so far, at first and after each word and each answer.
        """
        chosen: dict[str, Selection | LayerPlan] = {**visit.exploration.selections(budget)}
        refused = {}
        for slot in visit.exploration.inside:
            try:
                chosen[slot] = visit.exploration.plan(slot, budget)
            except ValueError as error:
                refused[slot] = str(error)
        kept = visit.answers
        if visit.answered_budget != budget:
            kept = {label: answer for label, answer in kept.items() if label == UNPRUNED}
        visit = dataclasses.replace(
            visit,
            answers=kept,
            answered_budget=budget,
            refused=refused,
            writing={},
            stopped=False,
        )
        every = {UNPRUNED: None, **{slot: chosen[slot] for slot in SLOTS if slot in chosen}}
        asked = {label: kept for label, kept in every.items() if label not in visit.answers}
        answers, writing = dict(visit.answers), dict.fromkeys(asked, "")
        pieces = self.model.stream_together(
            visit.exploration.view, asked, self.settings.max_new_tokens
        )
        visit = dataclasses.replace(visit, writing=dict(writing))
        yield visit
        for step in pieces:
            for label, said in step.items():
                if isinstance(said, Answer):
                    answers[label] = said
                    del writing[label]
                else:
                    writing[label] += said
            there = {label: answers[label] for label in every if label in answers}
            visit = dataclasses.replace(visit, answers=there, writing=dict(writing))
            yield visit

    def _methods(self, choices: Choices) -> dict:
        chosen = choose((choices.method_a, choices.method_b), choices.seed)
        return dict(zip(SLOTS, chosen.values(), strict=True))
