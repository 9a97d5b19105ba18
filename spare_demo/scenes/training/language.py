"""Training projector and decoder on questions, with the tower frozen, as LLaVA is trained.

Many questions share one picture in one sequence: each sees the picture and itself, never another
question, and each starts at the same position, so the decoder learns what it would from as many
sequences of one question, at a fraction of the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from spare_demo.scenes.training import (
    architecture,
    attention_balance,
    feature_noise,
    packed,
    patches,
)
from spare_demo.scenes.training.architecture import GRID
from spare_demo.scenes.training.language_batch import IGNORED, batch, in_blocks
from spare_demo.scenes.training.language_phases import Phase
from spare_demo.scenes.training.tower import normalise, vision_states

_PATCH_LAYER = 2  # where the decoder's tokens of patches are asked what lies there
PATCH_WEIGHT = 0.5
ANCHOR_WEIGHT = 0.5
_ANCHOR_LAYER = 3  # and a question's last token where the thing lies that it names
_MEASURED = 32  # batches, no noise, on which it is measured what is to be balanced
EVEN_WEIGHT = 0.1


class LanguageTraining(nn.Module):
    """LLaVA, its tower frozen. ``visual`` is the same tower as open_clip's class, for windows."""

    def __init__(self, llava: LlavaForConditionalGeneration, visual: Any, tokenizer: Any) -> None:
        super().__init__()
        llava.model.vision_tower.requires_grad_(False)
        llava.model.language_model.set_attn_implementation(packed.NAME)
        self.llava = llava
        # In a list, so that it is no part of the checkpoint.
        self._visual = [visual.requires_grad_(False).eval()]
        # Thrown away after training, like the tower's heads. Left to itself the decoder reads a
        # thing's colour, shape and print as one, and misreads what it never saw together; and it
        # takes very long to find which things lie to the left.
        self.asked = patches.PatchHeads(architecture.LANGUAGE["hidden_size"])
        # Where the thing lies that a question names: to be found first, before what is asked of it.
        self.anchor = nn.Linear(architecture.LANGUAGE["hidden_size"], 2)
        # What the tower tells apart has to be told apart by the same lines after the projector: a
        # crooked one serves what training shows and scrambles what it does not.
        self.back = nn.Linear(architecture.LANGUAGE["hidden_size"], architecture.VISION["width"])
        self.noise = feature_noise.FeatureNoise(architecture.VISION["width"])
        sizes = architecture.LANGUAGE
        self.balance = attention_balance.AttentionBalance(
            sizes["hidden_size"], sizes["num_attention_heads"]
        )
        self.prefix = tokenizer.encode("USER: ", add_special_tokens=True)

    def matrices(self) -> Iterator[nn.Parameter]:
        """What Muon trains: the matrices of projector and decoder, embeddings and head apart."""
        model = self.llava.model
        for part in (model.multi_modal_projector, model.language_model.layers):
            yield from (p for p in part.parameters() if p.ndim == 2)

    def forward(self, data: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
        data = in_blocks(data)
        ran = self._run(data)
        bent = _unexplained(self.back, ran.seen, ran.states, data["targets"][..., 0] != 0)
        patch_loss, shares = self.asked(ran.patches[_PATCH_LAYER], data["targets"], data["windows"])
        named = data["anchors"] >= 0
        ends = ran.tokens[_ANCHOR_LAYER][named]
        lost = _off(self.anchor, ends, data["anchors"][named])
        loss, right = self._answers(ran, data)
        metrics = {
            "right": right,
            "lost": lost.item() * GRID / 2,  # in patches
            "patches": patch_loss.item(),
            "bent": bent.item(),
            **shares,
        }
        return loss + bent + PATCH_WEIGHT * patch_loss + ANCHOR_WEIGHT * lost, metrics

    def balance_loss(self, data: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
        """The loss of the run that balances (attention_balance.py), in place of `forward`'s."""
        data = in_blocks(data)
        loss, right = self._answers(self._run(data), data)
        with torch.autocast(data["ids"].device.type, enabled=False):
            uneven = self.balance(self.llava.model.language_model)
        return loss + EVEN_WEIGHT * uneven, {"right": right, "uneven": uneven.item()}

    @torch.no_grad()
    def begin_evening(self, phase: Phase, step: int, tokenizer: PreTrainedTokenizerFast) -> None:
        """Measures what is uneven on batches as from ``step`` on, no noise."""
        measures = [
            attention_balance.Measure(self.balance.words.shape[-1])
            for _ in attention_balance.LAYERS
        ]
        still, device = replace(phase, noisy=(None,)), self.balance.goals.device
        for seen in range(step, step + _MEASURED):
            drawn = batch(still, seen, tokenizer)
            data = in_blocks({key: value.to(device) for key, value in drawn.items()})
            ran, asked = self._run(data), data["labels"] != IGNORED
            last = asked & ~asked.roll(1, 1)
            named, there = attention_balance.named_so_far(data, tokenizer), data["owner"] >= 0
            for layer, measure in zip(attention_balance.LAYERS, measures, strict=True):
                norm = self.llava.model.language_model.layers[layer].input_layernorm
                measure.look(norm(ran.patches[layer]).flatten(0, 1), data["targets"].flatten(0, 1))
                measure.listen(norm(ran.tokens[layer])[there], named[there], last[there])
        self.balance.begin(self.llava.model.language_model, measures)

    def attention_only(self) -> None:
        """Lets nothing be trained but queries and keys of the decoder's layers after the first."""
        self.requires_grad_(False)
        for layer in self.llava.model.language_model.layers[1:]:
            layer.self_attn.q_proj.requires_grad_(True)
            layer.self_attn.k_proj.requires_grad_(True)

    def _run(self, data: dict[str, Tensor]) -> _Ran:
        model, device = self.llava.model, data["ids"].device
        with torch.no_grad():
            states, _ = vision_states(
                self._visual[0].to(device), normalise(data["pixels"]), data["windows"]
            )
            states = self.noise(states[:, 1:], data["targets"], data["moves"])
        seen = model.multi_modal_projector(states)
        embed = self.llava.get_input_embeddings()
        prefix = embed(torch.tensor(self.prefix, device=device)).expand(len(seen), -1, -1)
        inputs = torch.cat([prefix, seen.to(prefix.dtype), embed(data["ids"])], 1)
        # A window's patches keep the places that they have in a whole picture.
        start = len(self.prefix)
        places = torch.arange(start, device=device).expand(len(seen), -1)
        text = start + GRID * GRID + data["places"]
        position_ids = torch.cat([places, start + data["windows"], text], 1)
        before = start + seen.shape[1]
        out = model.language_model(
            inputs_embeds=inputs,
            attention_mask=packed.block_mask(data["owner"]),
            position_ids=position_ids,
            use_cache=False,
            output_hidden_states=True,
        )
        return _Ran(
            states, seen,
            [layer[:, start:before] for layer in out.hidden_states],
            [layer[:, before:] for layer in out.hidden_states],
        )  # fmt: skip

    def _answers(self, ran: _Ran, data: dict[str, Tensor]) -> tuple[Tensor, float]:
        """The loss of the answers, and the share of questions answered rightly."""
        asked = data["labels"] != IGNORED
        logits = self.llava.lm_head(ran.tokens[-1][asked]).float()
        logits = _without(logits, data["excluded_answers"][asked])
        labels = data["labels"][asked]
        right = _share_right(logits.argmax(-1) == labels, asked, data["owner"])
        return F.cross_entropy(logits, labels), right


@dataclass(frozen=True)
class _Ran:
    """What came of a batch: the tower's states of patches (B, n, v), what the projector made of
    them (B, n, w), and each of the decoder's states, of patches (B, n, w) and of tokens (B, T, w).
    The last of them are normed."""

    states: Tensor
    seen: Tensor
    patches: list[Tensor]
    tokens: list[Tensor]


def _without(logits: Tensor, tokens: Tensor) -> Tensor:
    """Logits (n, v) with each row's own ``tokens`` (n, m) out of the running; -1 is none.

    Training would else teach that what it keeps back never is: red things are no circles.
    """
    rows, columns = (tokens >= 0).nonzero(as_tuple=True)
    return logits.index_put((rows, tokens[rows, columns]), logits.new_tensor(-torch.inf))


def _off(head: nn.Linear, states: Tensor, at: Tensor) -> Tensor:
    """How far ``head`` is off the places of the patches ``at``, from states (…, w); 0 with none."""
    states = states.float()
    prediction = head(F.layer_norm(states, states.shape[-1:])).float()
    return (prediction - patches.places_in_grid(at)).abs().sum() / max(prediction.numel(), 1)


def _unexplained(back: nn.Linear, seen: Tensor, states: Tensor, covered: Tensor) -> Tensor:
    """The share of the tower's states (B, n, v) of covered patches that ``back`` does not get from
    what the projector made of them (B, n, w); 0 without a covered patch."""
    prediction = back(F.layer_norm(seen.float(), seen.shape[-1:])).float()
    missed = (prediction - F.layer_norm(states.float(), states.shape[-1:])).square().mean(-1)
    return (missed * covered).sum() / covered.sum().clamp_min(1)


def _share_right(hit: Tensor, asked: Tensor, owner: Tensor) -> float:
    """The share of questions of which every answer token is right."""
    rows = torch.arange(len(owner), device=owner.device)[:, None].expand_as(owner)[asked]
    key = rows * (int(owner.max()) + 1) + owner[asked]
    wrong = torch.zeros(int(key.max()) + 1, device=owner.device).index_add(0, key, (~hit).float())
    there = torch.zeros_like(wrong).index_add(0, key, torch.ones_like(hit, dtype=torch.float))
    return (wrong[there > 0] == 0).float().mean().item()
