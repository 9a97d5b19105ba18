"""Answers decoded together are those of each alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from stock import answer_all

from spare_demo.models import Answer, LlavaModel, Model, View
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.generate import batch, passes
from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.models.generate.passes import OutOfMemory, Passes
from spare_demo.models.generate.together import JoinedCache
from spare_demo.pruners import PRUNERS, LayerPruner
from spare_demo.tokens import Selection

PICKS = [None, [3, 0, 15, 7], [5], list(range(0, 16, 2))]
SAME = (
    *("token_ids", "prompt_tokens", "visual_tokens", "newline_tokens", "kv_cache_bytes"),
    *("kept_per_layer", "ended", "prefill_operations"),
)


def assert_same(ours: Answer, alone: Answer) -> None:
    for name in SAME:
        assert getattr(ours, name) == getattr(alone, name), name
    assert ours.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-4)


def answer(
    model: Model, view: View, picks: Sequence[list[int] | None], longest: int
) -> list[Answer]:
    """The answers; what was said of each on the way must lead to it."""
    asked = {str(i): p and Selection(p) for i, p in enumerate(picks)}
    texts, done = dict.fromkeys(asked, ""), dict[str, Answer]()
    for step in model.stream_together(view, asked, longest):
        assert not done.keys() & step.keys(), "nothing is said after the end"
        for label, said in step.items():
            if isinstance(said, Answer):
                done[label] = said
            else:
                texts[label] += said
    assert all(done[label].text.startswith(text) for label, text in texts.items())
    return [done[label] for label in asked]


@pytest.mark.parametrize("question", ["What colour is the circle?", "", "Is 日本語 here? 🙂"])
@pytest.mark.parametrize("longest", [1, 2, 24])
def test_each_is_what_it_is_alone(
    tiny_model: LlavaModel, photo: Image.Image, question: str, longest: int
) -> None:
    view = tiny_model.encode(photo, question)
    together = answer(tiny_model, view, PICKS, longest)
    for pick, ours in zip(PICKS, together, strict=True):
        alone = tiny_model.answer(view, pick and Selection(pick), longest)
        assert ours.text == alone.text
        assert_same(ours, alone)
        torch.testing.assert_close(ours.first_logits, alone.first_logits, atol=1e-5, rtol=0)
        assert ours.prefill_seconds > 0 and (ours.decode_seconds > 0) == (longest > 1)


def test_positions_on_several_axes_are_decoded_together_too(
    tiny_qwen: QwenModel, photo: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tiny_qwen.encode(photo.resize((224, 168)), "What colour is the circle?")
    last = view.tokens.n - 1
    picks = [None, [3, 0, last, 7], [last], list(range(0, last, 3))]
    steps = watch(monkeypatch)
    together = answer(tiny_qwen, view, picks, 9)
    assert steps[0][0] == 4
    assert len({each.token_ids for each in together}) > 1
    for pick, ours in zip(picks, together, strict=True):
        assert_same(ours, tiny_qwen.answer(view, pick and Selection(pick), 9))


def test_an_answer_that_ends_leaves_the_others_going(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = answer(tiny_model, view, PICKS, 12)
    end = usual[1].token_ids[3]  # what one answer says early now ends it
    monkeypatch.setattr(tiny_model.hf.generation_config, "eos_token_id", end)
    together = answer(tiny_model, view, PICKS, 12)
    assert len({len(each.token_ids) for each in together}) > 1
    for pick, ours in zip(PICKS, together, strict=True):
        alone = tiny_model.answer(view, pick and Selection(pick), 12)
        assert (ours.token_ids, ours.ended) == (alone.token_ids, alone.ended)


def test_the_room_for_the_answers_is_told_apart(tiny_model: LlavaModel, view: View) -> None:
    together = answer(tiny_model, view, PICKS, 4)
    for each in together:
        a_position = each.kv_cache_bytes // each.prompt_tokens
        assert each.allocated_bytes == each.kv_cache_bytes + 4 * a_position
    assert len({each.kv_cache_bytes for each in together}) == 4


def test_who_reads_least_says_its_first_word_first(tiny_model: LlavaModel, view: View) -> None:
    sets = {"all": None, "four": Selection([3, 0, 15, 7]), "one": Selection([5])}
    steps = list(tiny_model.stream_together(view, sets, 4))
    assert [[*step] for step in steps[:4]] == [["one"], ["four"], ["all"], ["all", "four", "one"]]


def watch(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Of every step to come: how many answers, how long the cache is after it, and where it is."""
    steps: list[tuple[int, int, int]] = []
    step = JoinedCache.step

    def watched(self: JoinedCache, tokens: Sequence[int]) -> torch.Tensor:
        logits = step(self, tokens)
        keys = self.cache.layers[0].keys
        steps.append((len(tokens), keys.shape[2], keys.data_ptr()))
        return logits

    monkeypatch.setattr(JoinedCache, "step", watched)
    return steps


