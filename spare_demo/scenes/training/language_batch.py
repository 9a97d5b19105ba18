"""A batch of pictures and questions, for projector and decoder.

Many questions share one picture in one sequence (language.py): they lie in a row, each token with
its place in its own question and with the number of the question whose it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from spare_demo.scenes import draw
from spare_demo.scenes.practice import practise
from spare_demo.scenes.question import Question
from spare_demo.scenes.training import patches
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.training.packed import BLOCK
from spare_demo.scenes.training.phases import Phase
from spare_demo.scenes.training.tower import canvases

IGNORED = -100
"""The label of a token after which nothing is to be learnt."""

# What padding holds; nobody's question is number -1.
_FILL = {"ids": 0, "labels": IGNORED, "places": 0, "owner": -1, "anchors": -1}


def sequence(
    asked: list[Question], centres: list[int], tokenizer: PreTrainedTokenizerFast
) -> dict[str, list[int]]:
    """The questions of one picture in a row: ids, labels of the next token, places, whose it is.

    And, at the last token before an answer, the patch of the thing that the question names, of
    ``centres``, where each thing's centre lies in the whole picture.

    Raises:
        ValueError: a question and its answer are longer than `BLOCK`, what attention reaches.
    """
    rows: dict[str, list[int]] = {key: [] for key in _FILL}
    for index, question in enumerate(asked):
        prompt = tokenizer.encode(f"\n{question.text} ASSISTANT:", add_special_tokens=False)
        answer: list[Any] = tokenizer.encode(f" {question.answer}", add_special_tokens=False)
        answer.append(tokenizer.eos_token_id)
        ids = prompt + answer[:-1]
        if len(ids) > BLOCK:
            raise ValueError(f"{question.text!r} is longer than {BLOCK} tokens. Enlarge BLOCK.")
        rows["ids"] += ids
        rows["labels"] += [IGNORED] * (len(prompt) - 1) + answer
        rows["places"] += range(len(ids))
        rows["owner"] += [index] * len(ids)
        rows["anchors"] += [-1] * len(ids)
        if question.anchor is not None:
            rows["anchors"][len(prompt) - 1 - len(ids)] = centres[question.anchor]
    return rows


def batch(phase: Phase, first: int, tokenizer: PreTrainedTokenizerFast) -> dict[str, Tensor]:
    """A training batch of the scenes from number ``first`` on, always the same one.

    Questions mean places in the whole picture: that is what the tower says of a window's patches.
    """
    pictures, windows, rows, targets = [], [], [], []
    for scene, whole, window, rng in canvases(phase, first):
        pictures.append(np.asarray(draw.draw(scene)))
        windows.append(window)
        centres = [int(t.y // PATCH) * GRID + int(t.x // PATCH) for t in whole.things]
        rows.append(sequence(practise(whole, rng, phase.questions), centres, tokenizer))
        targets.append(patches.patch_targets(scene))
    longest = max(len(row["ids"]) for row in rows)
    longest += -longest % BLOCK  # whole blocks
    data = {
        key: torch.tensor([row[key] + [value] * (longest - len(row[key])) for row in rows])
        for key, value in _FILL.items()
    }
    data["pixels"] = torch.from_numpy(np.stack(pictures))
    data["windows"] = torch.from_numpy(np.stack(windows))
    data["targets"] = torch.from_numpy(np.stack(targets))
    return data
