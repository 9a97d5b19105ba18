"""Events of a page whose process has no GPU: what borrows one, and what crosses to it and back."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
import torch
from visits import QUESTION, controls, merged

from spare_demo.models import LlavaModel
from spare_demo.models.generate.passes import DeviceElsewhere
from spare_demo.settings import Settings
from spare_demo.ui import build
from spare_demo.ui.api import Api
from spare_demo.ui.borrowed_gpu import BorrowedGpu, Step
from spare_demo.ui.handlers import Handlers
from spare_demo.ui.lab import Lab
from spare_demo.ui.open_visits import VisitKey
from spare_demo.ui.visit import Visit


class Lending:
    """Stands for `spaces.GPU` off ZeroGPU: one process that has a device by turns.

    Lends it for one step after the other, and copies all that crosses as pickle does.

    calls: the name of each event that borrowed. crossed: the bytes that went there and back.
    """

    def __init__(self, model: LlavaModel) -> None:
        self._model = model
        self.calls: list[str] = []
        self.seconds: list[int] = []
        self.crossed: list[bytes] = []

    def __call__(self, task: Callable[..., Iterator[bytes]], duration: Callable[..., int]) -> Any:
        def lent(*arguments: Any) -> Iterator[bytes]:
            name, data, _ = pickle.loads(pickle.dumps(arguments))
            self.calls.append(name)
            self.seconds.append(duration(*arguments))
            self.crossed.append(data)
            steps = task(*arguments)
            while True:
                try:
                    sent = next(steps)
                except StopIteration:
                    return
                finally:
                    self._model.detach_device()
                self.crossed.append(sent)
                yield sent
                self._model.attach_device()

        return lent


@pytest.fixture
def lending(tiny_model: LlavaModel) -> Iterator[Lending]:
    yield Lending(tiny_model)
    tiny_model.attach_device()


@pytest.fixture
def gpu(tiny_model: LlavaModel, small_settings: Settings, lending: Lending) -> BorrowedGpu:
    return BorrowedGpu(tiny_model, small_settings, lending)


def run(event: Any, *inputs: Any, **named: Any) -> dict[str, Any]:
    """All that an event changes, merged."""
    return merged(event(*inputs, **named))


def answers(visit: Visit) -> dict[str, tuple[int, ...]]:
    return {label: answer.token_ids for label, answer in visit.result.answers.items()}


def loads(demo: gr.Blocks) -> int:
    """How many events happen when the page is opened."""
    return sum((demo._id, "load") in event.targets for event in demo.fns.values())


class _Classes(pickle.Unpickler):
    """Notes which classes and functions bytes are made of."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add(f"{module}.{name}")
        return super().find_class(module, name)

    def persistent_load(self, name: str) -> None:
        return None


def contents(data: bytes) -> tuple[Any, set[str]]:
    reader = _Classes(data)
    return reader.load(), reader.names


@pytest.mark.parametrize(
    "methods", [("spare", "cdpruner"), ("visionzip", "trim"), ("fastv", "zoo-prune")]
)
def test_a_borrowed_answer_is_the_answer_that_the_model_gives_here(
    handlers: Handlers,
    small_settings: Settings,
    lending: Lending,
    photo_file: str,
    methods: tuple[str, str],
) -> None:
    asked = controls(photo_file, QUESTION, method_a=methods[0], method_b=methods[1])
    here = run(handlers.ask, **asked)
    gpu = BorrowedGpu(handlers.model, small_settings, lending)
    there = run(gpu.stream(Handlers(handlers.model, small_settings).ask), **asked)
    assert lending.calls == ["Handlers.ask"]
    assert answers(there["visit"]) == answers(here["visit"])
    assert there["stage"].keys() == here["stage"].keys()
    assert there["visit"].result.selections.keys() == here["visit"].result.selections.keys()
    for slot, kept in here["visit"].result.selections.items():
        assert torch.equal(there["visit"].result.selections[slot].order, kept.order)


def test_only_data_crosses(
    gpu: BorrowedGpu, lending: Lending, handlers: Handlers, photo_file: str
) -> None:
    lab = Lab(handlers.model, handlers.settings)
    visit = run(gpu.stream(handlers.ask), **controls(photo_file, QUESTION))["visit"]
    run(gpu.stream(handlers.change_methods), "visionzip", "fastv", 0, 6, visit)
    run(gpu.stream(handlers.studies.carrier), 6, visit)
    run(gpu.stream(handlers.ask_own), "[1, 2]", visit)
    run(gpu.stream(lab.measure), ["spare"], [4], 1, "held-out", 0)
    api = Api(handlers.model, handlers.settings)
    gpu.call(api.compare)(photo_file, QUESTION, "spare", "cdpruner", 5)
    assert len(lending.calls) == 6
    seen: set[str] = set()
    for data in lending.crossed:
        value, names = contents(data)
        seen |= names
        if isinstance(value, Step) and value.exploration is not None:
            exploration, names = contents(value.exploration)
            seen |= names
            assert exploration.view.tokens.features.device.type == "cpu"
            assert exploration.view.photo is None
    assert f"{Visit.__module__}.Visit" not in seen
    assert not any("<" in name or name.startswith("torch.storage") for name in seen)
    assert not any(name.startswith(("spare_demo.models.model", "torch.nn")) for name in seen)


