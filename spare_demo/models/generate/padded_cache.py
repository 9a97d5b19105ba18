"""The cache of many rows decoded as one batch, and the passes that fill it.

Padding stands on the left of what each row is given and is seen by nobody, and each row has its
own positions: every row gets what it would get alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

_CACHE_BYTES = 2 * 1024**3


def room(hf: Any) -> int:
    """How many positions a batch may have in all, so that its cache fits beside the weights."""
    text = hf.config.text_config
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    per_position = 2 * text.num_hidden_layers * text.num_key_value_heads * width * hf.dtype.itemsize
    return int(_CACHE_BYTES // per_position)


class PaddedCache:
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
        hidden = (self.mask == 0)[:, None, None]
        bias = torch.zeros_like(hidden, dtype=inputs.dtype).masked_fill_(hidden, -torch.inf)
        return self._run(inputs, bias, self.mask.sum(1, keepdim=True) - 1)

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
