"""VScan as a whole against slow references, and what entering merged rows means elsewhere."""

from __future__ import annotations

import csv
import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import layer_references as slow
import numpy as np
import pytest
import torch
from drawn_tokens import vscan_tokens
from method_references import vscan
from PIL import Image
from stock import stock
from torch import Tensor
from transformers import LlamaConfig, LlamaModel

from spare_demo import PRUNERS, Selection, VisualTokens, compare
from spare_demo.cli import compare as compare_command
from spare_demo.cli import main as program
from spare_demo.comparison.result import Result
from spare_demo.models import LlavaModel, View
from spare_demo.models.generate.layerwise import LayerwiseRun
from spare_demo.pruners.by_hand import PlanByHand
from spare_demo.pruners.inside.sparsevlm import SparseVLM
from spare_demo.pruners.inside.vscan import VScanWhole
from spare_demo.pruners.plan import LayerPlan, LayerSet, Stop
from spare_demo.pruners.vscan import VScan
from spare_demo.results.drawings import cells, drawings
from spare_demo.results.io import read_result, write_result

SIDE, N, WIDTH, FIRST, TEXT, DEPTH = 8, 64, 32, 3, 9, 8
QUESTION = "What colour is the circle?"


def asked(tokens: VisualTokens, layers: int = DEPTH) -> SimpleNamespace:
    """What a plan is made for."""
    return SimpleNamespace(tokens=tokens, layers=layers)


