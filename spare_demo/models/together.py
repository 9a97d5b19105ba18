"""Several answers about one picture, each with a prefill of its own, then decoded as one batch.

A step of decoding reads all weights once, for one answer or for three. So the answers with all
tokens and with each method's are worth decoding together. The prefills stay apart, for they are
what pruning changes: each is timed alone, and its own cache is measured before the caches are
padded on the left to one length. Padding is seen by nobody and each row has its own positions, so
every answer is the one that it would be alone.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache

from spare_demo.models.base import Answer
from spare_demo.models.decoding import _end_ids, _Text, cache_bytes
from spare_demo.models.passes import Passes
from spare_demo.models.rows import Rows


@dataclass(frozen=True, eq=False)
class Together:
    """Several answers.

    answers: in the order asked. `decode_seconds` of each are those of the steps that it took part
        in, which were shared; `kv_cache_bytes` is what its own prefill occupied.
    allocated_bytes: what the padded cache of all of them took when decoding began.
    """

    answers: tuple[Answer, ...]
    allocated_bytes: int


def decode_together(
    hf: Any,
    tokenizer: Any,
    passes: Passes,
    input_ids: Tensor,
    rows: Sequence[Rows],
    max_new_tokens: int,
    stop: threading.Event | None = None,
) -> Generator[tuple[str, ...], None, Together]:
    """Answer one prompt with each of several sets of rows, greedily.

    Args:
        hf, tokenizer, passes, input_ids, stop: as in `decoding.decode`.
        rows: what stands in the placeholders' place in each; positions are compact.
        max_new_tokens: of each answer, at least 1.

    Yields:
        after every step a piece of text for each answer, empty where it has none.
    """
    writing = [_Answering(hf, tokenizer, input_ids, each, max_new_tokens) for each in rows]
    if stop is None or not stop.is_set():
        for each in writing:
            _, each.prefill_seconds = passes.run(each.prefill)
            yield tuple(each.choose() if each is other else "" for other in writing)
    batch, allocated = [each for each in writing if each.open], 0
    if batch:
        (cache, mask), _ = passes.run(lambda: _joined(hf, [each.cache for each in batch]))
        allocated = cache_bytes(cache)
    for each in writing:
        each.cache = None  # the batch has it now
    while batch and not (stop is not None and stop.is_set()):
        mask = torch.cat([mask, mask.new_ones(len(batch), 1)], dim=1)

        def step(batch: list[_Answering] = batch, mask: Tensor = mask) -> Tensor:
            ids = torch.tensor([[each.text.ids[-1]] for each in batch], device=hf.device)
            places = mask.sum(dim=1, keepdim=True) - 1
            out = hf(
                input_ids=ids,
                attention_mask=mask,
                position_ids=places,
                past_key_values=cache,
                use_cache=True,
            )
            return out.logits[:, -1].float()

        logits, seconds = passes.run(step)
        pieces = dict.fromkeys(map(id, writing), "")
        for each, scores in zip(batch, logits, strict=True):
            each.logits = scores
            each.decode_seconds += seconds
            pieces[id(each)] = each.choose()
        yield tuple(pieces.values())
        still = [i for i, each in enumerate(batch) if each.open]
        if len(still) < len(batch):  # who is done takes no part in the next step
            keep = torch.tensor(still, dtype=torch.long, device=hf.device)
            cache.batch_select_indices(keep)
            batch, mask = [batch[i] for i in still], mask[keep]
    if any(last := tuple(each.text.rest() for each in writing)):
        yield last
    return Together(tuple(each.answer() for each in writing), allocated)


def _joined(hf: Any, caches: Sequence[Any]) -> tuple[DynamicCache, Tensor]:
    """Caches of one row each -> one of all, padded on the left, and (b, length) where to look."""
    lengths = torch.tensor([cache.get_seq_length() for cache in caches])
    longest = int(lengths.max())
    joined = DynamicCache(config=hf.config)
    for layer in range(len(caches[0].layers)):
        keys, values = (
            torch.cat(
                [
                    pad(part, (0, 0, longest - part.shape[2], 0))
                    for cache in caches
                    for part in [getattr(cache.layers[layer], name)]
                ]
            )
            for name in ("keys", "values")
        )
        joined.update(keys, values, layer)
    mask = torch.arange(longest) >= longest - lengths[:, None]
    return joined, mask.long().to(hf.device)


class _Answering:
    """One of the answers, while it is being written."""

    def __init__(
        self, hf: Any, tokenizer: Any, input_ids: Tensor, rows: Rows, max_new_tokens: int
    ) -> None:
        self.hf, self.input_ids, self.rows, self.longest = hf, input_ids, rows, max_new_tokens
        self.text, self.ends = _Text(tokenizer), _end_ids(hf)
        self.cache: Any = DynamicCache(config=hf.config)
        self.ended: Literal["end", "length", "stop"] = "stop"
        self.open = False
        self.prefill_seconds = self.decode_seconds = 0.0
        self.kv_cache_bytes = 0
        self.logits = self.first_logits = torch.empty(0)
        self.log_probabilities: list[float] = []

    def prefill(self) -> None:
        ids = self.input_ids[0].to(self.hf.device)
        there = (ids == self.hf.config.image_token_id).nonzero().flatten()
        embed, visual = self.hf.get_input_embeddings(), self.rows.values
        before, after = embed(ids[: int(there[0])]), embed(ids[int(there[-1]) + 1 :])
        embeds = torch.cat([before, visual.to(before), after])[None]
        out = self.hf(
            inputs_embeds=embeds, past_key_values=self.cache, use_cache=True, logits_to_keep=1
        )
        self.logits = out.logits[0, -1].float()
        self.kv_cache_bytes = cache_bytes(self.cache)
        self.first_logits = self.logits.cpu()
        self.open = True

    def choose(self) -> str:
        """Take the likeliest next token; the piece of text that it completes."""
        token = int(self.logits.argmax())
        self.log_probabilities.append(float(self.logits.cpu().double().log_softmax(dim=-1)[token]))
        piece = self.text.add(token)
        if token in self.ends or len(self.text.ids) >= self.longest:
            self.ended, self.open = "end" if token in self.ends else "length", False
        return piece

    def answer(self) -> Answer:
        placeholders = int((self.input_ids == self.hf.config.image_token_id).sum())
        layers = self.hf.config.text_config.num_hidden_layers
        return Answer(
            text=self.text.sent,
            token_ids=tuple(self.text.ids),
            prompt_tokens=self.input_ids.shape[1] - placeholders + len(self.rows.values),
            visual_tokens=self.rows.visual,
            newline_tokens=len(self.rows.values) - self.rows.visual,
            prefill_seconds=self.prefill_seconds,
            decode_seconds=self.decode_seconds,
            kv_cache_bytes=self.kv_cache_bytes,
            kept_per_layer=(self.rows.visual,) * layers,
            first_logits=self.first_logits.clone(),
            ended=self.ended,
            log_probabilities=tuple(self.log_probabilities),
        )
