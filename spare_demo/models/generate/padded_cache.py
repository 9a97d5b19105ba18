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


def position_bytes(config: Any, dtype: torch.dtype) -> int:
    """What the keys and values of one position take in all layers of a model of this config."""
    text = config.get_text_config()
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    heads = text.num_hidden_layers * text.num_key_value_heads
    return int(2 * heads * width * dtype.itemsize)


def room(hf: Any) -> int:
    """How many positions a batch may have in all, so that its cache fits beside the weights."""
    return _CACHE_BYTES // position_bytes(hf.config, hf.dtype)


class PaddedCache:
    """Keys and values of b rows of a language model.

    Attributes:
        cache: of length t, each row's own at its end.
        mask: (b, t) 1 where a row has something.
        next_places: (b,) the position of each row's next token, CPU.
    """

    def __init__(self, hf: Any, rows: int) -> None:
        """So many rows, empty."""
        self._hf = hf
        self.cache: Any = DynamicCache(config=hf.config)
        self.mask = torch.zeros(rows, 0, dtype=torch.long, device=hf.device)
        self.next_places = torch.zeros(rows, dtype=torch.long)

    def forward(self, rows: Sequence[tuple[Tensor, Tensor | None]], logits: bool = True) -> Tensor:
        """One pass over the next tokens of every row -> (b, vocab) float32 at their ends, or the
        (b, d) states there without `logits`.

        rows: (t_i, d) of each, with their (axes, t_i) positions; None to go on without gaps. At
            a prompt's last token the axes agree.
        """
        longest = max(len(row) for row, _ in rows)
        one = rows[0][0]
        inputs = one.new_zeros(len(rows), longest, one.shape[1])
        new = self.mask.new_zeros(len(rows), longest)
        axes = max(1 if own is None else len(own) for _, own in rows)
        position_ids = torch.zeros(axes, len(rows), longest, dtype=torch.long)
        for i, (row, own) in enumerate(rows):
            inputs[i, longest - len(row) :] = row
            new[i, longest - len(row) :] = 1
            without_gaps = self.next_places[i] + torch.arange(len(row))
            position_ids[:, i, longest - len(row) :] = without_gaps if own is None else own
        self.mask = torch.cat([self.mask, new], dim=1)
        self.next_places = position_ids[0, :, -1] + 1
        places = position_ids if axes > 1 else position_ids[0]
        return self._run(inputs, self.mask, places.to(self._hf.device), logits)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """The b tokens chosen last -> (b, vocab) float32 scores of those that follow."""
        ids = torch.tensor(tokens, device=self._hf.device)
        inputs = self._hf.get_input_embeddings()(ids)[:, None]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        # What one position may see: transformers takes longer to make it.
        hidden = (self.mask == 0)[:, None, None]
        bias = torch.zeros_like(hidden, dtype=inputs.dtype).masked_fill_(hidden, -torch.inf)
        places = self.next_places[:, None].to(self._hf.device)
        self.next_places = self.next_places + 1
        return self._run(inputs, bias, places)

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
        self.mask, self.next_places = self.mask[index], self.next_places[index]