def test_what_needs_no_pass_borrows_nothing(
    gpu: BorrowedGpu, lending: Lending, handlers: Handlers, photo_file: str
) -> None:
    visit = run(gpu.stream(handlers.ask), **controls(photo_file, QUESTION))["visit"]
    lending.calls.clear()
    assert run(gpu.stream(handlers.draw_curve), 4, visit)["curve_words"]
    assert run(gpu.stream(handlers.redraw), 4, visit)["answers"]
    replies, asked = handlers.replies, {"budget": 4, "patch": 1, "step": "why"}
    assert run(gpu.stream(replies.why), asked, visit)["reply"]
    cited = run(gpu.stream(replies.cite), {"panels": ["kept"]}, visit)["file"]
    assert cited.name == "spare-comparison.zip" and cited.content
    assert run(gpu.stream(handlers.stop), 4, visit)["answers"]
    assert lending.calls == []


def test_a_curve_that_reads_the_tower_is_drawn_where_the_tower_is(
    gpu: BorrowedGpu, lending: Lending, handlers: Handlers, photo_file: str
) -> None:
    asked = controls(photo_file, QUESTION, method_a="visionzip")
    visit = run(gpu.stream(handlers.ask), **asked)["visit"]
    assert run(gpu.stream(handlers.draw_curve), 4, visit)["curve_words"]
    assert lending.calls == ["Handlers.ask", "Handlers.draw_curve"]


def test_a_moved_slider_keeps_the_answer_of_all_tokens(
    gpu: BorrowedGpu, lending: Lending, handlers: Handlers, photo_file: str
) -> None:
    visit = run(gpu.stream(handlers.ask), **controls(photo_file, QUESTION))["visit"]
    moved = run(gpu.stream(handlers.answer_now), 7, visit)["visit"]
    assert moved.result.budget == 7
    assert lending.calls == ["Handlers.ask", "Handlers.answer_now"]
    before, after = (v.result.answers["unpruned"] for v in (visit, moved))
    assert after.prefill_seconds == before.prefill_seconds  # measured once, not again
    assert moved.exploration is visit.exploration  # features do not cross for a moved slider
    assert {answer.visual_tokens for answer in moved.result.answers.values()} >= {7}


@pytest.mark.parametrize("event", ["ask", "ask_linked"])
def test_asking_about_another_picture_encodes_no_other(
    gpu: BorrowedGpu, handlers: Handlers, passes: Any, photo_file: str, event: str
) -> None:
    visit = run(gpu.stream(handlers.ask), **controls(photo_file, QUESTION))["visit"]
    asked = controls(handlers.offered[0].path, QUESTION)
    before = passes.looks()
    run(gpu.stream(getattr(handlers, event)), **asked, visit=visit)
    assert passes.looks() == before + 1


def test_a_refusal_there_is_the_same_sentence_here(
    gpu: BorrowedGpu, handlers: Handlers, photo_file: str
) -> None:
    asked = controls(photo_file, QUESTION, method_a="fastv")
    visit = run(gpu.stream(handlers.ask), **asked)["visit"]
    Path(photo_file).unlink()  # an upload is deleted after some hours
    with pytest.raises(ValueError, match="Choose it again"):
        run(gpu.stream(handlers.ask_own), "[1]", visit)
    with pytest.raises(ValueError, match="There is no picture"):
        gpu.call(Api(handlers.model, handlers.settings).answer)("", QUESTION)


def test_no_gpu_to_be_had_is_a_sentence(
    gpu: BorrowedGpu, handlers: Handlers, photo_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lent(*arguments: Any) -> Iterator[bytes]:
        raise gr.Error("You have exceeded your quota. Try again in 1:00.", title="ZeroGPU")
        yield b""

    monkeypatch.setattr(gpu, "_run_with_gpu", lent)
    with pytest.raises(ValueError, match=r"^ZeroGPU: You have exceeded your quota\."):
        run(gpu.stream(handlers.ask), **controls(photo_file, QUESTION))
    with pytest.raises(ValueError, match="exceeded"):
        gpu.call(Api(handlers.model, handlers.settings).select)(photo_file, QUESTION, "spare", 5)


def test_longer_answers_ask_for_more_time_and_never_for_more_than_a_visitor_has(
    tiny_model: LlavaModel, lending: Lending, photo_file: str
) -> None:
    for longest in (3, 40, 4000):
        settings = Settings(budget=5, max_new_tokens=longest)
        event = BorrowedGpu(tiny_model, settings, lending).stream(
            Handlers(tiny_model, settings).ask
        )
        next(iter(event(**controls(photo_file, QUESTION))))
    assert lending.seconds == [20, 24, 120]


def test_the_page_opens_without_a_pass_and_its_first_answer_is_there_for_the_next(
    gpu: BorrowedGpu, lending: Lending, handlers: Handlers
) -> None:
    model, settings = handlers.model, handlers.settings
    demo = build(model, settings, gpu=gpu)
    states = [part.value for part in demo.blocks.values() if isinstance(part, gr.State)]
    assert any(isinstance(value, VisitKey) for value in states)
    assert lending.calls == []
    model.attach_device()
    usual = build(model, settings)
    assert loads(demo) == loads(usual) + 1  # it asks when it is opened
    model.detach_device()
    ask = gpu.stream(handlers.ask, handlers.keep_finished)
    gpu.stream(Handlers(model, settings).ask)  # a forked process keeps things to itself
    example = handlers.opening.example
    asked = controls(example.path, handlers.opening.question, budget=settings.budget)
    first = run(ask, **asked)
    second = run(ask, **asked)
    assert lending.calls == ["Handlers.ask"]
    assert answers(second["visit"]) == answers(first["visit"])


def test_a_pass_in_the_process_without_a_device_is_refused(
    gpu: BorrowedGpu, tiny_model: LlavaModel, photo_file: str
) -> None:
    with pytest.raises(DeviceElsewhere):
        tiny_model.encode(photo_file, QUESTION)
    tiny_model.attach_device()
    assert tiny_model.encode(photo_file, QUESTION).tokens.n
