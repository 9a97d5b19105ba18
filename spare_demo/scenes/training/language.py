"""Training projector and decoder on questions, with the tower frozen, as LLaVA is trained.

Many questions share one picture in one sequence: each sees the picture and itself, never another
question, and each starts at the same position, so the decoder learns what it would from as many
sequences of one question, at a fraction of the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from spare_demo.scenes.practice import practise
from spare_demo.scenes.questions import Question
from spare_demo.scenes.training import architecture, packed, patches
from spare_demo.scenes.training.architecture import GRID, PATCH
from spare_demo.scenes.training.packed import BLOCK
from spare_demo.scenes.training.phases import Phase
from spare_demo.scenes.training.tower import draw_canvases, normalise, projector_states

IGNORED = -100
"""The label of a token after which nothing is to be learnt."""
ANCHOR_WEIGHT = 0.5

# What padding holds; nobody's question is number -1.
_FILL = {"ids": 0, "labels": IGNORED, "places": 0, "owner": -1, "anchors": -1}
_PATCH_LAYER = 2  # where the decoder's tokens of patches are asked what lies there
_ANCHOR_LAYER = 3  # and a question's last token where the thing lies that it names
_MOST_QUESTIONS = 64  # of one picture


def sequence(
    asked: list[Question], centres: list[int], tokenizer: PreTrainedTokenizerFast
) -> dict[str, list[int]]:
    """The questions of one picture in a row: ids, labels of the next token, places, whose it is.

    And, at the last token before an answer, the patch of the thing that the question names, of
    ``centres``, where each thing's centre lies in the whole picture. Raises ValueError if a
    question and its answer are longer than `BLOCK`, what attention reaches.
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
    data, wholes = draw_canvases(phase, first)
    rows = []
    for whole, rng in wholes:
        centres = [int(t.y // PATCH) * GRID + int(t.x // PATCH) for t in whole.things]
        rows.append(sequence(practise(whole, rng, phase.questions), centres, tokenizer))
    longest = max(len(row["ids"]) for row in rows)
    longest += -longest % BLOCK  # whole blocks
    for key, value in _FILL.items():
        padded = [row[key] + [value] * (longest - len(row[key])) for row in rows]
        data[key] = torch.tensor(padded)
    return data


class LanguageTraining(nn.Module):
    """LLaVA, its tower frozen. ``visual`` is the same tower as open_clip's class, for windows."""

    def __init__(self, llava: LlavaForConditionalGeneration, visual: Any, tokenizer: Any) -> None:
        super().__init__()
        llava.model.vision_tower.requires_grad_(False)
        llava.model.language_model.set_attn_implementation(packed.NAME)
        self.llava = llava
        self._visual = [visual.requires_grad_(False).eval()]  # a list is no part of checkpoints
        # Thrown away after training, like the tower's heads. Left to itself the decoder reads a
        # thing's colour, shape and print as one, and it takes very long to find which things lie to
        # the left.
        width = architecture.LANGUAGE["hidden_size"]
        self.asked = patches.PatchHeads(width)
        # Where the thing lies that a question names: to be found first, before what is asked of it.
        self.anchor = nn.Linear(width, 2)
        prefix = torch.tensor(tokenizer.encode("USER: ", add_special_tokens=True))
        self.register_buffer("prefix", prefix, persistent=False)

    prefix: Tensor

    def matrices(self) -> Iterator[nn.Parameter]:
        """What Muon trains: the matrices of projector and decoder, embeddings and head apart."""
        model = self.llava.model
        for part in (model.multi_modal_projector, model.language_model.layers):
            yield from (p for p in part.parameters() if p.ndim == 2)

    def forward(self, data: dict[str, Tensor], phase: Phase) -> tuple[Tensor, dict[str, Tensor]]:
        of_patches, of_tokens = self._states(data)
        asked = data["labels"] != IGNORED
        logits = self.llava.lm_head(of_tokens[-1][asked]).float()
        labels = data["labels"][asked]
        loss = F.cross_entropy(logits, labels)
        right = _share_right(logits.argmax(-1) == labels, asked, data["owner"])
        named = data["anchors"] >= 0
        off = _off(self.anchor, of_tokens[_ANCHOR_LAYER][named], data["anchors"][named])
        patch_loss, shares = self.asked(of_patches[_PATCH_LAYER], data["targets"], data["windows"])
        # ``lost`` is in patches.
        metrics = {"answers": loss, "right": right, "lost": off * GRID / 2, **shares}
        return loss + phase.patch_loss * patch_loss + ANCHOR_WEIGHT * off, metrics

    def _states(self, data: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Each of the decoder's states, of patches (B, n, w) and of tokens (B, T, w); the last of
        them are normed."""
        model, device = self.llava.model, data["ids"].device
        with torch.no_grad():
            states = projector_states(
                self._visual[0].to(device), normalise(data["pixels"]), data["windows"]
            )
        seen = model.multi_modal_projector(states[:, 1:])
        embed = self.llava.get_input_embeddings()
        prefix = embed(self.prefix).expand(len(seen), -1, -1)
        inputs = torch.cat([prefix, seen.to(prefix.dtype), embed(data["ids"])], 1)
        # A window's patches keep the places that they have in a whole picture.
        start = len(self.prefix)
        places = torch.arange(start, device=device).expand(len(seen), -1)
        text = start + GRID * GRID + data["places"]
        before = start + seen.shape[1]
        out = model.language_model(
            inputs_embeds=inputs,
            attention_mask=packed.block_mask(data["owner"]),
            position_ids=torch.cat([places, start + data["windows"], text], 1),
            use_cache=False,
            output_hidden_states=True,
        )
        layers = out.hidden_states
        return [layer[:, start:before] for layer in layers], [layer[:, before:] for layer in layers]


def _off(head: nn.Linear, states: Tensor, at: Tensor) -> Tensor:
    """How far ``head`` is off the places of the patches ``at``, from states (…, w); 0 with none."""
    states = states.float()
    prediction = head(F.layer_norm(states, states.shape[-1:])).float()
    return (prediction - patches.places_in_grid(at)).abs().sum() / max(prediction.numel(), 1)


def _share_right(hit: Tensor, asked: Tensor, owner: Tensor) -> Tensor:
    """The share of questions of which every answer token is right."""
    rows = torch.arange(len(owner), device=owner.device)[:, None].expand_as(owner)[asked]
    key = rows * _MOST_QUESTIONS + owner[asked]
    counts = torch.zeros(2, len(owner) * _MOST_QUESTIONS, device=owner.device)
    counts.index_add_(1, key, torch.stack([torch.ones_like(hit), ~hit]).float())
    return (counts[1][counts[0] > 0] == 0).float().mean()
