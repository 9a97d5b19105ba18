"""One step's batch of pictures and questions, for projector and decoder.

Many questions share one picture in one sequence (language.py): they lie in a row, each token with
its place in its own question and with the number of the question whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from spare_demo.scenes import draw, questions
from spare_demo.scenes.question import Question
from spare_demo.scenes.training import feature_noise, packed, patches
from spare_demo.scenes.training.architecture import GRID, PATCH, SIDE
from spare_demo.scenes.training.held_out_pairs import speaks_against_pairs, to_stir
from spare_demo.scenes.training.language_phases import Phase
from spare_demo.scenes.training.tower import random_corner, window_at
from spare_demo.scenes.world import Scene, rng_of, sample_scene

IGNORED = -100
"""The label of a token after which nothing is to be learnt."""

_MOST_EXCLUDED = 3  # a shape has a colour and one or two numbers that it is never seen with
_NOTHING = (-1,) * _MOST_EXCLUDED
# What padding holds; nobody's question is number -1.
_FILL: dict[str, Any] = {
    "ids": 0, "labels": IGNORED, "places": 0, "owner": -1, "anchors": -1,
    "excluded_answers": _NOTHING,
}  # fmt: skip


def _sequence(asked: list[Question], centres: list[int], tokenizer: Any) -> dict[str, list[Any]]:
    """The questions of one picture in a row: ids, labels of the next token, places, whose it is.

    And, at the last token before an answer, the patch of the thing that the question names, of
    ``centres``, where each thing's centre lies in the whole picture, and the tokens of answers that
    training never shows.
    """
    rows: dict[str, list[Any]] = {key: [] for key in _FILL}
    for index, question in enumerate(asked):
        prompt = tokenizer.encode(f"\n{question.text} ASSISTANT:", add_special_tokens=False)
        answer = tokenizer.encode(f" {question.answer}", add_special_tokens=False)
        answer.append(tokenizer.eos_token_id)
        ids = prompt + answer[:-1]
        rows["ids"] += ids
        rows["labels"] += [IGNORED] * (len(prompt) - 1) + answer
        rows["places"] += range(len(ids))
        rows["owner"] += [index] * len(ids)
        rows["anchors"] += [-1] * len(ids)
        rows["excluded_answers"] += [_NOTHING] * len(ids)
        last = len(prompt) - 1 - len(ids)
        if question.anchor is not None:
            rows["anchors"][last] = centres[question.anchor]
        firsts = [
            tokenizer.encode(f" {a}", add_special_tokens=False)[0]
            for a in question.excluded_answers
        ]
        rows["excluded_answers"][last] = (*firsts, *_NOTHING)[:_MOST_EXCLUDED]
    return rows


def _unasked(phase: Phase, scene: Scene, noisy: str | None) -> Callable[[str], bool] | None:
    """Which questions a phase does not ask about a scene in which something gets noise."""
    if not phase.fair:
        return None

    def no(text: str) -> bool:
        where = to_stir(text)
        elsewhere = noisy != (where if where in phase.noisy else None)
        return elsewhere or speaks_against_pairs(text, scene)

    return no


def batch(phase: Phase, step: int, tokenizer: PreTrainedTokenizerFast) -> dict[str, Tensor]:
    """The training batch of a step, always the same one."""
    pictures, windows, rows, targets, moves = [], [], [], [], []
    world = replace(phase.world, side=phase.cells * PATCH)
    for index in range(phase.batch):
        rng = rng_of("train", 10**9 + step * 1000 + index)
        noisy = phase.noisy[index % len(phase.noisy)]
        scene = sample_scene(world, rng)
        pictures.append(np.asarray(draw.draw(scene)))
        row, column = random_corner(phase.cells, rng)
        windows.append(window_at((row, column), phase.cells))
        # Places are those in the whole picture: that is what the tower says of a window's patches.
        whole = scene.inside(SIDE, column * PATCH, row * PATCH)
        unasked = _unasked(phase, whole, noisy)
        asked = questions.ask(whole, rng, phase.questions, True, unasked)
        centres = [int(t.y // PATCH) * GRID + int(t.x // PATCH) for t in whole.things]
        rows.append(_sequence(asked, centres, tokenizer))
        targets.append(patches.patch_targets(scene, noisy))
        moves.append(feature_noise.amounts(scene, rng, noisy))
    longest = max(len(row["ids"]) for row in rows)
    data = {
        key: torch.tensor([row[key] + [value] * (longest - len(row[key])) for row in rows])
        for key, value in _FILL.items()
    }
    data["pixels"] = torch.from_numpy(np.stack(pictures))
    data["windows"] = torch.from_numpy(np.stack(windows))
    data["targets"] = torch.from_numpy(np.stack(targets))
    data["moves"] = torch.from_numpy(np.stack(moves))
    return data


def in_blocks(data: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same batch, its rows of questions filled up to whole blocks."""
    missing = -data["ids"].shape[1] % packed.BLOCK
    padded = dict(data)
    for key, value in _FILL.items():
        filling = torch.tensor(value).to(data[key])
        shape = (len(data[key]), missing, *filling.shape)
        padded[key] = torch.cat([data[key], filling.expand(shape)], 1)
    return padded
