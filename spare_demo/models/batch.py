"""Many answers at once: prompts of one model, decoded greedily together.

For measuring, where only the words and the first token's scores count. What several prompts have
in common, the text before the picture and the same visual tokens, is run once. Padding stands on
the left of either part and is seen by nobody; each row has its own positions. So every answer is
the one that its prompt would get alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from spare_demo.models.decoding import _end_ids, _Text
from spare_demo.models.passes import Passes

_CACHE_BYTES = 2 * 1024**3
_POSITIONS = 8192  # in one pass; with more, the matrices gain nothing and memory is lost
_UNLIKE = 1.25  # the longest part of a batch over its shortest: the rest is padding


@dataclass(frozen=True, eq=False)
class Prompt:
    """input_ids: (1, T) with one unbroken run of image placeholders.
    visual: (r, d) what stands in their place.
    shared: equal for prompts with the same text before the picture and the same `visual`.
    """

    input_ids: Tensor
    visual: Tensor
    shared: Hashable


@dataclass(frozen=True, eq=False)
class Said:
    """One answer of a batch: text and tokens as `Answer` has them, and its first scores.

    first_logits: (vocab,) float32, CPU.
    """

    text: str
    token_ids: tuple[int, ...]
    first_logits: Tensor


def decode_batch(
    hf: Any,
    tokenizer: Any,
    passes: Passes,
    prompts: Sequence[Prompt],
    max_new_tokens: int,
) -> list[Said]:
    """Answer every prompt greedily.

    Args:
        hf, tokenizer, passes: as in `decoding.decode`.
        prompts: of any lengths; those of similar length run together.
        max_new_tokens: of each answer, at least 1.

    Returns:
        one answer per prompt, in their order.
    """
    lengths = [
        int((p.input_ids != hf.config.image_token_id).sum()) + len(p.visual) + max_new_tokens
        for p in prompts
    ]
    said: dict[int, Said] = {}
    for part in _parts(lengths, _room(hf)):
        with_new = [prompts[i] for i in part]
        said |= zip(part, _Batch(hf, tokenizer, passes, with_new).run(max_new_tokens), strict=True)
    return [said[i] for i in range(len(prompts))]


def _room(hf: Any) -> int:
    """How many positions a batch may have in all, so that its cache fits beside the weights."""
    text = hf.config.text_config
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    per_position = 2 * text.num_hidden_layers * text.num_key_value_heads * width * hf.dtype.itemsize
    return min(_POSITIONS, _CACHE_BYTES // per_position)


def _parts(lengths: Sequence[int], room: int) -> list[list[int]]:
    """The prompts' numbers in batches of similar length, each within `room` if more than one."""
    parts: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        # Ascending, so this one's length is that of the padded batch.
        fits = parts and lengths[i] * (len(parts[-1]) + 1) <= room
        if fits and lengths[i] <= _UNLIKE * lengths[parts[-1][0]]:
            parts[-1].append(i)
        else:
            parts.append([i])
    return parts


class _Batch:
    """b prompts and the cache that they fill."""

    def __init__(
        self,
        hf: Any,
        tokenizer: Any,
        passes: Passes,
        prompts: Sequence[Prompt],
    ) -> None:
        self.hf, self.tokenizer, self.passes, self.prompts = hf, tokenizer, passes, prompts
        self.cache = DynamicCache(config=hf.config)
        self.mask = torch.zeros(0, 0, dtype=torch.long, device=hf.device)  # (b, cached) 1: seen

    def run(self, max_new_tokens: int) -> list[Said]:
        ends = _end_ids(self.hf)
        texts = [_Text(self.tokenizer) for _ in self.prompts]
        (tokens, first_logits), _ = self.passes.run(self._prefill)
        unfinished = set(range(len(texts)))
        while True:
            for i in sorted(unfinished):
                token = int(tokens[i])
                texts[i].add(token)
                if token in ends or len(texts[i].ids) >= max_new_tokens:
                    unfinished.discard(i)
            if not unfinished:
                break
            tokens, _ = self.passes.run(lambda tokens=tokens: self._step(tokens))  # type: ignore[misc]
        for text in texts:
            text.rest()
        return [
            Said(text.sent, tuple(text.ids), logits)
            for text, logits in zip(texts, first_logits.clone(), strict=True)
        ]

    def _prefill(self) -> tuple[Tensor, Tensor]:
        """-> (b,) first tokens, (b, vocab) their logits, float32, CPU."""
        parts = [self._split(prompt) for prompt in self.prompts]
        first: dict[Hashable, int] = {}
        heads: list[Tensor] = []
        for prompt, (head, _) in zip(self.prompts, parts, strict=True):
            if first.setdefault(prompt.shared, len(heads)) == len(heads):
                heads.append(head)
        self.mask = self.mask.new_zeros(len(heads), 0)
        self._forward(heads, logits=False)
        rows = torch.tensor([first[p.shared] for p in self.prompts], device=self.hf.device)
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]
        logits = self._forward([tail for _, tail in parts])
        return logits.argmax(-1).cpu(), logits.cpu()

    def _step(self, tokens: Tensor) -> Tensor:
        """(b,) the tokens chosen last -> (b,) those that follow."""
        rows = self.hf.get_input_embeddings()(tokens.to(self.hf.device))
        return self._forward(list(rows[:, None])).argmax(-1).cpu()

    def _forward(self, rows: list[Tensor], logits: bool = True) -> Tensor:
        """One pass over the next (t_i, d) of every row -> (b, vocab) float32 at their ends."""
        longest = max(len(row) for row in rows)
        inputs = rows[0].new_zeros(len(rows), longest, rows[0].shape[1])
        new = self.mask.new_zeros(len(rows), longest)
        for i, row in enumerate(rows):
            inputs[i, longest - len(row) :] = row
            new[i, longest - len(row) :] = 1
        self.mask = torch.cat([self.mask, new], dim=1)
        places = (self.mask.cumsum(1) - 1).clamp_min(0)[:, -longest:]
        run = self.hf if logits else self.hf.model
        out = run(
            inputs_embeds=inputs,
            attention_mask=self.mask,
            position_ids=places,
            past_key_values=self.cache,
            use_cache=True,
            **({"logits_to_keep": 1} if logits else {}),
        )
        return out.logits[:, -1].float() if logits else out.last_hidden_state[:, -1]

    def _split(self, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """(t, d) text before the picture with the visual tokens, (t', d) the text after them."""
        ids = prompt.input_ids[0].to(self.hf.device)
        there = (ids == self.hf.config.image_token_id).nonzero().flatten()
        first, last = int(there[0]), int(there[-1])
        embed = self.hf.get_input_embeddings()
        visual = prompt.visual.to(self.hf.device, self.hf.dtype)
        return torch.cat([embed(ids[:first]), visual]), embed(ids[last + 1 :])
