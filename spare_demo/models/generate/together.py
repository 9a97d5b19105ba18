"""Several answers about one picture, each with a prefill of its own, then decoded together.

What most of a step of decoding goes to, to read the weights and to start each operation, is done
once for all three: so the answers with all tokens and with each method's are decoded together
(`benchmarks/decode.py` compares that with one after the other). The prefills
stay apart, for they are what pruning changes: each is timed alone, and its own cache is measured
before the caches become one.

The caches lie end to end as one row. A mask lets each answer's token see what is its own, and each
has its own position: it gets what it would get alone. Rows of a batch would have to be padded to
the longest, and most of what a step then reads of a pruned answer's cache would be padding.

What cannot be joined is decoded a token of each in turn (`in_step`).
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from spare_demo.models.base import Answer
from spare_demo.models.generate.batch import room
from spare_demo.models.generate.cache import CACHE, cache_bytes
from spare_demo.models.generate.decoding import AnswerRun
from spare_demo.models.generate.passes import OutOfMemory, Passes

Label = TypeVar("Label", bound=Hashable)


def decode_together(
    hf: Any, passes: Passes, runs: Mapping[Label, AnswerRun]
) -> Generator[dict[Label, str | Answer], None, None]:
    """Answer one prompt with each of several sets of rows, greedily.

    Answers whose caches would not fit as one are decoded each by itself.

    hf, passes: as of `AnswerRun`. runs: of which nothing was run yet; each `joinable`.

    Yields:
        after every pass what came of it, by label: a piece of text, or an `Answer` that is done.
        `decode_seconds` of each answer are those of the steps it took part in.
    """
    # The shortest prompt first: a reader has its words while the whole one is still being read.
    for label, run in sorted(runs.items(), key=lambda item: item[1].prompt_tokens):
        run.prefill()
        yield _choose_next({label: run})
    for batch, cache in _batches(hf, passes, _open(runs)):
        while batch:
            tokens = [run.text.ids[-1] for run in batch.values()]
            logits, seconds = passes.run(partial(cache.step, tokens))
            for run, run.logits in zip(batch.values(), logits, strict=True):
                run.decode_seconds += seconds
            yield _choose_next(batch)
            still = [i for i, run in enumerate(batch.values()) if run.open]
            if 0 < len(still) < len(batch):  # who is done takes no part in the next step
                passes.run(partial(cache.take, still))
            batch = _open(batch)


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


def _open(runs: Mapping[Label, AnswerRun]) -> dict[Label, AnswerRun]:
    return {label: run for label, run in runs.items() if run.open}


def _batches(
    hf: Any, passes: Passes, runs: dict[Label, AnswerRun]
) -> list[tuple[dict[Label, AnswerRun], JoinedCache]]:
    """The answers with the caches to decode them in: all as one where that fits."""
    if not runs:
        return []
    positions = sum(run.cache.get_seq_length() + run.longest for run in runs.values())
    alone = [{label: run} for label, run in runs.items()]
    parts = [runs] if positions <= room(hf) else alone

    def join(part: dict[Label, AnswerRun]) -> JoinedCache:
        caches, more = [run.cache for run in part.values()], max(r.longest for r in part.values())
        places = [run.next_place for run in part.values()]
        joined = passes.run(lambda: JoinedCache(hf, caches, more, places))[0]
        for run, bytes_taken in zip(part.values(), joined.bytes, strict=True):
            run.allocated_bytes = run.static_bytes + bytes_taken
            run.cache = None  # it is part of the joined one now
        return joined

    try:
        return [(part, join(part)) for part in parts]
    except OutOfMemory:  # of a single one there is nothing to join
        return [(part, join(part)) for part in alone]


def _choose_next(batch: Mapping[Label, AnswerRun]) -> dict[Label, str | Answer]:
    """Choose every answer's next token; the piece of text, or the whole answer at its end."""
    pieces: dict[Label, str | Answer] = {}
    for label, run in batch.items():
        piece = run.choose()
        if not run.open:
            run.text.rest()
        pieces[label] = piece if run.open else run.answer()
    return pieces


class _RoomyLayer(DynamicLayer):
    """Keys and values with room for those to come: a step writes its own and copies no others."""

    def __init__(self, parts: Sequence[Any], more: int) -> None:
        """One layer of caches of one row each, with room for ``more`` positions."""
        super().__init__()
        one = parts[0].keys
        self.lazy_initialization(one, parts[0].values)
        length = sum(part.keys.shape[2] for part in parts)
        space = one.new_empty(2, 1, one.shape[1], length + more, one.shape[3])
        # Taken apart once: whatever a step does here it does in every layer.
        self._keys, self._values = space
        self._show(0)
        for part in parts:  # by copies: MPS has got concatenation into a strided slice wrong
            self.update(part.keys, part.values)

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
        """Keep these positions alone."""
        for space in (self._keys, self._values):
            space.narrow(2, 0, len(index)).copy_(space[:, :, index])
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
            use_cache=True,
            **{CACHE: self.cache},
        )
        self.places = self.places + 1
        logits: Tensor = out.logits[0].float()
        return logits

    def take(self, rows: Sequence[int]) -> None:
        """Keep these answers alone."""
        index = torch.tensor(rows)
        self.mask, self.places = self.mask[index], self.places[index]
        self._next = self._next[index][:, index]
        kept = (self.mask == 0).any(0).nonzero()[:, 0].cpu()  # layers may lie on several GPUs
        self.mask = self.mask[:, kept]
        for layer in self.cache.layers:
            layer.keep(kept)
