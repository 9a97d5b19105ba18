"""Stirring moves things along the differences between shapes or colours, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spare_demo.scenes.training import patches
from spare_demo.scenes.training.feature_noise import FeatureNoise, amounts
from spare_demo.scenes.world import Scene, Thing, World, rng_of, sample_scene

WIDTH = 24
KINDS = {"colour": slice(0, 8), "shape": slice(8, 16)}


@pytest.mark.parametrize("noisy", KINDS)
def test_a_thing_is_moved_as_one_and_plain_ground_is_not(noisy: str) -> None:
    moved = []
    for seed in range(20):
        rng = rng_of("train", seed)
        scene = sample_scene(World(), rng)
        moves = amounts(scene, rng, noisy)
        there = patches.thing_at_each_patch(scene).reshape(-1)
        assert moves.shape == (len(there), 16)
        assert not moves[there == 0].any()
        for index in range(1, 1 + len(scene.things)):
            mine = moves[there == index]
            if len(mine):
                assert (mine == mine[0]).all()
                moved.append(mine[0])
    ways = np.array(moved)
    assert not np.delete(ways, KINDS[noisy], 1).any()
    ways = ways[:, KINDS[noisy]]
    assert len(np.unique(ways, axis=0)) == len(ways)  # each by amounts of its own
    assert ways.std(0) == pytest.approx(np.full(8, 1.6), rel=0.25)
    assert abs(ways.mean()) < 0.3


def test_the_same_random_numbers_move_it_the_same_way() -> None:
    star = Scene(336, "plain", 0, (Thing("red", "star", 100, 100, 60),))
    one, same, other = (amounts(star, rng_of("train", seed), "shape") for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert not amounts(star, rng_of("train", 1), None).any()


def shown(seed: int, patches_: int) -> tuple[torch.Tensor, torch.Tensor]:
    """States of no meaning, and their targets: in a row colour by colour and shape by shape."""
    rng = torch.Generator().manual_seed(seed)
    targets = torch.zeros(1, patches_, 5, dtype=torch.long)
    targets[..., 0] = torch.arange(patches_) % 9
    targets[..., 1] = torch.arange(patches_) // 9 % 9
    targets[0, :20, :2] = -100  # without a name
    return torch.randn(1, patches_, WIDTH, generator=rng), targets


def test_states_move_along_the_distances_from_the_mean_of_a_kind() -> None:
    states, targets = shown(0, 300)
    stir, still = FeatureNoise(WIDTH), torch.zeros(1, 300, 16)
    assert torch.equal(stir(states, targets, still), states)
    stir.eval()
    moves = torch.randn(still.shape, generator=torch.Generator().manual_seed(1))
    wide, ways = states.double(), []
    for at in (0, 1):
        means = torch.stack([wide[targets[..., at] == c].mean(0) for c in range(1, 9)])
        ways.append(means - means.mean(0))
    expected = wide + torch.einsum("bns,sw->bnw", moves.double(), torch.cat(ways))
    torch.testing.assert_close(stir(states, targets, moves), expected.float(), atol=1e-4, rtol=1e-4)


def test_what_is_seen_is_averaged_over_many_batches() -> None:
    lines = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(0))
    stir = FeatureNoise(WIDTH)
    for seed in range(200):
        states, targets = shown(seed, 45)
        named = targets[..., 0] > 0
        states[named] += lines[targets[..., 0][named] - 1]
        stir(states, targets, torch.zeros(1, 45, 16))
    off = (stir.means[:8] - lines).square().mean().sqrt()
    assert off < 0.25  # one batch alone: about 0.6


def test_what_is_not_there_stays_as_it_was() -> None:
    states, targets = shown(0, 300)
    stir, still = FeatureNoise(WIDTH), torch.zeros(1, 300, 16)
    stir(states, targets, still)
    before = stir.means.clone()
    stir.eval()
    stir(states + 5, targets, still)
    assert torch.equal(stir.means, before)  # nothing is learnt but in training
    stir.train()
    stir(states + 5, torch.where(targets == 3, 3, 0), still)
    changed = (stir.means != before).any(1).nonzero().flatten()
    assert changed.tolist() == [2, 10]
