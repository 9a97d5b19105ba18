"""The padded prefill leaves what the plain one leaves."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import DynamicCache

from spare_demo.models import LlavaModel, Model, ModelError, View, load_model, resident
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate import captured_prefill
from spare_demo.models.generate.cache import CACHE, cache_bytes
from spare_demo.models.generate.captured_prefill import BUCKET, CapturedPrefill, difference
from spare_demo.tokens import Selection

LENGTHS = (1, 2, BUCKET - 1, BUCKET, BUCKET + 1, 100, 1)


def embeds_of(model: LlavaModel, length: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(length)
    ids = torch.randint(10, 300, (1, length), generator=g).to(model.device)
    return model.hf.get_input_embeddings()(ids)


def plain(model: LlavaModel, embeds: torch.Tensor) -> tuple[torch.Tensor, DynamicCache]:
    cache = DynamicCache(config=model.hf.config)
    out = model.hf(inputs_embeds=embeds, use_cache=True, logits_to_keep=1, **{CACHE: cache})
    return out.logits[0, -1].float(), cache


def greedy(model: LlavaModel, first: int, cache: DynamicCache, steps: int) -> list[int]:
    ids = [first]
    for _ in range(steps):
        step = torch.tensor([ids[-1:]], device=model.device)
        out = model.hf(input_ids=step, use_cache=True, **{CACHE: cache})
        ids.append(int(out.logits[0, -1].argmax()))
    return ids


def check(model: LlavaModel, atol: float) -> None:
    prefill = CapturedPrefill(model.hf)
    with torch.inference_mode():
        for length in LENGTHS:
            embeds = embeds_of(model, length)
            logits, cache = plain(model, embeds)
            own_logits, own_cache, static_bytes = prefill(embeds)
            torch.testing.assert_close(own_logits, logits, atol=atol, rtol=0)
            assert own_cache.get_seq_length() == length
            assert cache_bytes(own_cache) == cache_bytes(cache)
            padded = -(-length // BUCKET) * BUCKET
            assert static_bytes * length == cache_bytes(cache) * padded
            for a, b in zip(own_cache.layers, cache.layers, strict=True):
                torch.testing.assert_close(a.keys, b.keys, atol=atol, rtol=0)
                torch.testing.assert_close(a.values, b.values, atol=atol, rtol=0)
            if model.hf.dtype == torch.float32:
                first = int(logits.argmax())
                assert greedy(model, first, own_cache, 8) == greedy(model, first, cache, 8)


def test_padding_changes_nothing(tiny_model: LlavaModel) -> None:
    check(tiny_model, atol=1e-4)


def test_a_later_prompt_leaves_an_earlier_ones_cache_alone(tiny_model: LlavaModel) -> None:
    prefill = CapturedPrefill(tiny_model.hf)
    with torch.inference_mode():
        _, first, _ = prefill(embeds_of(tiny_model, 5))
        before = [layer.keys.clone() for layer in first.layers]
        prefill(embeds_of(tiny_model, 9))
    for layer, keys in zip(first.layers, before, strict=True):
        assert torch.equal(layer.keys, keys)


def test_answers_are_the_same_with_either_prefill(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    for picks in (None, Selection([3, 0, 15, 7])):
        monkeypatch.setattr(tiny_model, "_captured", None)
        eager = tiny_model.answer(view, picks, 12)
        monkeypatch.setattr(tiny_model, "_captured", CapturedPrefill(tiny_model.hf))
        padded = tiny_model.answer(view, picks, 12)
        assert padded.token_ids == eager.token_ids
        assert padded.kv_cache_bytes == eager.kv_cache_bytes
        assert padded.prompt_tokens == eager.prompt_tokens
        torch.testing.assert_close(padded.first_logits, eager.first_logits, atol=1e-4, rtol=0)


def test_lengths_are_made_ready_and_given_up(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill = CapturedPrefill(tiny_model.hf)
    with torch.inference_mode():
        prefill.prepare(5, tiny_model.hf.get_input_embeddings().weight)
        assert set(prefill._passes) == {BUCKET}
        made = prefill._passes[BUCKET]
        prefill(embeds_of(tiny_model, 5))
        assert prefill._passes[BUCKET] is made
        prefill(embeds_of(tiny_model, BUCKET + 1))
        assert len(prefill._passes) == 2
        monkeypatch.setattr(prefill, "_kept_bytes", 1)
        prefill(embeds_of(tiny_model, 7))
    assert list(prefill._passes) == [BUCKET]


class OnGpu(torch.Tensor):
    is_cuda = True


def test_what_cannot_be_captured_runs_as_usual(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, pool: object, stream: object) -> None:
        raise error

    monkeypatch.setattr(captured_prefill._Pass, "capture", refuse)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: object())
    prefill = CapturedPrefill(tiny_model.hf)
    with torch.inference_mode():
        embeds = embeds_of(tiny_model, 5).as_subclass(OnGpu)
        prefill.prepare(BUCKET + 1, tiny_model.hf.get_input_embeddings().weight)
        error: Exception = torch.OutOfMemoryError("full")
        with pytest.raises(torch.OutOfMemoryError):
            prefill(embeds)
        assert not prefill._passes and prefill.captures  # their memory is free again
        error = RuntimeError("operation not permitted when stream is capturing")
        logits, _ = plain(tiny_model, embeds_of(tiny_model, 5))
        torch.testing.assert_close(
            prefill(embeds)[0].as_subclass(torch.Tensor), logits, atol=1e-4, rtol=0
        )
        assert not prefill.captures


def test_models_that_cannot_be_captured_are_refused(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model.hf, "hf_device_map", {"model": 0, "lm_head": 1}, raising=False)
    with pytest.raises(ModelError, match="spread over several"):
        tiny_model.capture_prefill("on")
    monkeypatch.setattr(tiny_model.hf, "hf_device_map", {"": 0})
    monkeypatch.setattr(tiny_model.hf, "is_loaded_in_8bit", True, raising=False)
    with pytest.raises(ModelError, match="8-bit weights cannot be captured"):
        tiny_model.capture_prefill("on")


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without CUDA")
def test_without_a_gpu_only_who_insists_hears_of_it(tiny_model: LlavaModel) -> None:
    with pytest.raises(
        ModelError, match=r"on cpu\. Load the model with capture_prefill \(--capture-prefill\) off"
    ):
        tiny_model.capture_prefill("on")
    notes = tiny_model.notes
    for when in ("auto", "off"):
        tiny_model.capture_prefill(when)
        assert tiny_model._captured is None and tiny_model.notes == notes


def put_on_cuda(model: Model, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model say that it is on a CUDA GPU, in which its prefill can be captured."""
    monkeypatch.setattr(model, "encode", lambda image, question: view)
    monkeypatch.setattr(type(model), "device", torch.device("cuda", 0))
    monkeypatch.setattr(resident, "reason_against", lambda hf: None)
    monkeypatch.setattr(model, "notes", ())
    monkeypatch.setattr(model, "_captured", None)


