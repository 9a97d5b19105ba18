"""Evening out finds what speaks for or against what is not named, and takes just that away."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import LlamaConfig, LlamaModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from spare_demo.scenes.training import attention_balance, patches
from spare_demo.scenes.world import Scene, Thing

WIDTH, HEADS = 96, 3
NUMBER = {value: at for at, value in enumerate(attention_balance.VALUES)}


@pytest.fixture
def decoder() -> LlamaModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=3, vocab_size=16,
            num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=2048,
        )  # fmt: skip
        model = LlamaModel(config).eval()
        for layer in model.layers:
            for weight in (layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight):
                weight.data.normal_(0, 0.2)
    return model


@pytest.fixture
def lines() -> tuple[torch.Tensor, torch.Tensor]:
    """What each value adds to a patch, and each word to a token: (26, width), at right angles."""
    rng = torch.Generator().manual_seed(1)
    vectors = torch.linalg.qr(torch.randn(WIDTH, 52, generator=rng))[0].T
    return 4 * vectors[:26], 4 * vectors[26:]


def shown(
    lines: tuple[torch.Tensor, torch.Tensor], noise: float = 0.1
) -> attention_balance.Measure:
    """A measure that has seen things of every colour, shape and number, and heard every word."""
    rng = torch.Generator().manual_seed(2)
    things, words = lines
    targets = torch.zeros(3000, 5, dtype=torch.long)
    targets[:2000, 0] = torch.randint(1, 9, (2000,), generator=rng)
    targets[:2000, 1] = torch.randint(1, 9, (2000,), generator=rng)
    targets[:2000, 2] = torch.randint(0, 20, (2000,), generator=rng)
    targets[:50, 0] = patches._NAMELESS
    ground = torch.randn(WIDTH, generator=rng)
    states = ground + attention_balance.values_of(targets) @ things
    measure = attention_balance.Measure(WIDTH)
    measure.look(states + noise * torch.randn(states.shape, generator=rng), targets)
    named = torch.rand(2000, 26, generator=rng) < 0.05
    last = torch.arange(2000) % 4 == 0
    tokens = torch.where(last[:, None], 1.0, 0.5) * (named.float() @ words)
    measure.listen(tokens + noise * torch.randn(tokens.shape, generator=rng), named, last)
    return measure


def test_what_a_question_names() -> None:
    def names(text: str) -> set[str]:
        return {
            v
            for v, there in zip(
                attention_balance.VALUES, attention_balance.named_values(text), strict=True
            )
            if there
        }

    assert names("How many red squares are above row 7?") == {"red", "square"}
    assert names("Where is the cross with the number 7?") == {"cross", "7"}
    assert names("How many crosses") == {"cross"}
    assert names("What colour is the largest object?") == set()


def test_what_lies_at_a_patch() -> None:
    things = (
        Thing("red", "star", 100, 100, 90, number="0"),
        Thing("", "cross", 250, 100, 60, word="CAT", tint=(1, 2, 3)),
    )
    targets = torch.from_numpy(patches.patch_targets(Scene(336, "plain", 0, things)))
    found = {tuple(row.nonzero()[:, 0].tolist()) for row in attention_balance.values_of(targets)}
    star = NUMBER["red"], NUMBER["star"], NUMBER["0"]
    assert found == {(), star, (NUMBER["cross"],)}


def test_scores_of_a_shape_with_colours_and_numbers_are_not_held() -> None:
    held = attention_balance.held()
    assert torch.equal(held, held.T)
    for one, other, stays in (
        ("red", "blue", True), ("star", "cross", True), ("3", "4", True), ("red", "3", True),
        ("red", "star", False), ("3", "star", False),
    ):  # fmt: skip
        assert held[NUMBER[one], NUMBER[other]] == stays


def test_least_squares_bit_by_bit() -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(400, n, generator=rng).double() for n in (7, 3))
    weight = torch.rand(400, generator=rng).double()
    fit = attention_balance._Fit(7, 3)
    for part in torch.arange(400).split(150):
        fit.add(x[part], y[part], weight[part])
    root = weight.sqrt()[:, None]
    expected = torch.linalg.lstsq(root * x, root * y).solution
    torch.testing.assert_close(fit.solved().double(), expected, atol=1e-4, rtol=1e-3)
    # Where nothing is to be answered on states of that spread, answers grow small there.
    heavy = torch.zeros(7, 7, dtype=torch.float64)
    heavy[0, 0] = 1e6
    assert fit.solved(heavy)[0].abs().max() < 1e-5


def test_it_measures_what_things_and_words_add(lines: tuple[torch.Tensor, torch.Tensor]) -> None:
    measure = shown(lines, noise=0.03)
    words, things = measure.adding()
    torch.testing.assert_close(words, lines[1], atol=0.06, rtol=0)
    kinds = lines[0].split([8, 8, 10])
    beside = torch.cat([kind - kind.mean(0) for kind in kinds])
    torch.testing.assert_close(things, beside, atol=0.06, rtol=0)
    _, read = measure.reading()
    off = lines[0] @ read - torch.eye(26)
    assert off.abs().max() < 0.1


@torch.no_grad()
def attention_scores(
    decoder: LlamaModel, layer: int, words: torch.Tensor, things: torch.Tensor, at: int
) -> torch.Tensor:
    """(heads, 26, 26) before softmax, in float64: tokens behind a picture, a patch at a place."""
    attention = copy.deepcopy(decoder.layers[layer].self_attn).double()
    rotated = []
    for states, project, place in (
        (words, attention.q_proj, 24 * 24 + 8),
        (things, attention.k_proj, at),
    ):
        found = project(states.double()).view(len(states), 1, HEADS, -1).transpose(1, 2)
        cos, sin = decoder.rotary_emb(found, torch.full((len(states), 1), place))
        rotated.append(apply_rotary_pos_emb(found, found, cos, sin)[0][:, :, 0])
    return torch.einsum("qhd,khd->hqk", *rotated) * attention.scaling


def test_it_changes_the_scores_it_should_and_holds_the_others(
    decoder: LlamaModel, lines: tuple[torch.Tensor, torch.Tensor]
) -> None:
    before = copy.deepcopy(decoder)
    balance = attention_balance.AttentionBalance(WIDTH, HEADS)
    balance.begin(decoder, [shown(lines) for _ in attention_balance.LAYERS])
    things, words = lines
    things = torch.cat([kind - kind.mean(0) for kind in things.split([8, 8, 10])])
    held = attention_balance.held()
    for layer in attention_balance.LAYERS:
        old, new = (
            attention_scores(model, layer, words, things, 24 * 5) for model in (before, decoder)
        )
        assert new[:, ~held].square().mean() < 0.4 * old[:, ~held].square().mean()
        assert (new - old)[:, held].square().mean() < 0.15 * old[:, held].square().mean()
    # Nothing else is touched.
    same = before.state_dict()
    changed = {name for name, value in decoder.state_dict().items() if (value != same[name]).any()}
    assert changed == {
        f"layers.{layer}.self_attn.{part}_proj.weight"
        for layer in attention_balance.LAYERS
        for part in "qk"
    }


def test_the_loss_is_how_far_scores_are_off(
    decoder: LlamaModel, lines: tuple[torch.Tensor, torch.Tensor]
) -> None:
    things, words = lines
    balance = attention_balance.AttentionBalance(WIDTH, HEADS)
    balance.words[:], balance.things[:] = words, things
    balance.goals.normal_(generator=torch.Generator().manual_seed(3))
    expected = 0.0
    for at, layer in enumerate(attention_balance.LAYERS):
        scores = [attention_scores(decoder, layer, words, things, 24 * row) for row in range(24)]
        off = (torch.stack(scores) - balance.goals[at]).square()
        expected += float(off.mean((0, 2, 3)).sum())
    loss = balance(decoder)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    loss.backward()
    for index, layer in enumerate(decoder.layers):
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            assert (part.weight.grad is not None) == (index in attention_balance.LAYERS)
