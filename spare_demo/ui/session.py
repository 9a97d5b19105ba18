"""One visitor's picture, question and answers, and the steps that make them. No Gradio.

A `Visit` is never changed, only replaced: two visitors share nothing but the model.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from PIL import Image

from spare_demo.comparison.pipeline import answer_steps
from spare_demo.comparison.request import UNPRUNED, LabelledMethods, Request, choose, name_of
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.comparison.stages import add_measures, start_result
from spare_demo.images.geometry import Aspect
from spare_demo.images.load import PictureError, file_digest, open_picture
from spare_demo.models import Answer, Model, Picture, View
from spare_demo.render import Canvas
from spare_demo.scenes.asked import Asked
from spare_demo.scenes.taught import Wording
from spare_demo.settings import Settings
from spare_demo.tokens import Selection
from spare_demo.ui.cache import SharedCache

SLOTS = ("A", "B")
OWN = "mine"
"""What the visitor's own set is called in files."""

PUT_AWAY = (
    "This comparison was put away because many others are open, or because it was not used for "
    "some minutes. Press Ask to see it again."
)
IDLE_SECONDS = 600.0
"""After which a comparison that nobody uses is put away on a public page."""

OPEN_PIXELS = 200_000_000
"""Of the photos of all open comparisons, three bytes each."""

_CPU = torch.device("cpu")
_SHARED_PICTURES = 12  # encoded pictures; there are about half as many examples


@dataclass(frozen=True, eq=False)
class Visit:
    """An encoded picture, a question, what both methods keep, and the answers so far.

    Attributes:
        key: the file's digest and the way the picture was fitted.
        canvas: the picture to draw on.
        exploration: the picks of slots "A" and "B" at every budget.
        request: what the controls said, with methods by slot; its image is the photo.
        result: what came of it so far, at the budget last asked for.
        example: its number among the shipped examples, None for any other picture.
        unknown: whether the model was not made for such a picture: the built-in one for photos.
        wording: how the question is put to a model that was taught certain words.
        truth: the true answer, where an example or a drawn scene is asked its own question.
        asked: what the question is about and which tokens show it, where that is known.
        questions: what this picture can be asked with a true answer known; none of an upload.
        path: the file of the picture, "" where the comparison was not asked from one.
        source: what the page knows the picture by, "" where no page shows it.
        stopped: whether the visitor ended the answering.
        own: the set made by hand that was asked with last, and its answer.
        ran: which stages made it, of "encode", "relevance" and "select"; none where another
            visitor's comparison is shown.
    """

    key: tuple[str, Aspect]
    canvas: Canvas
    exploration: Exploration
    request: Request
    result: Result
    unknown: bool = False
    wording: Wording = "taught"
    example: int | None = None
    truth: str | None = None
    asked: Asked | None = None
    questions: tuple[str, ...] = ()
    path: str = ""
    source: str = ""
    stopped: bool = False
    own: tuple[Selection, Answer] | None = None
    ran: tuple[str, ...] = ()

    @property
    def photo(self) -> Image.Image:
        """The picture as it was uploaded, upright."""
        return self.exploration.view.photo

    @property
    def titles(self) -> dict[str, str]:
        """The name of the method in each slot, beside its letter."""
        return {slot: f"{slot} {self.result.methods[slot].title}" for slot in SLOTS}

    @property
    def is_noise(self) -> bool:
        """Whether the model was not made for the picture or the question, whatever it answers."""
        return self.unknown or self.wording == "off topic"

    @property
    def answer_seconds(self) -> float:
        """How long the finished answers took the model, all together."""
        return sum(a.prefill_seconds + a.decode_seconds for a in self.result.answers.values())

    def check_finished(self) -> None:
        """Raises ValueError, with a sentence to show, while an answer is missing."""
        if self.result.refused:
            raise ValueError(" ".join(self.result.refused.values()))
        if not self.result.finished:
            raise ValueError("Not every answer is there yet. Ask, and let all of them end.")

    def result_to_cite(self) -> Result:
        """The result with the methods under their own names, and the own set if it was asked with.

        Raises ValueError, with a sentence to show, while an answer is missing.
        """
        self.check_finished()
        result, exploration = self.result, self.exploration
        if self.own is not None:
            picks, answer = self.own
            exploration = exploration.with_set(OWN, picks)
            start = start_result(exploration, result.settings, result.model, result.revision)
            answers = {**result.answers, OWN: answer}
            result = dataclasses.replace(start, answers=answers, kl=result.kl)
        names: dict[str, str] = {}
        for label, record in result.methods.items():
            name = label if record.name is None else name_of(record.method())
            count = sum(other.split(" (")[0] == name for other in names.values()) + 1
            names[label] = name if count == 1 else f"{name} ({count})"
        return add_measures(result, exploration).relabel(names)


class VisitKey:
    """What a page's state holds in a visit's place, which Gradio would copy for each visitor."""

    def __init__(self, shown: Visit | None = None) -> None:
        """shown: of the key that a page opens on, its visit, which is never put away."""
        self.shown = shown

    def __deepcopy__(self, memo: dict) -> VisitKey:
        return self  # a copy would open nothing


