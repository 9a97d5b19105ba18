"""Several answers about one picture, each with a prefill of its own, then decoded together.

What most of a step of decoding goes to, to read the weights and to start each operation, is done
once for all three: so the answers with all tokens and with each method's are decoded together
(`benchmarks/decode.py` compares that with one after the other). The prefills
stay apart, for they are what pruning changes: each is timed alone, and its own cache is measured
before the caches become one (joined_cache.py).

What cannot be joined is decoded a token of each in turn (`in_step`).
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache

from spare_demo.models.base import Answer
from spare_demo.models.generate.captured_prefill import CapturedPrefill
from spare_demo.models.generate.decoding import Text, cache_bytes, end_ids, prefill_kind
from spare_demo.models.generate.joined_cache import JoinedCache
from spare_demo.models.generate.padded_cache import room
from spare_demo.models.generate.passes import OutOfMemory, Passes
from spare_demo.models.generate.prefill_floor import prefill_operations
from spare_demo.models.generate.repetition import penalised
from spare_demo.models.generate.rows import Rows, prompt_embeddings

Label = TypeVar("Label", bound=Hashable)


def decode_together(
    hf: Any,
    tokenizer: Any,
    passes: Passes,
    input_ids: Tensor,
    rows: Mapping[Label, Rows],
    max_new_tokens: int,
    captured_prefill: CapturedPrefill | None = None,
    positions: Mapping[Label, Tensor | None] | None = None,
) -> Generator[dict[Label, str | Answer], None, None]:
    """Answer one prompt with each of several sets of rows, greedily.

    Answers whose caches would not fit as one are decoded each by itself.

    Args:
        hf, tokenizer, passes, input_ids, captured: as in `decoding.decode`.
        rows: what stands in the placeholders' place in each.
        max_new_tokens: of each answer, at least 1.
        positions: by label (1, L), CPU, or None for 0, 1, 2, …; None for all of them so.

    Yields:
        after every pass what came of it, by label: a piece of text, or an `Answer` that is done.
        `decode_seconds` of each answer are those of the steps it took part in.
    """
    writing = {
        label: _Answering(
            hf,
            tokenizer,
            input_ids,
            each,
            max_new_tokens,
            captured_prefill,
            None if positions is None else positions[label],
        )
        for label, each in rows.items()
    }
    weight = hf.get_input_embeddings().weight
    for label, each in writing.items():
        if each.captured is not None:
            passes.run(lambda e=each: e.captured.prepare(e.prompt_tokens, weight))  # type: ignore[misc]
        passes.warm(prefill_kind(each.prompt_tokens, each.captured), each.prefill)
        _, each.prefill_seconds = passes.run(each.prefill)
        yield _choose_next({label: each})
    for batch, cache in _batches(
        hf, passes, {label: each for label, each in writing.items() if each.open}
    ):
        while batch:
            tokens = [each.text.ids[-1] for each in batch.values()]
            logits, seconds = passes.run(lambda c=cache, t=tokens: c.step(t))  # type: ignore[misc]
            for each, each.logits in zip(batch.values(), logits, strict=True):
                each.decode_seconds += seconds
            yield _choose_next(batch)
            still = [i for i, each in enumerate(batch.values()) if each.open]
            if 0 < len(still) < len(batch):  # who is done takes no part in the next step
                passes.run(lambda c=cache, s=still: c.take(s))  # type: ignore[misc]
            batch = {label: each for label, each in batch.items() if each.open}


def in_step(
    alone: Mapping[Label, Generator[str, None, Answer]],
) -> Generator[dict[Label, str | Answer], None, None]:
    """Answers made each by itself, a piece of each in turn; yields as `decode_together`."""
    going = dict(alone)
    while going:
        for label, pieces in list(going.items()):
            try:
                yield {label: next(pieces)}
            except StopIteration as end:
                del going[label]
                yield {label: end.value}


def _batches(
    hf: Any, passes: Passes, open_: dict[Label, _Answering]
) -> list[tuple[dict[Label, _Answering], JoinedCache]]:
    """The answers with the caches to decode them in: all as one where that fits."""
    answerings = list(open_.values())
    if not answerings:
        return []
    positions = sum(each.cache.get_seq_length() + each.longest for each in answerings)
    alone = [{label: each} for label, each in open_.items()]
    parts = [open_] if positions <= room(hf) else alone

    def join(part: dict[Label, _Answering]) -> JoinedCache:
        caches, more = [e.cache for e in part.values()], max(e.longest for e in part.values())
        places = [e.next_place for e in part.values()]
        joined = passes.run(lambda: JoinedCache(hf, caches, more, places))[0]
        for each, bytes_taken in zip(part.values(), joined.bytes, strict=True):
            each.allocated_bytes = each.static + bytes_taken
            each.cache = None  # it is part of the joined one now
        return joined

    try:
        return [(part, join(part)) for part in parts]
    except OutOfMemory:  # of a single one there is nothing to join
        return [(part, join(part)) for part in alone]


def _choose_next(batch: Mapping[Label, _Answering]) -> dict[Label, str | Answer]:
    """Choose every answer's next token; the piece of text, or the whole answer at its end."""
    pieces: dict[Label, str | Answer] = {}
    for label, each in batch.items():
        piece = each.choose()
        pieces[label] = piece if each.open else each.answer()
    return pieces


