"""Many answers at once: prompts of one model, decoded greedily together.

For measuring, where only the words and the first token's scores count. What several prompts have
in common, the text before the picture and the same visual tokens, is run once. Every answer is the
one that its prompt would get alone: padding stands on the left of what a row of the cache is given
and is seen by nobody, and each row has its own positions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache

from spare_demo.models.generate.cache import CACHE
from spare_demo.models.generate.decoding import Text, end_ids
from spare_demo.models.generate.passes import Passes
from spare_demo.models.generate.repetition import penalised
from spare_demo.models.generate.rows import image_run, prompt_embeddings
from spare_demo.tokens import where_float64_is

T = TypeVar("T")

_CACHE_BYTES = 2 * 1024**3
_POSITIONS = 8192  # in one pass; with more, the matrices gain nothing and memory is lost
_UNLIKE = 1.25  # the longest part of a batch over its shortest: the rest is padding


def position_bytes(config: Any, dtype: torch.dtype) -> int:
    """What the keys and values of one position take in all layers of a model of this config."""
    text = config.get_text_config()
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    heads = text.num_hidden_layers * text.num_key_value_heads
    return int(2 * heads * width * dtype.itemsize)


def room(hf: Any) -> int:
    """How many positions a batch may have in all, so that its cache fits beside the weights."""
    return _CACHE_BYTES // position_bytes(hf.config, hf.dtype)


@dataclass(frozen=True, eq=False)
class Prompt:
    """input_ids: (1, T) with one unbroken run of image placeholders.
    visual: (r, d) what stands in their place.
    shared: equal for prompts with the same text before the picture and the same `visual`.
    positions: (axes, L) rotary positions of the tokens that enter, CPU; None for 0, 1, 2, …
    """

    input_ids: Tensor
    visual: Tensor
    shared: Hashable
    positions: Tensor | None = None


@dataclass(frozen=True, eq=False)
class ShortAnswer:
    """One answer of a batch: text and tokens as `Answer` has them, and its first scores.

    first_logits: (vocab,) float32, CPU.
    """

    text: str
    token_ids: tuple[int, ...]
    first_logits: Tensor = field(repr=False)


@dataclass(frozen=True)
class Score:
    """Given tokens under one prompt of a batch.

    log_probabilities: of each, after those before it, in nats.
    by_itself: whether the model would write exactly these, unasked.
    """

    log_probabilities: tuple[float, ...]
    by_itself: bool


def decode_batch(
    hf: Any, tokenizer: Any, passes: Passes, prompts: Sequence[Prompt], max_new_tokens: int
) -> Iterator[tuple[int, ShortAnswer]]:
    """Answer every prompt greedily: the number and the answer of each, batch after batch.

    hf, tokenizer, passes: as of `decoding.AnswerRun`.
    prompts: of any lengths; those of similar length run together, equal ones once.
    max_new_tokens: of each answer, at least 1.
    """
    equal: dict[Hashable, list[int]] = {}
    for i, prompt in enumerate(prompts):
        equal.setdefault((prompt.shared, *prompt.input_ids[0].tolist()), []).append(i)
    groups = list(equal.values())

    def answer(batch: _Batch) -> list[ShortAnswer]:
        return batch.answer(tokenizer, max_new_tokens)

    once = [prompts[first] for first, *_ in groups]
    for group, short in _in_batches(hf, passes, once, max_new_tokens, answer):
        yield from ((i, short) for i in groups[group])


def score_batch(
    hf: Any, passes: Passes, prompts: Sequence[Prompt], given: Sequence[int]
) -> Iterator[tuple[int, Score]]:
    """How likely given tokens, at least one, are as the answer to each prompt (teacher forcing).

    The other arguments, and what is yielded, as of `decode_batch`.
    """
    return _in_batches(hf, passes, prompts, len(given), lambda batch: batch.score(given))


def _in_batches(
    hf: Any, passes: Passes, prompts: Sequence[Prompt], new: int, work: Callable[[_Batch], list[T]]
) -> Iterator[tuple[int, T]]:
    """What `work` gives for each prompt, in batches with room for `new` more tokens each."""
    lengths = [
        int((p.input_ids != hf.config.image_token_id).sum()) + len(p.visual) + new for p in prompts
    ]
    for part in _parts(lengths, min(_POSITIONS, room(hf))):
        yield from zip(part, work(_Batch(hf, passes, [prompts[i] for i in part])), strict=True)


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


_Part = tuple[Tensor, Tensor | None]
"""(t, d) rows of a prompt, and their (axes, t) positions; None to go on without gaps."""


def _log_probability(logits: Tensor, token: int) -> Tensor:
    """() float64, in nats: of a token, from (vocab,) scores, on their device.

    On a CPU 40 rows would take 12 ms, with Qwen's vocabulary 55: a GPU's time for the next step.
    """
    scores = where_float64_is(logits).double()
    # Not `log_softmax`, which keeps a single one of a GPU's many processors busy.
    return scores[token] - scores.logsumexp(dim=0)


class _Batch:
    """b prompts and the cache that they fill."""

    def __init__(self, hf: Any, passes: Passes, prompts: Sequence[Prompt]) -> None:
        self.hf, self.passes, self.prompts = hf, passes, prompts
        self._ids: list[list[int]] = [prompt.input_ids[0].tolist() for prompt in prompts]

    def answer(self, tokenizer: Any, max_new_tokens: int) -> list[ShortAnswer]:
        ends = end_ids(self.hf)
        texts = [Text(tokenizer) for _ in self.prompts]
        (cache, first_logits), _ = self.passes.run(self._prefill)
        going, logits = list(range(len(texts))), first_logits
        while True:
            written = [texts[i].ids for i in going]
            for i, token in zip(going, self._likeliest(going, logits, written), strict=True):
                texts[i].add(token)
            open_ = [
                row
                for row, i in enumerate(going)
                if texts[i].ids[-1] not in ends and len(texts[i].ids) < max_new_tokens
            ]
            if not open_:
                break
            if len(open_) < len(going):  # who is done takes no part in the next step
                self.passes.run(partial(cache.take, open_))
                going = [going[row] for row in open_]
            last = [texts[i].ids[-1] for i in going]
            logits, _ = self.passes.run(partial(cache.step, last))
        for text in texts:
            text.rest()
        return [
            ShortAnswer(text.sent, tuple(text.ids), logits)
            for text, logits in zip(texts, first_logits.clone(), strict=True)
        ]

    def score(self, given: Sequence[int]) -> list[Score]:
        (cache, logits), _ = self.passes.run(self._prefill)
        numbers = range(len(self.prompts))
        log_probabilities: list[list[float]] = [[] for _ in numbers]
        # After a token that ends answers the model writes nothing.
        by_itself = [end_ids(self.hf).isdisjoint(given[:-1])] * len(self.prompts)
        for at, token in enumerate(given):
            if at:
                last = [given[at - 1]] * len(self.prompts)
                logits, _ = self.passes.run(partial(cache.step, last))
            shares = torch.stack([_log_probability(row, token) for row in logits]).tolist()
            likeliest = self._likeliest(numbers, logits, [given[:at]] * len(numbers))
            for i, share, own in zip(numbers, shares, likeliest, strict=True):
                log_probabilities[i].append(share)
                by_itself[i] &= own == token
        return [
            Score(tuple(shares), same)
            for shares, same in zip(log_probabilities, by_itself, strict=True)
        ]

    def _likeliest(
        self, numbers: Sequence[int], logits: Tensor, written: Sequence[Sequence[int]]
    ) -> list[int]:
        """The token after each of these prompts and what was written so far, from the (b, vocab)
        logits there. The device is waited for once, not for each."""
        rows = zip(numbers, logits, written, strict=True)
        settings = self.hf.generation_config
        scores = (penalised(settings, row, chain(self._ids[i], said)) for i, row, said in rows)
        tokens: list[int] = torch.stack([row.argmax() for row in scores]).tolist()
        return tokens

    def _prefill(self) -> tuple[PaddedCache, Tensor]:
        """-> the filled cache, and (b, vocab) the first tokens' logits, float32, CPU."""
        parts = [self._split(prompt) for prompt in self.prompts]
        first: dict[Hashable, int] = {}
        heads: list[_Part] = []
        for prompt, (head, _) in zip(self.prompts, parts, strict=True):
            if first.setdefault(prompt.shared, len(heads)) == len(heads):
                heads.append(head)
        cache = PaddedCache(self.hf, len(heads))
        cache.forward(heads, logits=False)
        cache.take([first[p.shared] for p in self.prompts])
        return cache, cache.forward([tail for _, tail in parts]).cpu()

    def _split(self, prompt: Prompt) -> tuple[_Part, _Part]:
        """The text before the picture with the visual tokens, and the text after them."""
        embeds = prompt_embeddings(self.hf, prompt.input_ids, prompt.visual)
        run = image_run(prompt.input_ids, self.hf.config.image_token_id)
        at, places = run.start + len(prompt.visual), prompt.positions
        if places is None:
            return (embeds[:at], None), (embeds[at:], None)
        return (embeds[:at], places[:, :at]), (embeds[at:], places[:, at:])


class PaddedCache:
    """Keys and values of b rows of a language model.

    Attributes:
        cache: of length t, each row's own at its end.
        mask: (b, t) 1 where a row has something.
        next_places: (b,) the position of each row's next token, CPU.
    """

    def __init__(self, hf: Any, rows: int) -> None:
        """An empty cache of so many rows."""
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
            use_cache=True,
            **{CACHE: self.cache},
            **({"logits_to_keep": 1} if logits else {}),
        )
        return out.logits[:, -1].float() if logits else out.last_hidden_state[:, -1]

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows alone; the same one may be taken more than once."""
        index = torch.tensor(rows)  # on the CPU: layers may lie on several GPUs
        self.cache.batch_select_indices(index)
        self.mask, self.next_places = self.mask[index], self.next_places[index]