class OpenVisits:
    """The visits that were used last; any other is put away. Safe to share between threads."""

    def __init__(
        self,
        size: int,
        idle_seconds: float = math.inf,
        pixels: int = OPEN_PIXELS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """One whose page was closed goes by itself, with its key.

        Args:
            size: how many stay open. pixels: of all their photos; the one used last stays anyway.
            idle_seconds: after which one that is not used is put away. now: a clock, in seconds.
        """
        self._size, self._pixels, self._idle, self._now = size, pixels, idle_seconds, now
        self._visits: WeakKeyDictionary[VisitKey, tuple[Visit, float]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._visits)

    def put(self, visit: Visit) -> VisitKey:
        """Keep a visit open, under a new key."""
        key = VisitKey()
        self.put_away_idle()
        with self._lock:
            self._visits[key] = visit, self._now()
            while len(self._visits) > 1 and (
                len(self._visits) > self._size or self._open_pixels() > self._pixels
            ):
                del self._visits[next(self._visits.keys())]
        return key

    def put_away_idle(self) -> None:
        """Put away what was not used for too long."""
        with self._lock:
            end = self._now() - self._idle
            for key in [key for key, (_, used) in self._visits.items() if used < end]:
                del self._visits[key]

    def _open_pixels(self) -> int:
        """Of all photos; one that several visits share counts once."""
        photos = {id(photo): photo for photo in (v.photo for v, _ in self._visits.values())}
        return sum(photo.width * photo.height for photo in photos.values())

    def find(self, value: Any) -> Any:
        """The visit under a key, None if it was put away; any other value as it is."""
        if not isinstance(value, VisitKey):
            return value
        if value.shown is not None:
            return value.shown
        with self._lock:
            entry = self._visits.pop(value, None)
            if entry is None:
                return None
            self._visits[value] = entry[0], self._now()  # used last
            return entry[0]

    def get(self, value: Any) -> Any:
        """As `find`; ValueError, with a sentence to show, for a visit that was put away."""
        visit = self.find(value)
        if visit is None and value is not None:
            raise ValueError(PUT_AWAY)
        return visit


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
        self.model, self.settings = model, settings
        self._pictures: SharedCache[tuple[str, Aspect], tuple[Picture, Canvas]] = SharedCache(
            lambda key: key[0] in public, _SHARED_PICTURES
        )

    def look(self, request: Request, before: Visit | None = None) -> Visit:
        """Picture and question as the model sees them, and what is kept. No answer yet.

        request: its image the path of an upload or None, its methods by slot. A budget larger than
        the picture's number of tokens keeps all. The picture is not encoded again where `before`
        holds it already, nor a public one that somebody has asked about.

        Raises:
            PictureError, ValueError: with a sentence for the visitor.
        """
        question, path = self.settings.check_question(request.question), request.image
        if not isinstance(path, str) or not path:
            raise PictureError("There is no picture yet. Drop one in, or take an example below it.")
        self.check_size(path)
        model, relevance, together = self.model, request.relevance, request.together
        positions = model.position_option(request.positions)
        key = (file_digest(path), model.aspect(request.aspect))
        if before is not None and before.key == key:
            known: tuple[Picture, Canvas] | None = before.exploration.view.picture, before.canvas
        else:
            known = self._pictures.get(key)
        if known is not None:
            picture, canvas = known
            view = model.ask(picture, question, relevance, together)
        else:
            photo = open_picture(path, max_pixels=self.settings.max_pixels)
            view = model.encode(photo, question, key[1], relevance, together)
            view = dataclasses.replace(view, picture=view.picture.to(_CPU))
            canvas = Canvas(view.photo, view.grid)
            self._pictures.put(key, (view.picture, canvas))
        budget = min(request.budget_of(model.most_tokens), view.tokens.n)
        request = dataclasses.replace(
            request,
            image=view.photo,
            question=question,
            aspect=key[1],
            budget=budget,
            positions=positions,
        )
        exploration = explore_on(self.model, view, request.labelled)
        result = start_result(exploration, request.options(), model.name, model.revision)
        ran = ("relevance", "select") if known is not None else ("encode", "relevance", "select")
        return Visit(key, canvas, exploration, request, result, path=path, ran=ran)

    def check_picture(self, path: str) -> None:
        """Raises PictureError, as `look` would, for an upload that cannot be opened."""
        self.check_size(path)
        open_picture(path, max_pixels=self.settings.max_pixels)

    def check_size(self, path: str) -> None:
        """Refuses a file that is too large to read at all, or that is gone."""
        try:
            size = Path(path).stat().st_size
        except OSError:  # an upload is deleted after some hours
            raise PictureError("The picture could not be opened. Upload it again.") from None
        if size > self.settings.max_upload_bytes:
            most = self.settings.max_upload_bytes / 1_000_000
            raise PictureError(f"This file is larger than {most:g} MB. Choose a smaller picture.")

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
        return dataclasses.replace(
            visit,
            exploration=exploration,
            request=request,
            result=result,
            stopped=False,
            ran=("select",),
        )

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
