"""Apple's GPUs have no float64: nothing that runs on the model's device may make any."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from elsewhere import Far
from PIL import Image
from stock import answer_all
from tiny_families import FAMILIES
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from spare_demo import measures
from spare_demo.models import Model, View
from spare_demo.models.generate.decoding import AnswerRun
from spare_demo.models.generate.passes import Passes, plain_tensor
from spare_demo.models.generate.together import decode_together
from spare_demo.pruners import PRUNERS, LayerPruner
from spare_demo.tokens import Selection, VisualTokens

QUESTION = "What colour is the circle?"


class NoFloat64(TorchDispatchMode):
    """Computes as usual, but refuses float64 as an Apple GPU does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for value in tree_flatten(found)[0]:
            if isinstance(value, Tensor) and value.dtype == torch.float64:
                raise TypeError(f"Cannot convert a MPS Tensor to float64 dtype: {func}")
        return found


class OnMps(Far):
    """A tensor that says it lies on an Apple GPU, and has no float64 there."""

    lies_on = torch.device("mps")

    def __int__(self) -> int:
        return int(self.values)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def plain(value: Any) -> Any:
            return value.values if isinstance(value, OnMps) else value

        with NoFloat64():
            found = func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))
        if (kwargs or {}).get("device") == torch.device("cpu"):
            return found
        return tree_map(lambda value: cls(value) if isinstance(value, Tensor) else value, found)


def test_the_stand_in_refuses_what_an_apple_gpu_refuses() -> None:
    tensor = OnMps(torch.ones(2, 3))
    assert tensor.device.type == "mps" and (tensor + 1).device.type == "mps"
    assert tensor.cpu().device.type == "cpu" and type(tensor.cpu()) is Tensor
    with pytest.raises(TypeError, match="float64"):
        tensor.double()
    with NoFloat64(), pytest.raises(TypeError, match="float64"):
        torch.ones(2).double()


def test_methods_take_tensors_of_an_apple_gpu(view: View) -> None:
    given = view.tokens
    fields = {
        name: OnMps(getattr(given, name))
        for name in ("features", "clip_image", "clip_text", "states", "class_states")
    }
    read = {
        name: getattr(given, name)
        for name in (
            *("project", "cls_attention", "attention_received", "vision_keys"),
            *("vision_values", "class_queries"),
            *("clip_sentence", "words"),
        )
    }
    tokens = VisualTokens(**fields, **read)
    assert tokens.features.device.type == "cpu"
    for name, method in PRUNERS.items():
        if isinstance(method, LayerPruner):
            continue
        here, there = method.select(tokens, 5), method.select(given, 5)
        assert here.order.tolist() == there.order.tolist(), name
    assert measures.svd_bound(measures.singular_squares(tokens.features), (4,)).shape == (1,)


def test_methods_take_words_of_an_apple_gpu(view: View) -> None:
    """The language model's rows lie there, whatever the tower's were moved to."""
    given = dataclasses.replace(view.tokens, clip_image=None, clip_text=None, clip_sentence=None)
    assert given.words is not None
    here = dataclasses.replace(given, by_words=True)
    words = here.words()
    there = dataclasses.replace(here, words=lambda: OnMps(words))
    for method in PRUNERS.values():
        if method.reads_relevance and not isinstance(method, LayerPruner):
            assert method.select(there, 5).order.tolist() == method.select(here, 5).order.tolist()
    assert PRUNERS["mmtok"].select(there, 5).order.tolist()


def test_what_a_pass_gives_can_be_computed_with() -> None:
    given = plain_tensor(OnMps(torch.ones(2)))
    assert given.device.type == "cpu" and given.double().dtype == torch.float64
    here = torch.ones(2)
    assert plain_tensor(here) is not here


@pytest.mark.parametrize("family", FAMILIES)
def test_no_pass_makes_float64(
    family: str, photo: Image.Image, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    model: Model = request.getfixturevalue(family)
    run, passes = Passes.run, list[str]()

    def strictly(self: Passes, step: Callable[[], Any], beside: Any = None) -> Any:
        def on_the_device() -> Any:
            with NoFloat64():
                return step()

        passes.append(family)
        return run(self, on_the_device, beside)

    monkeypatch.setattr(Passes, "run", strictly)
    for aspect in model.aspects:
        view = model.encode(photo, QUESTION, aspect)
        for name, method in PRUNERS.items():
            if model.reason_against(method):
                continue
            if isinstance(method, LayerPruner):
                try:
                    kept: Any = method.plan(view, method.lowest(view.tokens.n, view.layers))
                except ValueError as error:  # more layers than a tiny model has
                    assert "deeper model" in str(error)
                    continue
            else:
                kept = method.select(view.tokens, 3)
            assert model.answer(view, kept, max_new_tokens=2).token_ids, name
        model.score(view, None, [5, 6])
        model.answer_many([(view, None)], 2)
        if family == "tiny_model":  # one batch of several answers: compact positions only
            runs = {label: model._prepare(view, None, 2, None) for label in (0, 1)}
            assert list(decode_together(model.hf, model._passes, runs))
    assert len(passes) > 20


@pytest.mark.parametrize("together", [False, True])
def test_words_are_chosen_from_scores_of_an_apple_gpu(
    tiny_model: Model, view: View, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """Between the passes: the scores that a pass leaves on the device give the likeliest token and
    its probability."""
    asked = {"all": None, "few": Selection([5, 2])}
    expected = {label: tiny_model.answer(view, kept, 4) for label, kept in asked.items()}
    run, on_mps = Passes.run, list[str]()

    def there(value: Any) -> Any:
        if isinstance(value, Tensor):
            on_mps.append(str(value.dtype))
            return OnMps(value)
        return value

    def on_an_apple_gpu(self: Passes, step: Callable[[], Any], beside: Any = None) -> Any:
        result, seconds = run(self, step, beside)
        answering = getattr(step, "__self__", None)
        if isinstance(answering, AnswerRun):
            answering.logits = there(answering.logits)
        return tree_map(there, result), seconds

    monkeypatch.setattr(Passes, "run", on_an_apple_gpu)
    if not together:
        monkeypatch.setattr("spare_demo.models.generate.together.room", lambda hf: 0)
    found = answer_all(tiny_model, view, asked, 4)
    for label, answer in found.items():
        assert answer.token_ids == expected[label].token_ids
        assert answer.log_probabilities == pytest.approx(
            expected[label].log_probabilities, abs=1e-4
        )
    assert len(on_mps) == (5 if together else 8)  # each prefill, and each step