@pytest.fixture
def on_cuda(tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch) -> LlavaModel:
    put_on_cuda(tiny_model, view, monkeypatch)
    return tiny_model


def test_on_a_gpu_it_is_on_once_it_gave_the_usual_results(
    on_cuda: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    run = CapturedPrefill.__call__

    def watched(self: CapturedPrefill, embeds: torch.Tensor) -> tuple[Any, ...]:
        lengths.append(embeds.shape[1])
        return run(self, embeds)

    monkeypatch.setattr(CapturedPrefill, "__call__", watched)
    on_cuda.capture_prefill("auto")
    assert on_cuda._captured is not None and on_cuda.notes == ()
    assert len(set(lengths)) == 3
    monkeypatch.setattr(on_cuda, "_captured", None)
    on_cuda.capture_prefill("off")
    assert on_cuda._captured is None and on_cuda.notes == ()


def wrong_token(logits: torch.Tensor) -> None:
    logits[int(logits.argmin())] += 1000


def wrong_scores(logits: torch.Tensor) -> None:
    logits[int(logits.argmax())] += 1000


def no_number(logits: torch.Tensor) -> None:
    logits.mul_(torch.nan)


def out_of_memory(logits: torch.Tensor) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def another_error(logits: torch.Tensor) -> None:
    raise RuntimeError("something inside")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (wrong_token, "it chose another first token"),
        (wrong_scores, "its scores differed from the usual prefill's by"),
        (no_number, "than the usual prefill|its scores differed"),
        (out_of_memory, "There is not enough memory for it"),
        (another_error, r"Capturing it failed \(RuntimeError\)"),
    ],
)
def test_what_gives_other_results_stays_off_and_says_why(
    on_cuda: LlavaModel, monkeypatch: pytest.MonkeyPatch, fault: Any, sentence: str
) -> None:
    view = on_cuda.encode(None, "")  # type: ignore[arg-type]
    expected = on_cuda.answer(view, None, 4).token_ids
    run = CapturedPrefill.__call__

    def faulty(self: CapturedPrefill, embeds: torch.Tensor) -> tuple[Any, ...]:
        logits, *others = run(self, embeds)
        fault(logits)
        return logits, *others

    monkeypatch.setattr(CapturedPrefill, "__call__", faulty)
    on_cuda.capture_prefill("auto")
    assert on_cuda._captured is None and len(on_cuda.notes) == 1
    assert on_cuda.notes[0].startswith("The prefill is not captured as a CUDA graph. ")
    assert re.search(sentence, on_cuda.notes[0])
    assert on_cuda.answer(view, None, 4).token_ids == expected
    with pytest.raises(ModelError, match=sentence):
        on_cuda.capture_prefill("on")