@pytest.fixture(scope="module")
def decoder() -> Any:
    """A random Llama in float64 whose attention is far from flat."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        config = LlamaConfig(
            vocab_size=11,
            hidden_size=WIDTH,
            intermediate_size=48,
            num_hidden_layers=DEPTH,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
        )
        model = LlamaModel(config)
        for parameter in model.layers.parameters():
            if parameter.ndim == 2:
                parameter.data *= 8
    return model.double().eval()


def whole_run(
    decoder: Any, embeds: Tensor, entering: int, keep: int, written: Tensor
) -> tuple[Tensor, list[int]]:
    """The last normed state, and which of the rows that entered stay from the middle on.

    embeds: (T, d) the prompt with the rows that enter; written: (e, d) tokens after it, which take
    no part in the choice.
    """
    hidden = torch.cat([embeds, written])
    for index in range(DEPTH // 2):
        hidden = _stock(decoder, index, hidden)
    asking = len(embeds) - 1
    positions = torch.arange(len(hidden))
    attention = slow.attention_matrix(decoder, decoder.layers[DEPTH // 2], hidden, positions)
    scores = attention.mean(dim=0)[asking, FIRST : FIRST + entering]
    stay = sorted(slow.top(scores, keep))
    rows = [*range(FIRST), *(FIRST + i for i in stay), *range(FIRST + entering, len(hidden))]
    hidden = hidden[rows]
    for index in range(DEPTH // 2, DEPTH):
        hidden = _stock(decoder, index, hidden)
    return decoder.norm(hidden)[-1], stay


def _stock(decoder: Any, index: int, hidden: Tensor) -> Tensor:
    """One stock layer at positions 0, 1, 2, …"""
    causal = torch.ones(len(hidden), len(hidden)).tril().bool()
    places = torch.arange(len(hidden))
    return slow.through(decoder, decoder.layers[index], hidden, places, causal)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("budget", [2, 11, 24, 42, 50, 63])
@torch.inference_mode()
def test_it_is_the_reference(decoder: Any, budget: int, seed: int) -> None:
    tokens, x, attention = vscan_tokens(SIDE, seed, width=WIDTH)
    entering = min(N, 3 * budget // 2)
    keep = 2 * budget - entering  # the depth is even
    picks, merged, parts = vscan(x, *attention, SIDE, entering)
    random = torch.Generator().manual_seed(seed)
    text = torch.randn(FIRST + TEXT + 3, WIDTH, generator=random, dtype=torch.float64)
    rows = torch.from_numpy(merged)
    embeds = torch.cat([text[:FIRST], rows, text[FIRST : FIRST + TEXT]])
    written = text[FIRST + TEXT :]

    plan = VScanWhole().plan(asked(tokens), budget)
    assert plan.stops == (Stop(DEPTH // 2, keep),)
    if entering == N:
        assert plan.entering is None
        given = tokens.features
    else:
        assert plan.entering.order.tolist() == picks
        given = plan.entering.features
    np.testing.assert_allclose(given.numpy(), merged, atol=1e-12)

    visual = torch.arange(FIRST, FIRST + entering)
    run = LayerwiseRun(decoder, plan, visual, FIRST + entering)
    last = run.prefill(torch.cat([text[:FIRST], given, text[FIRST : FIRST + TEXT]])[None])
    expected, stay = whole_run(decoder, embeds, entering, keep, written[:0])
    torch.testing.assert_close(last[0, 0], expected, atol=1e-6, rtol=0)
    for count in range(1, 4):
        last = run.step(written[None, count - 1 : count])
        expected, again = whole_run(decoder, embeds, entering, keep, written[:count])
        assert again == stay
        torch.testing.assert_close(last[0, 0], expected, atol=1e-6, rtol=0)

    kept = sorted(picks)
    first, second = run.sets
    assert (first.layer, second.layer) == (0, DEPTH // 2)
    assert first.kept.tolist() == kept and second.kept.tolist() == [kept[i] for i in stay]
    for found, members in ((first, parts), (second, parts[stay])):
        mixed = members[members.sum(axis=1) > 1]
        if len(mixed):
            assert found.grown
            shares = mixed / mixed.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(found.sources.numpy(), shares, atol=1e-6)
        else:
            assert found.sources is None and not found.grown
        assert len(found) == len(members)
        others = members.any(axis=0)
        others[found.kept] = False
        assert found.merged.tolist() == others.nonzero()[0].tolist()
    lengths = [run.cache.get_seq_length(layer) for layer in range(DEPTH)]
    assert lengths == [FIRST + TEXT + 3 + count for count in plan.per_layer]


def test_the_readmes_budget_and_its_neighbours() -> None:
    tokens, _, _ = vscan_tokens(24, 0)

    def schedule(budget: int) -> tuple[int, tuple[Stop, ...], float]:
        plan = VScanWhole().plan(asked(tokens, 32), budget)
        return plan.enters, plan.stops, plan.average

    assert schedule(64) == (96, (Stop(16, 32),), 64)
    assert schedule(1) == (1, (), 1)
    assert schedule(2) == (3, (Stop(16, 1),), 2)
    assert schedule(383) == (574, (Stop(16, 192),), 383)
    assert schedule(384) == (576, (Stop(16, 192),), 384)
    assert schedule(500) == (576, (Stop(16, 424),), 500)
    assert schedule(576) == (576, (), 576)


def test_what_cannot_enter_a_schedule_is_refused() -> None:
    tokens, _, _ = vscan_tokens(SIDE, 1)
    plan = VScanWhole().plan(asked(tokens), 20)
    entering = plan.entering
    biased = VScan(size_bias="log").select(tokens, 30)
    unknown = dataclasses.replace(entering, sources=None)
    free = dataclasses.replace(entering, sources=entering.sources.flip(0))
    for wrong, sentence in (
        (Selection([64]), "numbered 0 to 63"),
        (biased, "has no bias for rows. Leave size_bias at none"),
        (unknown, "grew from one of the picks"),
        (free, "grew from one of the picks"),
    ):
        with pytest.raises(ValueError, match=sentence):
            dataclasses.replace(plan, entering=wrong)
    with pytest.raises(ValueError, match="cannot be merged again"):
        LayerPlan(SparseVLM(), N, DEPTH, 20, (Stop(3, 5, 1),), entering)
    with pytest.raises(ValueError, match=r"'vscan-whole' cannot run here: .*no class token"):
        VScanWhole().plan(asked(VisualTokens(torch.ones(N, 2))), 20)
    with pytest.raises(ValueError, match=r"'vscan-whole' cannot run here: .*2 blocks"):
        VScanWhole().plan(asked(dataclasses.replace(tokens, tower_blocks=2)), 20)
    with pytest.raises(ValueError, match="more than 1 layer, and this one has 1"):
        VScanWhole().plan(asked(tokens, 1), 20)


# Through a model.


@pytest.fixture(scope="module")
def view(deep_model: LlavaModel, photo: Image.Image) -> View:
    return deep_model.encode(photo, QUESTION)


def test_a_budget_of_all_tokens_is_stock_generate(deep_model: LlavaModel, view: View) -> None:
    answer = deep_model.answer(view, VScanWhole().plan(view, 16), max_new_tokens=12)
    expected = stock(deep_model, 12, input_ids=view.input_ids, pixel_values=view.pixel_values)
    assert list(answer.token_ids) == expected.sequences[0, view.input_ids.shape[1] :].tolist()
    assert answer.kept_per_layer == (16,) * 6


@pytest.mark.parametrize("positions", ["compact", "original"])
@pytest.mark.parametrize("count", [1, 6, 13])
def test_rows_that_enter_and_stay_are_those_of_a_selection(
    deep_model: LlavaModel, view: View, count: int, positions: Any
) -> None:
    """Without a stop a plan with an entering set is the answer with that set."""
    entering = VScan().select(view.tokens, count)
    plan = LayerPlan(VScanWhole(), 16, 6, count, (), entering)
    ours = deep_model.answer(view, plan, 8, positions)
    theirs = deep_model.answer(view, entering, 8, positions)
    assert ours.token_ids == theirs.token_ids
    torch.testing.assert_close(ours.first_logits, theirs.first_logits, atol=1e-5, rtol=0)
    for name in ("kept_per_layer", "prompt_tokens", "visual_tokens", "kv_cache_bytes"):
        assert getattr(ours, name) == getattr(theirs, name)
    plain = Selection([9, 2, 5])  # picks as they are can enter, too
    ours = deep_model.answer(view, dataclasses.replace(plan, entering=plain), 8, positions)
    assert ours.token_ids == deep_model.answer(view, plain, 8, positions).token_ids
    (only,) = ours.layer_sets
    assert only.kept.tolist() == [2, 5, 9] and only.sources is None


def test_costs_are_those_of_the_rows_that_each_layer_got(
    deep_model: LlavaModel, view: View
) -> None:
    plan = VScanWhole().plan(view, 8)
    assert plan.per_layer == (12, 12, 12, 4, 4, 4)
    answer = deep_model.answer(view, plan, max_new_tokens=5)
    text = view.input_ids.shape[1] - 16
    assert answer.kept_per_layer == plan.per_layer and answer.average_visual_tokens == 8
    assert (answer.visual_tokens, answer.prompt_tokens) == (12, text + 12)
    twelve = deep_model.answer(view, VScan().select(view.tokens, 12), max_new_tokens=1)
    four = deep_model.answer(view, VScan().select(view.tokens, 4), max_new_tokens=1)
    assert 2 * answer.kv_cache_bytes == twelve.kv_cache_bytes + four.kv_cache_bytes
    head = 2 * deep_model.hf.config.text_config.hidden_size * deep_model.hf.lm_head.out_features
    assert 2 * (answer.prefill_operations - head) == (
        twelve.prefill_operations + four.prefill_operations - 2 * head
    )
    scored = deep_model.score(view, plan, answer.token_ids)
    assert scored.log_probabilities == pytest.approx(answer.log_probabilities, abs=1e-5)
    (alone,) = deep_model.answer_many([(view, plan)], 5)
    assert alone.token_ids == answer.token_ids


# A result and its file.


@pytest.fixture(scope="module")
def result(deep_model: LlavaModel, photo: Image.Image) -> Result:
    return compare(deep_model, photo, QUESTION, ("vscan", "random", "vscan-whole"), 8, 3)


def test_a_saved_plan_says_what_entered(result: Result) -> None:
    written = write_result(result)
    data = json.loads(written)
    assert data["plans"]["vscan-whole"]["per_layer"] == [12, 12, 12, 4, 4, 4]
    stored = data["plans"]["vscan-whole"]["entering"]
    assert "features" not in stored and len(stored["order"]) == 12
    again = read_result(written).result.plans["vscan-whole"].entering
    entering = result.plans["vscan-whole"].entering
    assert again.order.tolist() == entering.order.tolist() == stored["order"]
    assert torch.equal(again.sources, entering.sources) and again.size == 12
    assert write_result(read_result(written).result) == written
    found = read_result(written).result.answers["vscan-whole"].layer_sets
    assert [len(layer_set) for layer_set in found] == [12, 4]
    stored["order"][0] = 16
    with pytest.raises(ValueError, match="damaged"):
        read_result(json.dumps(data))
    del data["plans"]["vscan-whole"]["entering"]  # a file from before plans had it
    assert read_result(json.dumps(data)).result.plans["vscan-whole"].entering is None
    assert result.select_seconds["vscan-whole"] > 0


def test_it_is_drawn_from_the_first_layer_on(result: Result) -> None:
    sentences = {drawn.name: drawn.display.sentence for drawn in drawings(result, ("kept",))}
    first, second = result.answers["vscan-whole"].layer_sets
    for layer, found in ((1, first), (4, second)):
        count, mixed, others = len(found.kept), found.merged_rows, len(found.merged)
        assert mixed and others
        assert sentences[f"kept-vscan-whole-from-layer-{layer}"] == (
            f"In layer {layer} of 6 VScan still has {count} of 16 tokens, {mixed} of them mixed "
            f"with {others} others."
        )
    by_title = {cell.title: cell for cell in cells(result)}
    assert torch.as_tensor(by_title["VScan"].kept).tolist() == second.kept.tolist()
    assert any("VScan averages the tokens" in note for note in result.notes)


def test_a_plan_by_hand_keeps_what_enters(deep_model: LlavaModel, view: View) -> None:
    plan = VScanWhole().plan(view, 8)
    assert PlanByHand(plan).plan(view, 3) is plan
    made = compare(deep_model, view.photo, QUESTION, {"mine": plan}, 3, 3)
    assert made.answers["mine"].kept_per_layer == plan.per_layer
    assert made.plans["mine"].entering is plan.entering and "mine" not in made.select_seconds


def test_grown_rows_are_counted_once() -> None:
    shares = torch.tensor([[0.5, 0, 0, 0.5]])
    grown = LayerSet(0, torch.tensor([0, 2]), shares, True)
    assert len(grown) == 2 and grown.merged_rows == 1 and grown.merged.tolist() == [3]


def test_the_command_line_compares_and_repeats_it(
    deep_model: LlavaModel,
    photo_file: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(compare_command, "load_model", lambda name, device, **_: deep_model)
    out = tmp_path / "out"
    argv = ["compare", photo_file, QUESTION, "--methods", "vscan-whole", "spare", "--budget", "8"]
    assert program.main([*argv, "--max-new-tokens", "2", "--out", str(out)]) == 0
    file = out / "result.json"
    assert json.loads(file.read_text())["plans"]["vscan-whole"]["per_layer"][0] == 12
    capsys.readouterr()
    again = ["compare", "--from", str(file), "--again", "--out", str(tmp_path / "again")]
    assert program.main(again) == 0
    assert "The same tokens and answers as in the file." in capsys.readouterr().out


def test_evaluate_measures_it(
    deep_model: LlavaModel, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spare_demo.cli.evaluate.load_model", lambda *_, **__: deep_model)
    argv = ["evaluate", "--out", str(tmp_path / "runs"), "--methods", "vscan-whole", "vscan"]
    more = ["--questions", "2", "--budgets", "1", "5", "--resamples", "9"]
    assert program.main([*argv, *more]) == 0
    with (tmp_path / "runs/results.csv").open(newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["method"] == "vscan-whole"]
    assert sorted(row["budget"] for row in measured) == ["1", "1", "5", "5"]
    assert {row["error"] for row in measured} == {"nan"}
    assert PRUNERS["vscan-whole"].lowest(16, 6) == 1
