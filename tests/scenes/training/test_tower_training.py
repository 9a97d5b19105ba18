"""The tower in training computes what open_clip and, converted, Hugging Face compute."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from transformers import CLIPImageProcessor, PreTrainedTokenizerFast

from spare_demo.models.loading.convert import clip_vision_from_open_clip
from spare_demo.scenes.draw import draw
from spare_demo.scenes.sets import samples
from spare_demo.scenes.training import tower
from spare_demo.scenes.training.architecture import GRID, MEAN, PATCH, SIDE, STD
from spare_demo.scenes.training.patches import thing_at_each_patch
from spare_demo.scenes.training.phases import Phase
from spare_demo.scenes.world import World, rng_of, sample_scene

WINDOWS = Phase("windows", 1, 4, 6, World(side=6 * PATCH, things=(1, 3), sizes=(20.0, 60.0)), 1.0)


@torch.no_grad()
def test_the_whole_grid_gives_what_open_clip_and_the_converted_tower_give(
    clip: open_clip.CLIP,
) -> None:
    """The picture's vector, and the layers that LLaVA and relevance read, class token included."""
    pixels = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    windows = torch.arange(GRID * GRID).expand(2, -1)
    before, last = tower.vision_states(clip.visual, pixels, windows)
    pooled = clip.visual.ln_post(last[:, 0]) @ clip.visual.proj
    expected = clip.encode_image(pixels)
    assert expected.std() > 0.1
    torch.testing.assert_close(pooled, expected, atol=1e-5, rtol=0)
    _, converted = clip_vision_from_open_clip(clip)
    states = converted(pixels, output_hidden_states=True).hidden_states
    torch.testing.assert_close(before, states[-2], atol=1e-5, rtol=0)
    torch.testing.assert_close(last, states[-1], atol=1e-5, rtol=0)
    assert not torch.allclose(before, last, atol=1e-2)


@torch.no_grad()
def test_a_window_is_told_where_it_lies(clip: open_clip.CLIP) -> None:
    small = torch.randn(1, 3, 4 * PATCH, 4 * PATCH, generator=torch.Generator().manual_seed(1))
    near, far = (torch.from_numpy(tower.window_at(corner, 4)) for corner in ((0, 0), (9, 17)))
    there = tower.vision_states(clip.visual, small, far[None])[0]
    here = tower.vision_states(clip.visual, small, near[None])[0]
    assert here.shape == (1, 17, 32)
    assert (here - there).abs().max() > 1e-2
    # The place is all that differs: give the near places the far ones' embeddings.
    clip.visual.positional_embedding[1 + near] = clip.visual.positional_embedding[1 + far]
    here = tower.vision_states(clip.visual, small, near[None])[0]
    torch.testing.assert_close(here, there, atol=0, rtol=0)


@pytest.mark.parametrize(("corner", "cells"), [((0, 0), 24), ((3, 7), 12), ((12, 0), 12)])
def test_window_indices_are_those_of_the_grid(corner: tuple[int, int], cells: int) -> None:
    grid = np.arange(GRID * GRID).reshape(GRID, GRID)
    row, column = corner
    expected = grid[row : row + cells, column : column + cells].ravel()
    np.testing.assert_array_equal(tower.window_at(corner, cells), expected)


def test_pixels_are_normalised_as_the_stock_processor_does() -> None:
    picture = draw(sample_scene(World(), rng_of("train", 1)))
    ours = tower.normalise(torch.from_numpy(np.asarray(picture).copy())[None])
    crop = {"height": SIDE, "width": SIDE}
    stock = CLIPImageProcessor(
        size={"shortest_edge": SIDE}, crop_size=crop, image_mean=MEAN, image_std=STD
    )
    expected = stock(picture, return_tensors="pt").pixel_values
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_texts_cut_short_of_their_padding_give_what_open_clip_gives(
    clip: open_clip.CLIP, text_tokenizer: PreTrainedTokenizerFast
) -> None:
    lines = ["a red star, a blue heart with the number 3", "nothing on plain"]
    short = text_tokenizer(lines, padding=True, return_tensors="pt")["input_ids"]
    full = torch.nn.functional.pad(short, (0, 77 - short.shape[1]))  # pad_token_id is 0
    assert short.shape[1] < 77
    expected = clip.encode_text(full)
    torch.testing.assert_close(tower.text_vectors(clip, short), expected, atol=1e-5, rtol=0)
    assert (expected[0] - expected[1]).abs().max() > 1e-2


def test_batches_follow_from_their_step(text_tokenizer: PreTrainedTokenizerFast) -> None:
    one, same = (tower.batch(WINDOWS, 4, text_tokenizer) for _ in range(2))
    other = tower.batch(WINDOWS, 8, text_tokenizer)
    for key, value in one.items():
        assert torch.equal(value, same[key]), key
    assert not torch.equal(one["pixels"], other["pixels"])
    assert one["windows"].shape == (4, 36)
    assert one["targets"].shape == (4, 36, 5)


def test_from_captions_alone_the_tower_learns_nothing_of_patches_which_are_still_read(
    clip: open_clip.CLIP, text_tokenizer: PreTrainedTokenizerFast
) -> None:
    training: Any = tower.TowerTraining(clip)
    data = tower.batch(WINDOWS, 0, text_tokenizer)
    alone = dataclasses.replace(WINDOWS, patch_loss=0.0)

    def gradient(phase: Phase, of: str) -> torch.Tensor:
        training.zero_grad()
        loss, said = training(data, phase)
        (loss if of == "all" else said[of]).backward()
        assert 0 <= said["print"] <= 1
        found: torch.Tensor = training.clip.visual.conv1.weight.grad.clone()
        return found

    contrast = gradient(alone, "contrast")
    assert torch.equal(gradient(alone, "all"), contrast)
    assert training.asked.heads.weight.grad.abs().sum() > 0
    assert training.asked.place.weight.grad.abs().sum() > 0
    assert not torch.allclose(gradient(WINDOWS, "all"), contrast)


def test_the_report_says_where_relevance_falls(
    clip: open_clip.CLIP, text_tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text side that says what patches of things are: above all others, at the layer it reads."""
    monkeypatch.setattr(tower, "_QUESTIONS", 12)
    untrained = tower.relevance_report(clip, text_tokenizer)
    found = re.findall(r"layer (-\d) over (background|other things) (\d\.\d{3})", untrained)
    assert [f[:2] for f in found] == [("-2", "background"), ("-2", "other things"),
                                      ("-1", "background"), ("-1", "other things")]  # fmt: skip
    assert all(0 < float(value) < 1 for *_, value in found)

    def brightness(visual: Any, pixels: torch.Tensor, windows: torch.Tensor) -> Any:
        scene = next(scenes)
        on = torch.from_numpy(thing_at_each_patch(scene) > 0).flatten().float()
        states = torch.zeros(1, 1 + GRID * GRID, 32)
        states[0, 1:, 0] = 2 * on - 1
        return states, -states

    monkeypatch.setattr(tower, "vision_states", brightness)
    clip.visual.ln_post = torch.nn.Identity()
    clip.visual.proj.data = torch.eye(32, clip.visual.proj.shape[1])
    words = torch.zeros(clip.visual.proj.shape[1])
    words[0] = 1
    monkeypatch.setattr(tower, "text_vectors", lambda _, ids: words.expand(len(ids), -1))
    scenes = iter([s.scene for s in samples("held-out", 12)])
    assert tower.relevance_report(clip, text_tokenizer) == (
        "relevance, AUC: layer -2 over background 1.000, layer -2 over other things 0.500, "
        "layer -1 over background 0.000, layer -1 over other things 0.500"
    )
