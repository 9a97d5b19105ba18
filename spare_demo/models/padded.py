"""The cache of several rows decoded as one batch, and the passes that fill it.

Padding stands on the left of what each row is given and is seen by nobody, and each row has its
own positions: every row gets what it would get alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from spare_demo.models.decoding import cache_bytes

_CACHE_BYTES = 2 * 1024**3


def room(hf: Any) -> int:
    """How many positions a batch may have in all, so that its cache fits beside the weights."""
    text = hf.config.text_config
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    per_position = 2 * text.num_hidden_layers * text.num_key_value_heads * width * hf.dtype.itemsize
    return int(_CACHE_BYTES // per_position)


class _Roomy(DynamicLayer):
    """Keys and values with room for those to come: a step writes its own and copies no others."""

    def __init__(self, rows: Sequence[Any], longest: int, more: int) -> None:
        """One layer of caches of one row each, padded on the left to ``longest``."""
        super().__init__()
        one = rows[0].keys
        self.lazy_initialization(one, rows[0].values)
        self._room = one.new_zeros(2, len(rows), one.shape[1], longest + more, one.shape[3])
        for i, row in enumerate(rows):
            self._room[0, i, :, longest - row.keys.shape[2] : longest] = row.keys[0]
            self._room[1, i, :, longest - row.values.shape[2] : longest] = row.values[0]
        self._show(longest)

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        self._length = length
        keys, values = self._room[:, :, :, :length]
        self.keys, self.values = keys, values
        return keys, values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        new = slice(self._length, self._length + key_states.shape[2])
        self._room[0, :, :, new] = key_states
        self._room[1, :, :, new] = value_states
        return self._show(new.stop)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._room = self._room[:, indices]
        self._show(self._length)

    @property
    def bytes(self) -> int:
        return self._room.numel() * self._room.element_size()


class Padded:
    """Keys and values of b rows of a language model.

    Attributes:
        cache: of length t, each row's own at its end.
        mask: (b, t) 1 where a row has something.
    """

    def __init__(self, hf: Any, rows: int) -> None:
        """So many rows, empty."""
        self._hf = hf
        self.cache: Any = DynamicCache(config=hf.config)
        self.mask = torch.zeros(rows, 0, dtype=torch.long, device=hf.device)

    @classmethod
    def joined(cls, hf: Any, caches: Sequence[Any], more: int) -> Padded:
        """Caches of one row each, all of them without padding, as the rows of one.

        more: how many positions are going to be added.
        """
        made = cls(hf, len(caches))
        lengths = torch.tensor([cache.get_seq_length() for cache in caches])
        longest = int(lengths.max())
        made.mask = (torch.arange(longest) >= longest - lengths[:, None]).long().to(hf.device)
        if len(caches) == 1:
            made.cache = caches[0]
            return made
        made.cache.layers = [
            _Roomy([cache.layers[layer] for cache in caches], longest, more)
            for layer in range(len(caches[0].layers))
        ]
        return made

    @property
    def bytes(self) -> int:
        """What it takes, padding and the room for what is to come included."""
        roomy = [layer.bytes for layer in self.cache.layers if isinstance(layer, _Roomy)]
        return sum(roomy) or cache_bytes(self.cache)

    def forward(self, rows: Sequence[Tensor], logits: bool = True) -> Tensor:
        """One pass over the next (t_i, d) of every row -> (b, vocab) float32 at their ends, or the
        (b, d) states there without `logits`."""
        longest = max(len(row) for row in rows)
        inputs = rows[0].new_zeros(len(rows), longest, rows[0].shape[1])
        new = self.mask.new_zeros(len(rows), longest)
        for i, row in enumerate(rows):
            inputs[i, longest - len(row) :] = row
            new[i, longest - len(row) :] = 1
        self.mask = torch.cat([self.mask, new], dim=1)
        places = (self.mask.cumsum(1) - 1).clamp_min(0)[:, -longest:]
        return self._run(inputs, self.mask, places, logits)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """The b tokens chosen last -> (b, vocab) float32 scores of those that follow."""
        ids = torch.tensor(tokens, device=self._hf.device)
        inputs = self._hf.get_input_embeddings()(ids)[:, None]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        # What one position may see: transformers takes longer to make it.
        unseen = (self.mask == 0)[:, None, None]
        added = torch.zeros_like(unseen, dtype=inputs.dtype).masked_fill_(unseen, -torch.inf)
        return self._run(inputs, added, self.mask.sum(1, keepdim=True) - 1)

    def _run(self, inputs: Tensor, mask: Tensor, places: Tensor, logits: bool = True) -> Tensor:
        out = (self._hf if logits else self._hf.model)(
            inputs_embeds=inputs,
            attention_mask=mask,
            position_ids=places,
            past_key_values=self.cache,
            use_cache=True,
            **({"logits_to_keep": 1} if logits else {}),
        )
        return out.logits[:, -1].float() if logits else out.last_hidden_state[:, -1]

    def take(self, rows: Sequence[int]) -> None:
        """Go on with these rows; the same one may be taken more than once."""
        index = torch.tensor(rows)  # on the CPU: layers may lie on several GPUs
        self.cache.batch_select_indices(index)
        self.mask = self.mask[index]