class _Answering:
    """One of the answers, while it is being written."""

    def __init__(
        self,
        hf: Any,
        tokenizer: Any,
        input_ids: Tensor,
        rows: Rows,
        max_new_tokens: int,
        captured_prefill: CapturedPrefill | None,
        positions: Tensor | None,
    ) -> None:
        self.hf, self.input_ids, self.rows, self.longest = hf, input_ids, rows, max_new_tokens
        self.text, self.ends, self.positions = Text(tokenizer), end_ids(hf), positions
        # What is captured has compact positions.
        self.captured = captured_prefill if positions is None else None
        self.cache: Any = None
        self.ended: Literal["end", "length"] = "length"
        self.open = False
        self.prefill_seconds = self.decode_seconds = 0.0
        self.operations = 0
        self.kv_cache_bytes = self.static = self.allocated_bytes = 0
        self.logits = self.first_logits = torch.empty(0)
        self.log_probabilities: list[float] = []

    @property
    def prompt_tokens(self) -> int:
        placeholders = int((self.input_ids == self.hf.config.image_token_id).sum())
        return self.input_ids.shape[1] - placeholders + len(self.rows.values)

    @property
    def next_place(self) -> int:
        """The position of the token after the prompt."""
        return self.prompt_tokens if self.positions is None else int(self.positions[0, -1]) + 1

    def prefill(self) -> None:
        """Read the prompt into a new cache, whatever was there before."""
        self.cache = DynamicCache(config=self.hf.config)
        embeds = prompt_embeddings(self.hf, self.input_ids, self.rows.values)[None]
        if self.captured is not None:
            prefill_result = self.captured(embeds)
            self.logits, self.cache, self.static = (
                prefill_result.logits,
                prefill_result.cache,
                prefill_result.allocated_bytes,
            )
        else:
            own = self.positions
            out = self.hf(
                inputs_embeds=embeds,
                past_key_values=self.cache,
                use_cache=True,
                logits_to_keep=1,
                **({} if own is None else {"position_ids": own.to(embeds.device)}),
            )
            self.logits = out.logits[0, -1].float()
        self.kv_cache_bytes = cache_bytes(self.cache)
        self.operations = prefill_operations(self.hf, [embeds.shape[1]] * self._layers)
        self.first_logits = self.logits.cpu()
        self.open = True

    @property
    def _layers(self) -> int:
        return int(self.hf.config.text_config.num_hidden_layers)

    def choose(self) -> str:
        """Take the likeliest next token; the piece of text that it completes."""
        so_far = [*self.input_ids[0].tolist(), *self.text.ids]
        token = int(penalised(self.hf, self.logits, so_far).argmax())
        self.log_probabilities.append(float(self.logits.cpu().double().log_softmax(dim=-1)[token]))
        piece = self.text.add(token)
        if token in self.ends or len(self.text.ids) >= self.longest:
            self.ended, self.open = "end" if token in self.ends else "length", False
        return piece

    def answer(self) -> Answer:
        """What there is of it, when it is done."""
        self.text.rest()
        return Answer(
            text=self.text.sent,
            token_ids=tuple(self.text.ids),
            prompt_tokens=self.prompt_tokens,
            visual_tokens=self.rows.visual,
            newline_tokens=len(self.rows.values) - self.rows.visual,
            prefill_seconds=self.prefill_seconds,
            decode_seconds=self.decode_seconds,
            prefill_operations=self.operations,
            kv_cache_bytes=self.kv_cache_bytes,
            allocated_bytes=self.allocated_bytes,
            kept_per_layer=(self.rows.visual,) * self._layers,
            first_logits=self.first_logits.clone(),
            ended=self.ended,
            log_probabilities=tuple(self.log_probabilities),
        )
