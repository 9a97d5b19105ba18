"""The padded prefill leaves what the plain one leaves."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from transformers import DynamicCache

from spare_demo.models import LlavaModel, ModelError
from spare_demo.models.generate import captured_prefill
from spare_demo.models.generate.captured_prefill import BUCKET, CapturedPrefill
from spare_demo.models.generate.decoding import cache_bytes
from spare_demo.tokens import Selection

LENGTHS = (1, 2, BUCKET - 1, BUCKET, BUCKET + 1, 100, 1)


def embeds_of(model: LlavaModel, length: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(length)
    ids = torch.randint(10, 300, (1, length), generator=g).to(model.device)
    return model.hf.get_input_embeddings()(ids)


def plain(model: LlavaModel, embeds: torch.Tensor) -> tuple[torch.Tensor, DynamicCache]:
    cache = DynamicCache(config=model.hf.config)
    out = model.hf(inputs_embeds=embeds, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[0, -1].float(), cache


def greedy(model: LlavaModel, first: int, cache: DynamicCache, steps: int) -> list[int]:
    ids = [first]
    for _ in range(steps):
        step = torch.tensor([ids[-1:]], device=model.device)
        out = model.hf(input_ids=step, past_key_values=cache, use_cache=True)
        ids.append(int(out.logits[0, -1].argmax()))
    return ids


def check(model: LlavaModel, atol: float) -> None:
    prefill = CapturedPrefill(model.hf)
    with torch.inference_mode():
        for length in LENGTHS:
            embeds = embeds_of(model, length)
            logits, cache = plain(model, embeds)
            ours = prefill(embeds)
            torch.testing.assert_close(ours.logits, logits, atol=atol, rtol=0)
            assert ours.cache.get_seq_length() == length
            assert cache_bytes(ours.cache) == cache_bytes(cache)
            padded = -(-length // BUCKET) * BUCKET
            assert ours.allocated_bytes * length == cache_bytes(cache) * padded
            for a, b in zip(ours.cache.layers, cache.layers, strict=True):
                torch.testing.assert_close(a.keys, b.keys, atol=atol, rtol=0)
                torch.testing.assert_close(a.values, b.values, atol=atol, rtol=0)
            if model.hf.dtype == torch.float32:
                first = int(logits.argmax())
                assert greedy(model, first, ours.cache, 8) == greedy(model, first, cache, 8)


def test_padding_changes_nothing(tiny_model: LlavaModel) -> None:
    check(tiny_model, atol=1e-4)


def test_a_later_prompt_leaves_an_earlier_ones_cache_alone(tiny_model: LlavaModel) -> None:
    prefill = CapturedPrefill(tiny_model.hf)
    with torch.inference_mode():
        first = prefill(embeds_of(tiny_model, 5))
        before = [layer.keys.clone() for layer in first.cache.layers]
        prefill(embeds_of(tiny_model, 9))
    for layer, keys in zip(first.cache.layers, before, strict=True):
        assert torch.equal(layer.keys, keys)


def test_answers_are_the_same_with_either_prefill(
    tiny_model: LlavaModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tiny_model.encode(photo, "What colour is the circle?")
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
        monkeypatch.setattr(captured_prefill, "_KEPT_BYTES", 1)
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
        assert not prefill._passes and prefill._captures  # their memory is free again
        error = RuntimeError("operation not permitted when stream is capturing")
        logits, _ = plain(tiny_model, embeds_of(tiny_model, 5))
        torch.testing.assert_close(
            prefill(embeds).logits.as_subclass(torch.Tensor), logits, atol=1e-4, rtol=0
        )
        assert not prefill._captures


def test_models_that_cannot_be_captured_are_refused(
    tiny_model: LlavaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_model.hf, "hf_device_map", {"model": 0, "lm_head": 1}, raising=False)
    with pytest.raises(ModelError, match="spread over several"):
        tiny_model.capture_prefill()
    monkeypatch.setattr(tiny_model.hf, "hf_device_map", {"": 0})
    monkeypatch.setattr(tiny_model.hf, "is_loaded_in_8bit", True, raising=False)
    with pytest.raises(ModelError, match="--bits 4"):
        tiny_model.capture_prefill()


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without CUDA")
def test_capturing_needs_a_gpu(tiny_model: LlavaModel) -> None:
    with pytest.raises(ModelError, match="Start without --capture-prefill"):
        tiny_model.capture_prefill()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_captured_prefill_is_the_eager_one(tiny_folder, dtype: torch.dtype) -> None:
    from spare_demo.models import load_model

    model = load_model(str(tiny_folder), device="cuda")
    model.hf.to(dtype)
    check(model, atol=1e-4 if dtype == torch.float32 else 0.2)
