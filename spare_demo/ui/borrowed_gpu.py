"""ZeroGPU: events that need the model run in the process that borrows a GPU for them.

The process that serves the page has no GPU, and its model is detached: the first pass that an
event wants raises `DeviceElsewhere`. The event then runs again from its start in a process that the
package `spaces` forks and gives a GPU. Nothing made in one such run is there in the next, so what
crosses is data: the event's name and inputs, of a visit the file and what was asked and answered,
and back what changes on the page. There the picture is encoded anew; here a visit is made of it
once more, so that whatever needs no pass (curves, reasons, files) borrows nothing.

Off ZeroGPU every event runs `Here`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from spare_demo.comparison.selections import Exploration
from spare_demo.images.load import open_picture
from spare_demo.models import Model
from spare_demo.models.generate.passes import DeviceElsewhere
from spare_demo.render.canvas import Canvas
from spare_demo.settings import Settings
from spare_demo.ui.errors import sentence
from spare_demo.ui.guide import Guide
from spare_demo.ui.plain_data import VisitData, pack, unpack
from spare_demo.ui.steps import Handler, PageChanges
from spare_demo.ui.visit import Visit

START_SECONDS = 20
"""Asked for each event beside its answers: the weights move to the GPU, the picture is encoded."""
TOKEN_SECONDS = 0.1
"""Asked for each token of the longest answer. Answers that are made together count once."""
MOST_SECONDS = 120
"""A visitor without an account has so much a day; more would be refused."""

ANSWERS = {
    "Handlers.ask_own": 2,
    "Studies.enough": 16,
    "Studies.carrier": 16,
    "Studies.measure": 16,
    "Studies.all_methods": 4,
    "Studies.film": 10,
    "Api.answer": 2,
    "Lab.measure": 20,
    "find_disagreement": 20,
}
"""How many answers an event makes one after the other, about; 1 of any other."""

_ASKS = ("Handlers.ask", "Handlers.ask_linked")


@dataclass(frozen=True)
class Step:
    """What one step of an event sends back.

    Attributes:
        changes: on the page; a visit among them arrives as `VisitData`.
        exploration: packed, where the visit's is another one than at the step before.
        refusal: a sentence, where the event ended with one.
    """

    changes: PageChanges = dataclasses.field(default_factory=dict)
    exploration: bytes | None = None
    refusal: str = ""


class Here:
    """Events where they are: this process has the model's device."""

    def stream(self, event: Handler, keep: Callable[[Visit], None] | None = None) -> Handler:
        """The event itself; keep: what it calls itself with an asked comparison at its end."""
        return event

    def call(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """The operation itself."""
        return operation


class BorrowedGpu(Here):
    """Events with a GPU that is borrowed where they need one."""

    def __init__(self, model: Model, settings: Settings, lend: Callable[..., Any]) -> None:
        """Detach the model.

        lend: `spaces.GPU`, or what stands for it: called with a generator function and `duration`,
            which gets the same arguments and returns seconds, it returns the function that runs it
            where the GPU is.
        """
        self._model, self._settings = model, settings
        self._guide = Guide(model, settings)
        self._events: dict[str, Handler] = {}
        # One function for all events: a process that has the weights on a GPU serves the next.
        self._run_with_gpu = lend(self._run, duration=lambda name, data, seconds: seconds)
        model.detach_device()

    def stream(self, event: Handler, keep: Callable[[Visit], None] | None = None) -> Handler:
        """The event, run again from its start with a GPU once it needs one.

        Raises, beside what the event raises:
            ValueError: with a sentence for the visitor; also where no GPU is to be had.
        """
        name = getattr(event, "func", event).__qualname__
        self._events[name] = event

        def run(*inputs: Any, **controls: Any) -> Iterator[PageChanges]:
            try:
                yield from event(*inputs, **controls)
            except DeviceElsewhere:
                visit = yield from self._borrow(name, inputs, controls)
                # What the event kept is gone with the process that ran it.
                if name in _ASKS and keep is not None and visit is not None:
                    keep(visit)

        return run

    def call(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """The same for an operation that returns one value."""

        @functools.wraps(operation)
        def once(*inputs: Any) -> Iterator[PageChanges]:
            yield {"result": operation(*inputs)}

        stream = self.stream(once)

        @functools.wraps(operation)
        def run(*inputs: Any) -> Any:
            (changes,) = stream(*inputs)
            return changes["result"]

        return run

    def _borrow(
        self, name: str, inputs: tuple[Any, ...], controls: dict[str, Any]
    ) -> Generator[PageChanges, None, Visit | None]:
        """Run an event where the GPU is, and make its visits here once more: the last is returned.

        Asking can do without the visit before it, whose picture would be encoded for nothing.
        """
        if name in _ASKS:
            controls = controls | {"visit": None}
        visit = next((x for x in (*inputs, *controls.values()) if isinstance(x, Visit)), None)
        longest = self._settings.max_new_tokens
        seconds = START_SECONDS + ANSWERS.get(name, 1) * longest * TOKEN_SECONDS
        data = pack((inputs, controls))
        try:
            with contextlib.closing(
                self._run_with_gpu(name, data, min(round(seconds), MOST_SECONDS))
            ) as steps:
                for sent in steps:
                    step: Step = unpack(sent)
                    if step.refusal:
                        raise ValueError(step.refusal)
                    changes = step.changes
                    if "visit" in changes:
                        visit = self._received(changes["visit"], step.exploration, visit)
                        changes = changes | {"visit": visit}
                    yield changes
        except gr.Error as error:  # no GPU is free, or the visitor's time on one is used up
            raise ValueError(f"{error.title}: {error.message}") from None
        return visit

    def _received(self, data: VisitData, packed: bytes | None, before: Visit | None) -> Visit:
        """The visit after a step; before: the one on the page, or of the step before."""
        if packed is None:
            assert before is not None  # else its exploration would have been sent
            return data.restore(before.canvas, before.exploration)
        if before is not None and before.key == data.fields["key"]:
            photo = before.photo
        else:
            path = data.fields["path"]
            photo = open_picture(path, max_pixels=self._settings.max_pixels)
        exploration: Exploration = unpack(packed, photo)
        return data.restore(Canvas(photo, exploration.view.grid), exploration)

    def _run(self, name: str, data: bytes, seconds: int) -> Iterator[bytes]:
        """The event's steps, where the GPU is. Errors become sentences: only data goes back."""
        self._model.attach_device()
        try:
            sent: list[Exploration] = []
            inputs, controls = unpack(data)
            arguments = [self._encoded(value, sent) for value in inputs]
            named = {key: self._encoded(value, sent) for key, value in controls.items()}
            for changes in self._events[name](*arguments, **named):
                yield pack(_step(changes, sent))
        except Exception as error:
            yield pack(Step(refusal=sentence(error)))

    def _encoded(self, value: Any, sent: list[Exploration]) -> Any:
        """An input of an event; a visit with its picture encoded anew."""
        if not isinstance(value, VisitData):
            return value
        visit = self._guide.look(value.fields["request"])
        sent[:] = [visit.exploration]  # the page has it
        return value.restore(visit.canvas, visit.exploration)


def _step(changes: PageChanges, sent: list[Exploration]) -> Step:
    """Changes of the page; sent: the exploration that went back last, if any."""
    visit = changes.get("visit")
    if visit is None or visit.exploration in sent:
        return Step(changes)
    sent[:] = [visit.exploration]
    return Step(changes, pack(visit.exploration, visit.photo))
