"""Whatever is asked when memory runs out ends with a sentence, and the app goes on serving."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import pytest
import torch
from visits import QUESTION, controls, merged

from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS
from spare_demo.settings import Settings
from spare_demo.ui.api import Api
from spare_demo.ui.errors import SORRY
from spare_demo.ui.gradio_compat.parts import with_toast
from spare_demo.ui.handler_wrappers import with_refusals
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.lab import Lab
from spare_demo.ui.visit import Visit

SENTENCE = "was not enough memory for this picture and question"


class Full:
    """Raises as a GPU does, in one part of the work."""

    def __init__(self, model: LlavaModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model, self.monkeypatch = model, monkeypatch

    @contextlib.contextmanager
    def at(self, part: str, after: int = 0, error: Exception | None = None) -> Iterator[None]:
        """part: a module of the model, or "choosing". after: how many passes go well before.
        error: what is raised, if not a GPU's word for a full memory."""
        left = [after]

        def fail(*_: object, **__: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                if error is not None:
                    raise error
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB at 0x7f")

        with self.monkeypatch.context() as patched:
            if part == "choosing":
                patched.setattr(type(PRUNERS["uniform"]), "select", fail)
                patched.setattr("spare_demo.comparison.selections.select_together", fail)
                yield
                return
            handle = getattr(self.model.hf.model, part).register_forward_pre_hook(fail)
            try:
                yield
            finally:
                handle.remove()


@pytest.fixture
def full(tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch) -> Full:
    return Full(tiny_model, monkeypatch)


EVENTS: dict[str, tuple[Callable[[Handlers, Visit, str], Iterator], tuple[str, ...]]] = {
    "ask": (
        lambda h, v, path: with_refusals(h.ask)(**controls(path, QUESTION, method_b="uniform")),
        ("vision_tower", "language_model", "choosing"),
    ),
    "the slider at rest": (lambda h, v, _: with_refusals(h.settle)(9, v), ("language_model",)),
    "answer now": (lambda h, v, _: with_refusals(h.answer_now)(3, v), ("language_model",)),
    "other methods": (
        lambda h, v, _: with_refusals(h.change_methods)("uniform", "spare", 1, 5, v),
        ("language_model", "choosing"),
    ),
    "a set by hand": (lambda h, v, _: with_refusals(h.ask_own)("[1, 4]", v), ("language_model",)),
    "how few are enough": (lambda h, v, _: with_refusals(h.studies.enough)(v), ("language_model",)),
    "the curve of KL": (
        lambda h, v, _: with_refusals(h.studies.measure)(5, v),
        ("language_model",),
    ),
    "a second question": (
        lambda h, v, _: with_refusals(h.studies.second)("Red?", 5, v),
        ("choosing",),
    ),
}


@pytest.mark.parametrize(
    ("event", "part"), [(event, part) for event, (_, parts) in EVENTS.items() for part in parts]
)
def test_an_event_of_the_page(
    full: Full, handlers: Handlers, finished: Visit, photo_file: str, event: str, part: str
) -> None:
    run = EVENTS[event][0]
    with full.at(part):
        *before, last = run(handlers, finished, photo_file)
    assert set(last) == {"message"}  # all the rest of the page stays
    if event == "ask":  # what is kept was shown before any answer
        assert ("stage" in merged(before)) == (part == "language_model")
    assert SENTENCE in last["message"] and "still works" in last["message"]
    assert "0x7f" not in last["message"] and "CUDA" not in last["message"]
    again = list(run(handlers, finished, photo_file))
    assert not any(step.get("message") for step in again) and len(again) >= 1


@pytest.mark.parametrize("part", ["vision_tower", "language_model", "choosing"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), SENTENCE),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:83] not enough memory: 0x7f"), SENTENCE),
        (RuntimeError("CUDA error: unspecified launch failure 0x7f"), SORRY),
    ],
)
def test_a_full_machine_and_a_lost_device(
    full: Full, handlers: Handlers, photo_file: str, part: str, error: Exception, words: str
) -> None:
    ask = with_refusals(handlers.ask)
    asked = controls(photo_file, QUESTION, method_b="uniform")
    with full.at(part, error=error):
        last = list(ask(**asked))[-1]
    assert set(last) == {"message"} and words in last["message"]
    assert "0x7f" not in last["message"]
    assert not any(step.get("message") for step in ask(**asked))


def test_in_the_middle_of_an_answer_the_words_so_far_stay(
    full: Full, handlers: Handlers, photo_file: str
) -> None:
    with full.at("language_model", after=4):  # three prefills, and one word of one answer
        asked = controls(photo_file, QUESTION, method_b="uniform")
        steps = list(with_refusals(handlers.ask)(**asked))
    assert any(any(step["visit"].result.partial_text.values()) for step in steps if "visit" in step)
    assert SENTENCE in steps[-1]["message"]


def test_a_run_of_the_lab_keeps_what_it_found(full: Full, tiny_model: LlavaModel) -> None:
    lab = Lab(tiny_model, Settings())
    asked = (["uniform"], [4], 3, "held-out", 0)
    running = with_refusals(lab.measure)(*asked)
    shown = [next(running), next(running)]
    with full.at("language_model"):
        shown += list(running)
    last = shown[-1]
    assert SENTENCE in last["message"] and "Stopped: 1 of 3 scenes" in last["progress"]
    assert last["download"]["value"].endswith(".csv") and last["bench"].done == 1
    *_, last = with_refusals(lab.measure)(*asked)
    assert "Done: 3 of 3 scenes" in last["progress"]


CALLS: dict[str, tuple[Callable[[Api, str], Any], tuple[str, ...]]] = {
    "compare": (
        lambda api, path: api.compare(path, QUESTION, budget=5),
        ("vision_tower", "language_model", "choosing"),
    ),
    "select": (
        lambda api, path: api.select(path, QUESTION, "uniform", 5),
        ("vision_tower", "choosing"),
    ),
    "relevance": (lambda api, path: api.relevance(path, QUESTION), ("vision_tower",)),
    "answer": (
        lambda api, path: api.answer(path, QUESTION, "[1, 4]"),
        ("vision_tower", "language_model"),
    ),
}


@pytest.mark.parametrize(
    ("call", "part"), [(call, part) for call, (_, parts) in CALLS.items() for part in parts]
)
def test_a_call_of_the_api(
    full: Full, handlers: Handlers, photo_file: str, call: str, part: str
) -> None:
    api, run = Api(handlers.model, handlers.settings), CALLS[call][0]
    with full.at(part), pytest.raises(gr.Error) as refused:
        with_toast(run)(api, photo_file)
    assert SENTENCE in str(refused.value)
    assert "0x7f" not in str(refused.value)
    assert run(api, photo_file)
