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
from functools import partial
from typing import Any, TypeVar

from spare_demo.models.base import Answer
from spare_demo.models.generate.decoding import AnswerRun
from spare_demo.models.generate.joined_cache import JoinedCache
from spare_demo.models.generate.padded_cache import room
from spare_demo.models.generate.passes import OutOfMemory, Passes

Label = TypeVar("Label", bound=Hashable)


def decode_together(
    hf: Any, passes: Passes, runs: Mapping[Label, AnswerRun]
) -> Generator[dict[Label, str | Answer], None, None]:
    """Answer one prompt with each of several sets of rows, greedily.

    Answers whose caches would not fit as one are decoded each by itself.

    Args:
        hf, passes: as of `AnswerRun`.
        runs: the answers, of which nothing was run yet; each `joinable`.

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