def test_a_capture_that_cannot_be_made_and_4_bits_leave_it_off(
    on_cuda: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = CapturedPrefill.__init__

    def failed(self: CapturedPrefill, hf: Any) -> None:
        make(self, hf)
        self.captures = False

    monkeypatch.setattr(CapturedPrefill, "__init__", failed)
    on_cuda.capture_prefill("auto")
    assert on_cuda._captured is None and "Some layer" in on_cuda.notes[-1]
    monkeypatch.setattr(CapturedPrefill, "__init__", make)
    monkeypatch.setattr(on_cuda.hf, "is_loaded_in_4bit", True, raising=False)
    on_cuda.capture_prefill("auto")
    assert on_cuda._captured is None and "4-bit weights" in on_cuda.notes[-1]
    on_cuda.capture_prefill("on")
    assert on_cuda._captured is not None


def test_rounding_is_told_from_other_results() -> None:
    g = torch.Generator().manual_seed(0)
    for dtype, rounding in ((torch.bfloat16, 0.03), (torch.float16, 0.004), (torch.float32, 1e-5)):
        eager = torch.randn(1000, generator=g)
        eager[7] = 6.0
        noise = torch.randn(1000, generator=g)
        assert difference(eager + rounding * noise, eager, dtype) is None
        assert difference(eager + 40 * rounding * noise, eager, dtype) is not None
        assert difference(eager.flip(0), eager, dtype) is not None


def test_models_with_positions_of_their_own_are_never_captured(
    tiny_qwen: QwenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tiny_qwen.encode(Image.new("RGB", (56, 56)), "What is this?")
    put_on_cuda(tiny_qwen, view, monkeypatch)
    tiny_qwen.capture_prefill("auto")
    assert tiny_qwen._captured is None and "positions of their own" in tiny_qwen.notes[0]


def test_the_kept_lengths_leave_room_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 4000))
    assert CapturedPrefill(SimpleNamespace(device=torch.device("cuda", 0)))._kept_bytes == 250


def test_load_model_takes_three_words_and_no_other(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match="Choose auto, on, off"):
        load_model(str(tiny_folder), device="cpu", capture_prefill="yes")


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without CUDA")
def test_a_model_that_was_to_be_captured_and_cannot_is_not_kept(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[LlavaModel] = []
    monkeypatch.setattr(LlavaModel, "warm_up", lambda self: loaded.append(self))
    with pytest.raises(ModelError, match="on cpu"):
        load_model(str(tiny_folder), device="cpu", capture_prefill="on")
    assert loaded[0].closed and loaded[0].bytes == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_captured_prefill_is_the_eager_one(tiny_folder, dtype: torch.dtype) -> None:
    model = load_model(str(tiny_folder), device="cuda")
    model.hf.to(dtype)
    check(model, atol=1e-4 if dtype == torch.float32 else 0.2)
