"""The caches of several answers end to end as one row, whose next tokens one pass writes.

A mask lets each answer's token see what is its own, and each has its own position: it gets what it
would get alone. Rows of a batch would have to be padded to the longest, and most of what a step
then reads of a pruned answer's cache would be padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from spare_demo.models.generate.decoding import cache_bytes


class _RoomyLayer(DynamicLayer):
    """Keys and values with room for those to come: a step writes its own and copies no others."""

    def __init__(self, parts: Sequence[Any], more: int) -> None:
        """One layer of caches of one row each, with room for ``more`` positions."""
        super().__init__()
        one = parts[0].keys
        self.lazy_initialization(one, parts[0].values)
        length = sum(part.keys.shape[2] for part in parts)
        room = one.new_empty(2, 1, one.shape[1], length + more, one.shape[3])
        # Taken apart once: whatever a step does here it does in every layer.
        self._keys, self._values = room
        start = 0  # by copies: MPS has got concatenation into a strided slice wrong
        for part in parts:
            count = part.keys.shape[2]
            self._keys.narrow(2, start, count).copy_(part.keys)
            self._values.narrow(2, start, count).copy_(part.values)
            start += count
        self._show(length)

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        self._length = length
        self.keys = self._keys.narrow(2, 0, length)
        self.values = self._values.narrow(2, 0, length)
        return self.keys, self.values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        count = key_states.shape[2]
        self._keys.narrow(2, self._length, count).copy_(key_states)
        self._values.narrow(2, self._length, count).copy_(value_states)
        return self._show(self._length + count)

    def keep(self, index: Tensor) -> None:
        """Go on with these positions."""
        for room in (self._keys, self._values):
            room.narrow(2, 0, len(index)).copy_(room[:, :, index])
        self._show(len(index))


class JoinedCache:
    """Keys and values of b answers to write on.

    Attributes:
        cache: of length t, one row.
        mask: (b, t) what is added to an answer's attention scores: 0 at its own positions, else
            -inf.
        places: (b,) the positions of the answers' next tokens.
        bytes: what each answer takes of the cache, the room for what is to come included.
    """

    def __init__(self, hf: Any, caches: Sequence[Any], more: int, places: Sequence[int]) -> None:
        """Caches of one row each, without padding; a single one goes on growing as it did.

        more: how many positions are going to be added to each.
        places: where the next token of each stands.
        """
        self._hf = hf
        lengths = [cache.get_seq_length() for cache in caches]
        bytes_taken = [cache_bytes(cache) for cache in caches]
        if len(caches) == 1:
            self.cache, self.bytes = caches[0], bytes_taken
        else:
            self.cache = DynamicCache(config=hf.config)
            self.cache.layers = [
                _RoomyLayer([cache.layers[layer] for cache in caches], more * len(caches))
                for layer in range(len(caches[0].layers))
            ]
            self.bytes = [
                size // length * (length + more)
                for size, length in zip(bytes_taken, lengths, strict=True)
            ]
        self.places = torch.tensor(places).to(hf.device)
        others = ~torch.eye(len(caches), dtype=torch.bool).to(hf.device)
        mask = torch.zeros_like(others, dtype=hf.dtype)
        # (b, b) the mask of the next positions, one of each answer.
        self._next = mask.masked_fill_(others, -torch.inf)
        columns = [
            column.expand(-1, length)
            for column, length in zip(self._next.split(1, 1), lengths, strict=True)
        ]
        self.mask = torch.cat(columns, 1)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """The b tokens chosen last -> (b, vocab) float32 scores of those that follow."""
        ids = torch.tensor([tokens], device=self._hf.device)
        self.mask = torch.cat([self.mask, self._next], 1)
        out = self._hf(
            inputs_embeds=self._hf.get_input_embeddings()(ids),
            attention_mask=self.mask[None, None],
            position_ids=self.places[None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.places = self.places + 1
        logits: Tensor = out.logits[0].float()
        return logits

    def take(self, rows: Sequence[int]) -> None:
        """Go on with these answers."""
        index = torch.tensor(rows)
        self.mask, self.places = self.mask[index], self.places[index]
        self._next = self._next[index][:, index]
        kept = (self.mask == 0).any(0).nonzero()[:, 0].cpu()  # layers may lie on several GPUs
        self.mask = self.mask[:, kept]
        for layer in self.cache.layers:
            layer.keep(kept)
