"""One visitor's picture, question and answers so far. No Gradio.

A `Visit` is never changed, only replaced: two visitors share nothing but the model.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from spare_demo.analysis.finding import is_off_topic
from spare_demo.comparison.pipeline import add_measures, start_result
from spare_demo.comparison.request import Request, name_of
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import Exploration
from spare_demo.images.geometry import Aspect
from spare_demo.models import Answer
from spare_demo.render.canvas import Canvas
from spare_demo.scenes.asked import Asked
from spare_demo.tokens import Selection

SLOTS = ("A", "B")
OWN = "mine"
"""What the visitor's own set is called in files."""


@dataclass(frozen=True, eq=False)
class Visit:
    """An encoded picture, a question, what both methods keep, and the answers so far.

    Attributes:
        key: the file's digest and the way the picture was fitted.
        canvas: the picture to draw on.
        exploration: the picks of slots "A" and "B" at every budget.
        request: what the controls said, with methods by slot; its image is the photo.
        result: what came of it so far, at the budget last asked for.
        example: file name of the shipped example that it looks at, None for any other picture.
        unknown: whether the model was not made for such a picture: the built-in one for photos.
        truth: the true answer, where an example or a drawn scene is asked its own question.
        asked: what the question is about and which tokens show it, where that is known.
        questions: what this picture can be asked with a true answer known; none of an upload.
        path: the file of the picture, "" where the comparison was not asked from one.
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
    example: str | None = None
    truth: str | None = None
    asked: Asked | None = None
    questions: tuple[str, ...] = ()
    path: str = ""
    stopped: bool = False
    own: tuple[Selection, Answer] | None = None
    ran: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """What a page knows the picture by: its address there ends in NAME/FILE.

        Gradio names the folder of an uploaded or cached file by the hash of its bytes.
        """
        return Path(self.path).parent.name

    @property
    def photo(self) -> Image.Image:
        """The picture as it was uploaded, upright."""
        return self.exploration.view.photo

    @property
    def titles(self) -> dict[str, str]:
        """The name of the method in each slot, beside its letter."""
        return {slot: f"{slot} {self.result.methods[slot].title}" for slot in SLOTS}

    @property
    def off_topic(self) -> bool:
        """Whether the built-in model was not made for the question."""
        return is_off_topic(self.result, self.truth)

    @property
    def answer_seconds(self) -> float:
        """How long the finished answers took the model, together; endless if stopped before any."""
        if self.stopped and not self.result.answers:
            return math.inf
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