def test_a_step_copies_nothing_of_what_is_cached(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A growing cache would be copied whole at every step."""
    steps = watch(monkeypatch)
    monkeypatch.setattr(tiny_model.hf.generation_config, "eos_token_id", None)
    answer(tiny_model, view, PICKS, 8)
    assert len(steps) == 7 and len({place for _, _, place in steps}) == 1


def test_nothing_is_padded_and_who_is_done_leaves_the_cache(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = answer(tiny_model, view, PICKS, 12)[0].token_ids[2]
    monkeypatch.setattr(tiny_model.hf.generation_config, "eos_token_id", end)
    steps = watch(monkeypatch)
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)  # a second for each pass
    monkeypatch.setattr(passes, "time", clock)
    together = answer(tiny_model, view, PICKS, 12)
    assert all(each.decode_seconds == len(each.token_ids) - 1 for each in together)
    assert len({len(each.token_ids) for each in together}) > 1
    for done, (count, length, _) in enumerate(steps, start=1):
        going = [each for each in together if len(each.token_ids) > done]
        assert count == len(going)
        assert length == sum(each.prompt_tokens + done for each in going)


@pytest.mark.parametrize("full", [False, True])
def test_what_does_not_fit_as_one_is_decoded_apart(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    usual = answer(tiny_model, view, PICKS, 6)
    if full:  # more than was thought is taken
        make = JoinedCache.__init__

        def refuse(self: JoinedCache, hf: object, caches: Sequence[object], *rest: Any) -> None:
            if len(caches) > 1:
                raise OutOfMemory("no room")
            make(self, hf, caches, *rest)

        monkeypatch.setattr(JoinedCache, "__init__", refuse)
    else:
        monkeypatch.setattr(batch, "_CACHE_BYTES", 100)
    apart = answer(tiny_model, view, PICKS, 6)
    assert [each.token_ids for each in apart] == [each.token_ids for each in usual]
    assert all(each.allocated_bytes == each.kv_cache_bytes for each in apart)


def test_what_is_never_batched_comes_a_token_of_each_in_turn(
    tiny_model: LlavaModel, view: View
) -> None:
    plan = PRUNERS["fastv"].plan(view, 8)  # type: ignore[union-attr]
    steps = list(tiny_model.stream_together(view, {"one": plan, "other": plan}, 4))
    assert [[*step] for step in steps] == [["one"], ["other"]] * (len(steps) // 2)
    one, other = (step[label] for step, label in zip(steps[-2:], ("one", "other"), strict=True))
    assert isinstance(one, Answer) and isinstance(other, Answer)
    assert one.token_ids == other.token_ids == tiny_model.answer(view, plan, 4).token_ids


def test_methods_inside_the_language_model_are_never_batched(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = PRUNERS["fastv"]
    assert isinstance(method, LayerPruner)
    plan = method.plan(view, 8)
    steps = watch(monkeypatch)
    asked = {"all": None, "inside": plan, "few": Selection([5, 2])}
    together = answer_all(tiny_model, view, asked, 4)
    assert list(together) == list(asked) and {count for count, _, _ in steps} == {2}
    for label, kept in asked.items():
        assert together[label].token_ids == tiny_model.answer(view, kept, 4).token_ids


def test_nothing_runs_once_they_are_closed(tiny_model: LlavaModel, view: View) -> None:
    asked = {str(i): p and Selection(p) for i, p in enumerate(PICKS)}
    calls: list[int] = []
    with tiny_model.hf.model.language_model.register_forward_hook(lambda *_: calls.append(1)):
        steps = tiny_model.stream_together(view, asked, 12)
        next(steps)
        before = len(calls)
        steps.close()
        tiny_model.answer(view, None, 1)
    assert len(calls) == before + 1


def test_what_cannot_be_answered_is_refused_at_once(tiny_model: LlavaModel, view: View) -> None:
    with pytest.raises(ValueError, match="max_new_tokens"):
        tiny_model.stream_together(view, {"all": None}, 0)
    with pytest.raises(ValueError, match="does not exist"):
        tiny_model.stream_together(view, {"far": Selection([16])})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_each_what_it_is_alone(tiny_folder, photo: Image.Image) -> None:
    from spare_demo.models import load_model

    test_each_is_what_it_is_alone(load_model(str(tiny_folder), device="cuda"), photo, "Why?", 24)


# --- the first pass over a length ---


@pytest.fixture
def prefills(
    tiny_model: LlavaModel, view: View, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[int]]:
    """The length of every prefill to come, of a model whose passes take its device for CUDA."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(tiny_model, "_passes", Passes(torch.device("cuda", 0)))
    lengths: list[int] = []

    def note(layer: Any, inputs: Any) -> None:
        if inputs[0].shape[1] > len(KEPT):  # no step of decoding
            lengths.append(inputs[0].shape[1])

    with tiny_model.hf.model.language_model.layers[0].register_forward_pre_hook(note):
        yield lengths


KEPT = {"all": None, "few": Selection([3, 0, 15, 7]), "one": Selection([5])}


def test_on_cuda_every_new_length_runs_once_untimed(
    tiny_model: LlavaModel, view: View, prefills: list[int]
) -> None:
    text = int((view.input_ids != tiny_model.hf.config.image_token_id).sum())
    first = answer_all(tiny_model, view, KEPT, 4)
    assert prefills == [text + count for count in (1, 1, 4, 4, 16, 16)]
    prefills.clear()
    again = answer_all(tiny_model, view, KEPT, 4)
    assert tiny_model.answer(view, KEPT["few"], 4).token_ids == first["few"].token_ids
    assert prefills == [text + count for count in (1, 4, 16, 4)]
    prefills.clear()
    alone = tiny_model.answer(view, Selection([1, 2]), 4)
    assert prefills == [text + 2] * 2
    plan = PRUNERS["fastv"].plan(view, 8)  # type: ignore[union-attr]
    inside = [tiny_model.answer(view, plan, 4) for _ in range(2)]
    assert prefills == [text + 2] * 2 + [text + 16] * 3
    prefills.clear()
    scored = tiny_model.score(view, Selection([1, 2, 3]), alone.token_ids)
    assert prefills == [text + 3] and len(scored.token_ids) == len(alone.token_ids)

    tiny_model._passes = Passes(torch.device("cpu"))  # the fixture puts the model's own back
    prefills.clear()
    usual = answer_all(tiny_model, view, KEPT, 4)
    for label, expected in usual.items():
        for ours in (first[label], again[label]):
            assert ours.token_ids == expected.token_ids
            assert ours.kv_cache_bytes == expected.kv_cache_bytes
            assert ours.allocated_bytes == expected.allocated_bytes
    for ours in inside:
        expected = tiny_model.answer(view, plan, 4)
        assert ours.token_ids == expected.token_ids
        assert ours.kept_per_layer == expected.kept_per_layer
    assert len(prefills) == len(usual) + 2  # never twice on a CPU


def test_a_captured_prefill_runs_a_new_length_untimed_too(
    tiny_model: LlavaModel, view: View, prefills: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = answer_all(tiny_model, view, KEPT, 4)
    monkeypatch.setattr(tiny_model, "_captured", CapturedPrefill(tiny_model.hf))
    prefills.clear()
    for count in (6, 3):  # prefills of three answers, for the first time and again
        padded = answer_all(tiny_model, view, KEPT, 4)
        assert {k: a.token_ids for k, a in padded.items()} == {
            k: a.token_ids for k, a in eager.items()
        }
        assert len(prefills) == count
        prefills.clear()
