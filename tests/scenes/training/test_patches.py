"""What is asked of every patch, and that nothing is asked of pairs which training keeps back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from spare_demo.scenes.draw import thing_at_each_pixel
from spare_demo.scenes.training import patches
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.world import (
    COLOURS,
    SHAPES,
    WORDS,
    Scene,
    Thing,
    World,
    rng_of,
    sample_scene,
)

WIDTH = 24


def test_targets_say_what_lies_at_each_patch_centre() -> None:
    colours, shapes = list(COLOURS), list(SHAPES)
    for seed in range(12):
        scene = sample_scene(World(), rng_of("train", seed))
        targets = patches.patch_targets(scene).reshape(GRID, GRID, 5)
        seen = thing_at_each_pixel(scene)
        for row in range(GRID):
            for column in range(GRID):
                place = int(seen[row * PATCH + PATCH // 2, column * PATCH + PATCH // 2])
                colour, shape, printed, size, centre = targets[row, column].tolist()
                if place == 0:
                    assert targets[row, column].tolist() == [0, 0, 0, 0, 0]
                    continue
                thing = scene.things[place - 1]
                assert (colours[colour - 1], shapes[shape - 1]) == (thing.colour, thing.shape)
                prints = [None, *map(str, range(10)), *WORDS]
                assert prints[printed] == thing.print
                assert 1 <= size < patches.CLASSES["size"]
                middle = int(thing.y) // PATCH == row and int(thing.x) // PATCH == column
                assert centre == middle


def test_what_has_no_name_is_asked_for_everything_but_its_name() -> None:
    lump = Thing("", "", 100, 100, 60, number="3", tint=(240, 120, 200), blob=5)
    targets = patches.patch_targets(Scene(336, "plain", 0, (lump,)))
    middle = targets[7 * GRID + 7].tolist()
    assert middle == [-100, -100, 4, 3, 1]


def asked_of(scene: Scene) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """States of no meaning, targets and places of the patches of one scene."""
    targets = torch.from_numpy(patches.patch_targets(scene))[None]
    rng = torch.Generator().manual_seed(0)
    return torch.randn(1, GRID * GRID, WIDTH, generator=rng), targets, torch.arange(GRID**2)[None]


def reference(heads: patches.PatchHeads, states, targets, windows) -> float:
    """The loss by its definition: patch by patch, property by property, in float64."""
    double = heads.double()
    rows = double.norm(states[0].double())
    logits, told = double.heads(rows), double.place(rows)
    total = weights = 0.0
    for i, target in enumerate(targets[0].tolist()):
        weight = 1.0 if target[0] else 0.05
        own, loss = dict(zip(patches.CLASSES, target, strict=True)), 0.0
        start = 0
        for name, count in patches.CLASSES.items():
            mine = logits[i, start : start + count].clone()
            start += count
            if own[name] >= 0:
                loss += F.cross_entropy(mine[None], torch.tensor([own[name]])).item()
        at = torch.tensor([windows[0, i] // GRID, windows[0, i] % GRID]) / (GRID / 2) - 1
        loss += 4 * (told[i] - at).abs().mean().item()
        total, weights = total + weight * loss, weights + weight
    return total / weights


@pytest.mark.parametrize("world", [World(), World(tint_share=0.4, blob_share=0.4)])
@torch.no_grad()
def test_the_loss_is_what_its_definition_says(world: World) -> None:
    torch.manual_seed(0)
    heads = patches.PatchHeads(WIDTH)
    given = asked_of(sample_scene(world, rng_of("train", 7)))
    loss, said = heads(*given)
    assert said["off"] > 0
    assert loss.item() == pytest.approx(reference(heads, *given), rel=1e-5)
