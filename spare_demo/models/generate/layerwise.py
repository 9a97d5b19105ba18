"""A language model run layer by layer, with fewer visual tokens the deeper it goes.

The layers are the stock ones and the attention path is the one they were loaded with; between two
of them the rows that a `LayerPlan` drops are taken out, so that the cache of every layer holds only
what that layer got. Of attention matrices only the rows that a method reads are computed, from the
layer's own projections and the keys in its cache, as Llama's attention has them. Others compute
theirs in another way, often under the same names, so only decoders in `READABLE` are run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from spare_demo.models.base import ModelError
from spare_demo.models.generate.cache import CACHE
from spare_demo.pruners.inside.base import choose_rows
from spare_demo.pruners.plan import Choice, LayerPlan, LayerSet

READABLE = ("llama", "mistral", "qwen2", "qwen2_5_vl_text", "gemma")
"""The `model_type` of decoders whose attention is Llama's."""


class LayerwiseRun:
    """One prompt through a decoder under a plan: `prefill` once, then `step` for each new token.

    Attributes:
        cache: keys and values, of each layer as many as it got.
        sets: after the prefill, the visual tokens from layer 0 on and from each stop on.
    """

    def __init__(
        self,
        decoder: Any,
        plan: LayerPlan,
        visual: Tensor,
        text: int,
        positions: Tensor | None = None,
    ):
        """decoder: the stock model below the language head.
        plan: for its number of layers.
        visual: (plan.enters,) which rows of the prompt are the visual tokens, ascending.
        text: the row at which the text after the picture begins.
        positions: (axes, T) rotary positions of the prompt's rows; None for 0, 1, 2, ….

        Raises ModelError: a decoder whose layers look back only so far, or whose attention differs.
        """
        self._decoder, self._plan = decoder, plan
        self._visual, self._text, self._positions = visual, text, positions
        self._packs = plan.method.repacks and positions is None
        self._layers = list(decoder.layers[: decoder.config.num_hidden_layers])
        self.cache = DynamicCache(config=decoder.config)
        if reason := reason_against(decoder):
            raise ModelError(
                f"{reason} Choose another model, or a method before the language model."
            )
        self.sets: tuple[LayerSet, ...] = ()
        self._next = torch.empty(0)  # (axes, 1, 1) position of the next token, where they stay

    def prefill(self, embeds: Tensor) -> Tensor:
        """(1, T, d) the prompt with the rows that enter -> (1, 1, d) its last state, normed."""
        plan, hidden = self._plan, embeds
        visual, text = self._visual.to(embeds.device), self._text
        inputs = (embeds[0, visual], embeds[0, text:])
        positions = torch.arange(embeds.shape[1], device=embeds.device)[None, None]
        if self._positions is not None:
            positions = self._positions[:, None].to(embeds.device)
        self._next = positions[..., -1:] + 1
        rows = _VisualRows(plan, embeds.device)
        rotary, mask = self._prepare(hidden, positions)
        sets = [rows.snapshot(0)]
        before = hidden
        for index, layer in enumerate(self._layers):
            if stop := plan.stop_before(index):
                reading = LayerReading(
                    self._decoder, self.cache, index, before, hidden, visual, text, inputs, rotary
                )
                choice = choose_rows(plan.method, reading, stop)
                kept = choice.kept.to(hidden.device).sort().values
                rows.shorten(kept, choice)
                merged = hidden[0, :0]
                if choice.merge is not None:
                    mixture = choice.merge.to(hidden.device) @ hidden[0, visual].float()
                    merged = mixture.to(hidden.dtype)
                order, visual, text = _rows_that_go_on(hidden.shape[1], visual, text, kept, choice)
                hidden = hidden[:, order]
                hidden[0, text - len(merged) : text] = merged
                # Packed, the rows take the first places of those before.
                positions = positions[..., : len(order)] if self._packs else positions[..., order]
                rotary, mask = self._prepare(hidden, positions)
                sets.append(rows.snapshot(index))
            before = hidden
            hidden = self._through(layer, hidden, rotary, mask)
        self.sets = tuple(sets)
        last: Tensor = self._decoder.norm(hidden[:, -1:])
        return last

    def step(self, embed: Tensor) -> Tensor:
        """(1, 1, d) one new token -> (1, 1, d) its state, normed."""
        hidden, rotary, last_place = embed, None, -1
        for index, layer in enumerate(self._layers):
            place = self.cache.get_seq_length(index) if self._packs else 0
            if rotary is None or place != last_place:
                # With packed positions each layer counts on from what it has seen itself.
                at = torch.full_like(self._next, place) if self._packs else self._next
                rotary, last_place = self._rotary(hidden, at), place
            hidden = self._through(layer, hidden, rotary, None)  # one query sees all
        self._next = self._next + 1
        last: Tensor = self._decoder.norm(hidden)
        return last

    def _prepare(self, hidden: Tensor, positions: Tensor) -> tuple[tuple[Tensor, Tensor], Any]:
        """Rotary factors of the rows, and the mask that this attention path wants."""
        # Without positions: gaps in them would be taken for several texts in one row.
        mask = create_causal_mask(self._decoder.config, hidden, None, None)
        return self._rotary(hidden, positions), mask

    def _rotary(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """(axes, 1, r) positions -> rotary factors, each (1, r, h)."""
        ids = positions if len(positions) > 1 else positions[0]
        cos, sin = self._decoder.rotary_emb(hidden, position_ids=ids)
        return cos.to(hidden.device), sin.to(hidden.device)

    def _through(
        self, layer: Any, hidden: Tensor, rotary: tuple[Tensor, Tensor], mask: Any
    ) -> Tensor:
        out: Tensor = layer(
            hidden,
            attention_mask=mask,
            position_embeddings=rotary,
            use_cache=True,
            **{CACHE: self.cache},
        )
        return out.to(hidden.device)  # back from another GPU, so that all rows stay on one


def window(hf: Any) -> float:
    """Positions that every layer sees at least, its own included; infinity where none slides."""
    layers: list[Any] = DynamicCache(config=hf.config).layers
    return min((layer.sliding_window for layer in layers if layer.is_sliding), default=math.inf)


def reason_against(decoder: Any) -> str | None:
    """Why a plan cannot be carried out in this decoder, as a sentence; None if it can."""
    if window(decoder) < math.inf:
        return (
            "This language model has sliding-window attention, in which tokens cannot be dropped "
            "layer by layer."
        )
    if (kind := decoder.config.model_type) not in READABLE:
        return f"The attention of this language model, of type '{kind}', cannot be read."
    return None


def _rows_that_go_on(
    length: int, visual: Tensor, text: int, kept: Tensor, choice: Choice
) -> tuple[Tensor, Tensor, int]:
    """Which of T rows go on at a stop, where those of the picture then are, and the text's first.

    A merged row stands right before the text, and is named by the row of its largest part.

    kept: (k,) of the v `visual` rows, ascending.
    """
    stays = torch.ones(length, dtype=torch.bool, device=visual.device)
    stays[visual] = False
    stays[visual[kept]] = True
    order, at = stays.nonzero().flatten(), int(stays[:text].sum())
    merged = visual[:0]
    if choice.merge is not None:
        merged = visual[choice.merge.to(visual.device).argmax(dim=1)]
    place = stays.cumsum(0) - 1  # (T,) where each row that stays goes
    begins = at + len(merged)
    new = torch.arange(at, begins, device=visual.device)
    order = torch.cat([order[:at], merged, order[at:]])
    return order, torch.cat([place[visual[kept]], new]), begins


class LayerReading:
    """What a method may read before layer `index`, as `pruners.plan.LayerReading` has it."""

    def __init__(
        self,
        decoder: Any,
        cache: DynamicCache,
        index: int,
        before: Tensor,
        hidden: Tensor,
        visual: Tensor,
        text: int,
        inputs: tuple[Tensor, Tensor],
        rotary: tuple[Tensor, Tensor],
    ):
        """before: (1, T, d) what layer index - 1 got; hidden: (1, T, d) what it gave out; inputs:
        rows of picture and text as they entered layer 0; rotary: rotary factors of the T rows."""
        self._decoder, self._index = decoder, index
        self.before, self._rotary = before[0], rotary
        layers: list[Any] = list(cache.layers)
        self._cached: Tensor = layers[index - 1].keys.to(hidden.device)
        self.hidden, self.visual = hidden[0], visual
        self.text = slice(text, hidden.shape[1])
        self.image_inputs, self.text_inputs = inputs
        self.cos, self.sin = rotary[0][0], rotary[1][0]

    def attention(self, rows: Sequence[int], ahead: bool = False) -> Tensor:
        layer = self._decoder.layers[self._index if ahead else self._index - 1]
        states = (self.hidden if ahead else self.before)[None]
        index = torch.tensor(list(rows), device=states.device)
        attention = layer.self_attn
        query = self._heads(attention, attention.q_proj, layer.input_layernorm(states[:, index]))
        cos, sin = self._rotary
        query, _ = apply_rotary_pos_emb(query, query, cos[:, index], sin[:, index])
        if ahead:
            key = self._heads(attention, attention.k_proj, layer.input_layernorm(states))
            key, _ = apply_rotary_pos_emb(key, key, cos, sin)
        else:
            key = self._cached
        query, key = query[0].float(), key[0].float()  # (heads, rows, h), (kv heads, T, h)
        key = key.repeat_interleave(len(query) // len(key), dim=0)
        scores = query @ key.transpose(1, 2) * attention.scaling
        later = torch.arange(key.shape[1], device=index.device)[None] > index[:, None]
        return scores.masked_fill(later, -torch.inf).softmax(dim=-1)

    def keys(self) -> Tensor:
        return self._cached[0].transpose(0, 1).flatten(1).float()

    def normed(self) -> Tensor:
        states: Tensor = self._decoder.norm(self.hidden)
        return states.to(self.hidden.device)

    def _heads(self, attention: Any, projection: Any, states: Tensor) -> Tensor:
        """(1, r, d) -> (1, heads, r, h)"""
        out: Tensor = projection(states).to(self.hidden.device)
        return out.view(1, states.shape[1], -1, attention.head_dim).transpose(1, 2)


class _VisualRows:
    """Which patches the visual rows are, and what the merged ones are made of."""

    def __init__(self, plan: LayerPlan, device: torch.device):
        entering = plan.entering
        self._n = plan.n
        # (v,) whose row it is, or -1 for one that was merged at a stop.
        self._patch = torch.arange(plan.n) if entering is None else entering.kept
        self._patch = self._patch.to(device)
        self._made_of: Tensor | None = None  # (v, n) once there is a merged row
        sources = None if entering is None else entering.sources
        self._grown = sources is not None
        if sources is not None:
            shares = sources.to(device).float()
            self._made_of = shares / shares.sum(dim=1, keepdim=True)

    def shorten(self, kept: Tensor, choice: Choice) -> None:
        made_of, patch = self._made_of, self._patch
        if choice.merge is not None:
            if made_of is None:
                made_of = torch.nn.functional.one_hot(patch, self._n).float()  # each one patch
            merged = choice.merge.to(made_of) @ made_of
            self._made_of = torch.cat([made_of[kept], merged])
            self._patch = torch.cat([patch[kept], patch.new_full((len(merged),), -1)])
        else:
            self._made_of = None if made_of is None else made_of[kept]
            self._patch = patch[kept]

    def snapshot(self, layer: int) -> LayerSet:
        """What a layer gets now, in plain tensors on the CPU rather than inference-mode ones."""
        with torch.inference_mode(False):
            patch, merged = self._patch.cpu().clone(), None
            if self._made_of is not None:
                made_of = self._made_of.cpu().clone()
                mixed = (patch < 0) | (made_of.count_nonzero(dim=1) > 1)
                merged = made_of[mixed] if bool(mixed.any()) else None
            grown = self._grown and merged is not None
            return LayerSet(layer, patch[patch >= 0], merged, grown)
