"""The layer-by-layer run, against slow references without a cache and against the stock model."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import layer_references as slow
import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    GemmaConfig,
    GemmaModel,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    MistralModel,
    Qwen2Config,
    Qwen2Model,
)

from spare_demo import PRUNERS, VisualTokens
from spare_demo.models import Answer, LlavaModel, ModelError, View
from spare_demo.models.generate.layerwise import LayerReading, LayerwiseRun
from spare_demo.pruners.inside.sparsevlm import raters
from spare_demo.pruners.plan import LayerPlan, LayerSet

INSIDE = ["fastv", "pyramiddrop", "sparsevlm", "sparsevlm-plus", "dart", "v2drop"]
KEEP_POSITIONS = ["fastv", "sparsevlm-plus", "dart", "v2drop"]
FIRST, N, TEXT, WIDTH = 3, 60, 9, 32
VISUAL = torch.arange(FIRST, FIRST + N)

KINDS: dict[str, Any] = {
    "llama": (LlamaModel, LlamaConfig, {}),
    "mistral": (MistralModel, MistralConfig, {"sliding_window": None}),
    "qwen2": (Qwen2Model, Qwen2Config, {}),
    "gemma": (GemmaModel, GemmaConfig, {"head_dim": 8}),
}


def make(kind: str = "llama", depth: int = 8, dtype: torch.dtype = torch.float64) -> Any:
    """A random decoder, two query heads to a key head, whose attention is far from flat."""
    model, config, options = KINDS[kind]
    with torch.random.fork_rng():
        torch.manual_seed(7)
        decoder = model(
            config(
                vocab_size=11,
                hidden_size=WIDTH,
                intermediate_size=48,
                num_hidden_layers=depth,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=256,
                **options,
            )
        )
        for parameter in decoder.layers.parameters():
            if parameter.ndim == 2:
                parameter.data *= 8
            else:  # norms of 1, biases of 0
                parameter.data += 0.1 * torch.randn_like(parameter)
    return decoder.to(dtype).eval()


def prompt(seed: int = 0, extra: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(FIRST + N + TEXT + extra, WIDTH, generator=g, dtype=torch.float64)


def plan_for(name: str, budget: int, depth: int = 8, n: int = N) -> LayerPlan:
    asked = SimpleNamespace(tokens=VisualTokens(torch.ones(n, 2)), layers=depth)
    return PRUNERS[name].plan(asked, budget)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def decoder() -> Any:
    return make()


def patches(decisions: list[slow.Decision]) -> list[list[int]]:
    """The patches that are there as themselves after each decision."""
    alive: list[int] = list(range(N))
    out = []
    for decision in decisions:
        merged = 0 if decision.merge is None else len(decision.merge)
        alive = [alive[i] for i in decision.kept] + [-1] * merged
        out.append([patch for patch in alive if patch >= 0])
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("budget", [25, 40])
@pytest.mark.parametrize("name", INSIDE)
@torch.inference_mode()
def test_a_run_is_the_slow_run(decoder: Any, name: str, budget: int, seed: int) -> None:
    embeds, new = prompt(seed, extra=4).split([FIRST + N + TEXT, 4])
    plan = plan_for(name, budget)
    run = LayerwiseRun(decoder, plan, VISUAL, FIRST + N)
    last = run.prefill(embeds[None])
    decisions = slow.decide(decoder, embeds, FIRST, plan)
    assert len(decisions) == len(plan.stops) > 0
    assert [s.kept.tolist() for s in run.sets] == [list(range(N)), *patches(decisions)]
    assert [s.layer for s in run.sets] == [0, *(stop.layer for stop in plan.stops)]
    expected = slow.shortened_run(decoder, embeds, FIRST, plan, decisions)[-1]
    torch.testing.assert_close(last[0, 0], expected, atol=1e-5, rtol=0)
    lengths = [run.cache.get_seq_length(layer) for layer in range(8)]
    assert lengths == [FIRST + TEXT + count for count in plan.per_layer]
    for count in range(1, 5):
        last = run.step(new[None, count - 1 : count])
        expected = slow.shortened_run(decoder, embeds, FIRST, plan, decisions, new[:count])[-1]
        torch.testing.assert_close(last[0, 0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", KEEP_POSITIONS)
@torch.inference_mode()
def test_dropping_is_masking_where_positions_stay(decoder: Any, name: str) -> None:
    embeds, new = prompt(5, extra=3).split([FIRST + N + TEXT, 3])
    plan = plan_for(name, 30)
    run = LayerwiseRun(decoder, plan, VISUAL, FIRST + N)
    last = run.prefill(embeds[None])
    decisions = slow.decide(decoder, embeds, FIRST, plan)
    written = embeds
    for token in new:
        expected = slow.masked_run(decoder, written, FIRST, decisions, N)[-1]
        torch.testing.assert_close(last[0, 0], expected, atol=1e-9, rtol=0)
        written = torch.cat([written, token[None]])
        last = run.step(token[None, None])
    whole = slow.masked_run(decoder, embeds, FIRST, [], N)[-1]
    pruned = slow.masked_run(decoder, embeds, FIRST, decisions, N)[-1]
    assert (whole - pruned).abs().max() > 0.1  # the masks matter


@torch.inference_mode()
def test_dropping_is_masking_where_positions_are_given(decoder: Any) -> None:
    """Given positions, a method whose code packs them does not."""
    embeds, new = prompt(5, extra=3).split([FIRST + N + TEXT, 3])
    plan = plan_for("pyramiddrop", 30)
    run = LayerwiseRun(decoder, plan, VISUAL, FIRST + N, torch.arange(len(embeds))[None])
    first = last = run.prefill(embeds[None])
    decisions, alive = [], list(range(N))
    for kept in run.sets[1:]:  # what it chose, as the reference counts it
        there = kept.kept.tolist()
        decisions.append(slow.Decision(kept.layer, [alive.index(i) for i in there], None))
        alive = there
    written = embeds
    for token in new:
        expected = slow.masked_run(decoder, written, FIRST, decisions, N)[-1]
        torch.testing.assert_close(last[0, 0], expected, atol=1e-9, rtol=0)
        written = torch.cat([written, token[None]])
        last = run.step(token[None, None])
    packed = LayerwiseRun(decoder, plan, VISUAL, FIRST + N)
    assert (packed.prefill(embeds[None]) - first).abs().max() > 0.01


@pytest.mark.parametrize("kind", list(KINDS))
@torch.inference_mode()
def test_rows_of_attention_are_those_of_the_whole_matrix(kind: str) -> None:
    decoder, states = make(kind), prompt()
    cache_run = LayerwiseRun(decoder, plan_for("fastv", N), VISUAL, FIRST + N)
    cache_run.prefill(states[None])
    after = slow.through(
        decoder,
        decoder.layers[0],
        states,
        torch.arange(len(states)),
        torch.ones(len(states), len(states)).tril().bool(),
    )
    turns = decoder.rotary_emb(states[None], position_ids=torch.arange(len(states))[None])
    inputs = states[VISUAL], states[FIRST + N :]
    reading = LayerReading(
        decoder, cache_run.cache, 1, states[None], after[None], VISUAL, FIRST + N, inputs, turns
    )
    positions = torch.arange(len(states))
    for ahead in (False, True):
        layer, given = decoder.layers[int(ahead)], after if ahead else states
        whole = slow.attention_matrix(decoder, layer, given, positions).float()
        rows = [len(states) - 1, 0, FIRST + 20]
        got = reading.attention(rows, ahead)
        assert got.dtype == torch.float32 and got.shape == (4, 3, len(states))
        torch.testing.assert_close(got, whole[:, rows], atol=1e-5, rtol=0)
        # The reference itself is what the stock layer does.
        stock = stock_attention(decoder, layer, given)
        torch.testing.assert_close(whole, stock, atol=1e-5, rtol=0)
    keys = slow.key_matrix(decoder, decoder.layers[0], states, positions).float()
    torch.testing.assert_close(reading.keys(), keys, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(reading.normed(), decoder.norm(after))
    assert torch.equal(reading.hidden[reading.text], after[FIRST + N :])


def stock_attention(decoder: Any, layer: Any, states: Tensor) -> Tensor:
    """(heads, T, T) what the stock attention module returns on its slow path."""
    turns = decoder.rotary_emb(states[None], position_ids=torch.arange(len(states))[None])
    later = torch.ones(len(states), len(states)).triu(1).bool()
    mask = torch.zeros(len(states), len(states), dtype=states.dtype)
    mask = mask.masked_fill(later, torch.finfo(states.dtype).min)
    decoder.set_attn_implementation("eager")
    try:
        weights = layer.self_attn(
            hidden_states=layer.input_layernorm(states[None]),
            position_embeddings=turns,
            attention_mask=mask[None, None],
        )[1]
    finally:
        decoder.set_attn_implementation("sdpa")
    return weights[0].float()


@pytest.mark.parametrize("name", INSIDE)
@torch.inference_mode()
def test_either_attention_path_gives_the_same(name: str) -> None:
    decoder, embeds = make(), prompt(2)
    states = []
    for path in ("sdpa", "eager"):
        decoder.set_attn_implementation(path)
        run = LayerwiseRun(decoder, plan_for(name, 30), VISUAL, FIRST + N)
        prefilled = run.prefill(embeds[None])
        states.append(torch.cat([prefilled, run.step(embeds[None, :1])]))
    torch.testing.assert_close(states[0], states[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", INSIDE)
@torch.inference_mode()
def test_only_the_rows_that_a_method_reads_are_projected(name: str) -> None:
    decoder, embeds = make(), prompt()
    queries: list[tuple[int, int]] = []
    keys: list[tuple[int, int]] = []
    for index, layer in enumerate(decoder.layers):
        for projection, seen in (("q_proj", queries), ("k_proj", keys)):
            getattr(layer.self_attn, projection).register_forward_hook(
                lambda module, given, out, index=index, seen=seen: seen.append(
                    (index, given[0].shape[1])
                )
            )
    plan = plan_for(name, 30)
    LayerwiseRun(decoder, plan, VISUAL, FIRST + N).prefill(embeds[None])
    counts = [FIRST + TEXT + count for count in plan.per_layer]
    whole = list(enumerate(counts))
    words = len(raters(embeds[VISUAL], embeds[FIRST + N :]))
    assert 0 < words < TEXT
    places = [stop.layer for stop in plan.stops]
    read = {  # which queries besides: of the layer that ran, or of the one that comes
        "fastv": [(place - 1, 1) for place in places],
        "pyramiddrop": [(place, 1) for place in places],
        "sparsevlm": [(place - 1, words) for place in places],
        "sparsevlm-plus": [(place - 1, words) for place in places],
        "dart": [],
        "v2drop": [],
    }
    assert sorted(queries) == sorted([*whole, *read[name]])
    # Keys are in the cache, but for those of the layer that comes.
    ahead = [(place, counts[place - 1]) for place in places] if name == "pyramiddrop" else []
    assert sorted(keys) == sorted([*whole, *ahead])


@torch.inference_mode()
def test_merged_rows_tell_what_they_are_made_of(decoder: Any) -> None:
    plan = plan_for("sparsevlm", 25)
    run = LayerwiseRun(decoder, plan, VISUAL, FIRST + N)
    embeds = prompt(1)
    run.prefill(embeds[None])
    decisions = slow.decide(decoder, embeds, FIRST, plan)
    made_of = torch.eye(N, dtype=torch.float64)
    for found, decision, stop in zip(run.sets[1:], decisions, plan.stops, strict=True):
        assert decision.merge is not None and found.sources is not None
        made_of = torch.cat([made_of[decision.kept], decision.merge @ made_of])
        assert len(found) == stop.keep + stop.merged == len(made_of)
        merged = [i for i, row in enumerate(made_of) if row.max() < 0.999]
        torch.testing.assert_close(
            found.sources, made_of[-len(found.sources) :].float(), atol=1e-6, rtol=0
        )
        assert len(found.sources) >= len(merged)
        torch.testing.assert_close(
            found.sources.sum(dim=1), torch.ones(len(found.sources)), atol=1e-4, rtol=0
        )
        assert not found.sources[:, found.kept].any()  # nothing is both kept and merged


def test_decoders_it_cannot_run_are_refused() -> None:
    small: Any = {
        "vocab_size": 11,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    windowed = MistralModel(MistralConfig(**small, sliding_window=8))
    with pytest.raises(ModelError, match="sliding-window"):
        LayerwiseRun(windowed, plan_for("fastv", 40, depth=2), VISUAL, FIRST + N)
    for kind in ("qwen3", "phi3", "gpt_neox", "cohere"):  # norms, names, rotary of their own
        other = AutoModel.from_config(AutoConfig.for_model(kind, **small, pad_token_id=0))
        with pytest.raises(ModelError, match=f"'{kind}', cannot be read"):
            LayerwiseRun(other, plan_for("fastv", 40, depth=2), VISUAL, FIRST + N)


# Through the model, as the page and the command line use it.


@pytest.fixture(scope="module")
def view(deep_model: LlavaModel, photo: Image.Image) -> View:
    return deep_model.encode(photo, "What colour is the circle?")


def sets_at(answer: Answer, layer: int) -> LayerSet:
    """What a layer got, in an answer that knows it."""
    found = answer.set_at(layer)
    assert found is not None
    return found


@pytest.mark.parametrize("name", INSIDE)
def test_keeping_everything_is_the_unpruned_model(
    deep_model: LlavaModel, view: View, name: str
) -> None:
    plan = PRUNERS[name].plan(view, 16)  # type: ignore[attr-defined]
    whole = deep_model.answer(view, None, max_new_tokens=24)
    same = deep_model.answer(view, plan, max_new_tokens=24)
    assert same.token_ids == whole.token_ids and same.text == whole.text
    torch.testing.assert_close(same.first_logits, whole.first_logits, atol=1e-6, rtol=0)
    assert same.kept_per_layer == whole.kept_per_layer == (16,) * 6
    assert same.kv_cache_bytes == whole.kv_cache_bytes
    assert [sets_at(same, layer).kept.tolist() for layer in range(6)] == [list(range(16))] * 6
    assert whole.layer_sets == () and whole.set_at(0) is None


@pytest.mark.parametrize("name", INSIDE)
def test_the_cache_holds_what_the_schedule_says(
    deep_model: LlavaModel, view: View, name: str
) -> None:
    plan = PRUNERS[name].plan(view, 9)  # type: ignore[attr-defined]
    answer = deep_model.answer(view, plan, max_new_tokens=5)
    assert answer.kept_per_layer == plan.per_layer
    assert answer.visual_tokens == 16 and answer.prompt_tokens == view.input_ids.shape[1]
    text = deep_model.hf.config.text_config
    head = text.hidden_size // text.num_attention_heads
    per_token = 2 * text.num_key_value_heads * head * 4  # float32
    around = view.input_ids.shape[1] - 16
    assert answer.kv_cache_bytes == sum(around + count for count in plan.per_layer) * per_token
    assert answer.average_visual_tokens == plan.average
    before = list(range(16))
    assert sets_at(answer, 0).kept.tolist() == before
    for layer, count in enumerate(plan.per_layer):
        found = sets_at(answer, layer)
        assert len(found) == count
        assert not found.kept.is_inference()
        now = found.kept.tolist()
        assert now == sorted(now) and set(now) <= set(before)
        before = now


@pytest.mark.parametrize("name", INSIDE)
def test_an_answer_under_a_plan_is_the_slow_model_word_by_word(
    deep_model: LlavaModel, view: View, name: str
) -> None:
    plan = PRUNERS[name].plan(view, 10)  # type: ignore[attr-defined]
    answer = deep_model.answer(view, plan, max_new_tokens=6)
    hf = deep_model.hf
    ids = view.input_ids[0]
    image = ids == hf.config.image_token_id
    with torch.inference_mode():
        embeds = hf.get_input_embeddings()(ids).clone()
        embeds[image] = view.tokens.features
        first = int(image.nonzero()[0])
        decoder: Any = hf.model.language_model
        decisions = slow.decide(decoder, embeds, first, plan)
        written = hf.get_input_embeddings()(torch.tensor(answer.token_ids))
        for count, token in enumerate(answer.token_ids):
            states = slow.shortened_run(
                decoder, embeds, first, plan, decisions, written[:count] if count else None
            )
            assert int(hf.lm_head(states[-1]).argmax()) == token
    pieces = deep_model.stream(view, plan, max_new_tokens=6)
    assert "".join(pieces) == answer.text


def test_a_plan_for_something_else_is_refused_at_once(
    deep_model: LlavaModel, tiny_model: LlavaModel, view: View
) -> None:
    plan = PRUNERS["fastv"].plan(view, 9)  # type: ignore[attr-defined]
    for wrong in (dataclasses.replace(plan, n=15), dataclasses.replace(plan, depth=5)):
        with pytest.raises(ValueError, match=r"16 in 6.*plan\(view, budget\)"):
            deep_model.stream(view, wrong)


@pytest.mark.parametrize("name", INSIDE)
def test_half_precision_runs(name: str) -> None:
    decoder = make(dtype=torch.bfloat16)
    run = LayerwiseRun(decoder, plan_for(name, 30), VISUAL, FIRST + N)
    with torch.inference_mode():
        last = run.prefill(prompt()[None].bfloat16())
    assert last.dtype == torch.bfloat16 and last.isfinite().all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
@pytest.mark.parametrize("name", INSIDE)
def test_a_gpu_keeps_the_same_tokens(name: str) -> None:
    plan, embeds = plan_for(name, 30), prompt(3)
    runs = []
    for device in ("cpu", "cuda"):
        run = LayerwiseRun(make().to(device), plan, VISUAL, FIRST + N)
        with torch.inference_mode():
            run.prefill(embeds[None].to(device))
        runs.append([found.kept.tolist() for found in run.sets])
    assert runs[0] == runs[1]
