"""Balanced attention: a named property must not count for or against one that is not named.

Where attention looks for red it also scores circles lower: in training nothing red is a circle, and
what never meets is laid opposite one another in a head's few dimensions. So red circles are looked
past. Here it is measured what each value (a colour, a shape, a number) adds to the states of a
patch, and what naming it adds to those of a prompt's last token. From these follow the scores
between all of them, head by head. Those within a kind are what finding lives on and are held where
they were; those of a shape with a colour or a number are drawn to 0, first by one change of the
queries' and keys' weights, then by a loss beside that of the answers. No pair is singled out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import rotate_half

from spare_demo.scenes.training.architecture import GRID
from spare_demo.scenes.training.held_out_pairs import named_in
from spare_demo.scenes.training.patches import CLASSES
from spare_demo.scenes.world import COLOURS, SHAPES

LAYERS = (1, 2)
"""The decoder's layers whose attention is balanced: those that look for what is named."""
VALUES = (*COLOURS, *SHAPES, *map(str, range(10)))
_KINDS = (len(COLOURS), len(SHAPES), 10)
_PLACES = torch.arange(0, GRID * GRID, GRID)  # of the patches at which scores are compared
_BEHIND = GRID * GRID + 8  # a question's last token, about so far behind the first of them
_RIDGE = 1e-5
# How much less a reading of patches is kept from answering to words than to patches, and likewise;
# and how much less of a question's other tokens than of its last.
_ELSEWHERE, _OTHER = 1e-2, 0.05
# Of finding the first change: what it costs to change vectors by their own length, against the
# scores left over; steps and their rate.
_COST, _STEPS, _RATE = 0.1, 1000, 0.02


def named_values(text: str) -> tuple[bool, ...]:
    """Which of `VALUES` a question names."""
    colours, shapes, numbers = named_in(text)
    return tuple(value in colours | shapes | numbers for value in VALUES)


def named_so_far(data: dict[str, Tensor], tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """(B, T, 26) bool: which of `VALUES` each question names up to a token."""
    named = torch.zeros(*data["ids"].shape, len(VALUES), dtype=torch.bool)
    for row, (ids, owner) in enumerate(zip(data["ids"].cpu(), data["owner"].cpu(), strict=True)):
        for index in range(int(owner.max()) + 1):
            at = (owner == index).nonzero()[:, 0].tolist()
            for end in range(len(at)):
                text = str(tokenizer.decode(ids[at[: end + 1]]))
                named[row, at[end]] = torch.tensor(named_values(text.split("?")[0]))
    return named.to(data["ids"].device)


def values_of(targets: Tensor) -> Tensor:
    """(…, 26) float, 1 for each of `VALUES` that lies at a patch.

    Args:
        targets: (…, 5) as `patches.patch_targets` gives them.
    """
    classes = dict(zip(CLASSES, targets.unbind(-1), strict=True))
    parts = [
        classes[what][..., None] == torch.arange(1, 1 + count, device=targets.device)
        for what, count in zip(("colour", "shape", "print"), _KINDS, strict=True)
    ]
    return torch.cat(parts, -1).float()


def held() -> Tensor:
    """(26, 26) bool: the scores, of word by thing, that stay: all but those of a shape with a
    colour or a number, the pairs of kinds of which some are kept back."""
    kind = torch.arange(len(_KINDS)).repeat_interleave(torch.tensor(_KINDS))
    return (kind[:, None] == kind) | ((kind[:, None] != 1) & (kind != 1))


class _Fit:
    """Least squares of what comes bit by bit: (n, a) states or flags to (n, b), in float64."""

    def __init__(self, width: int, out: int) -> None:
        self.gram = torch.zeros(width, width, dtype=torch.float64)
        self.with_out = torch.zeros(width, out, dtype=torch.float64)
        self.count = 0.0

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None:
        weighted = (weight[:, None] * x).double().cpu()
        self.gram += weighted.T @ x.double().cpu()
        self.with_out += weighted.T @ y.double().cpu()
        self.count += float(weight.sum())

    def spread(self) -> Tensor:
        return self.gram / self.count

    def solved(self, also: Tensor | float = 0.0) -> Tensor:
        """(a, b) float32; ``also`` is a spread of x for which nothing is to be answered."""
        gram = self.spread() + also + _RIDGE * torch.eye(len(self.gram), dtype=torch.float64)
        return torch.linalg.solve(gram, self.with_out / self.count).float()


class Measure:
    """What one layer's states, of a ``width``, tell of things and of words, and what those add."""

    def __init__(self, width: int) -> None:
        count = len(VALUES)
        self.adds, self.word_adds = _Fit(count + 2, width), _Fit(count + 1, width)
        self.reads, self.word_reads = _Fit(width, count), _Fit(width, count)

    def look(self, patches: Tensor, targets: Tensor) -> None:
        """States (n, w) of patches as attention is given them, and their targets (n, 5)."""
        values, one = values_of(targets), torch.ones(len(targets), 1, device=targets.device)
        printed = dict(zip(CLASSES, targets.unbind(-1), strict=True))["print"]
        word = (printed > _KINDS[-1]).float()[:, None]
        covered = (targets[:, 0] != 0).float()
        self.adds.add(torch.cat([values, word, one], 1), patches, covered)
        self.reads.add(patches, values, one[:, 0])

    def listen(self, tokens: Tensor, named: Tensor, last: Tensor) -> None:
        """States (n, w) of questions' tokens, what is ``named`` up to them (n, 26), and which are
        a prompt's ``last``."""
        named, last = named.float(), last.float()
        self.word_adds.add(torch.cat([named, torch.ones_like(named[:, :1])], 1), tokens, last)
        self.word_reads.add(tokens, named, last + _OTHER * (1 - last))

    def adding(self) -> tuple[Tensor, Tensor]:
        """(26, w) each: what words add to a prompt's last token, and what things, beside the mean
        of their kind, add to a patch."""
        count = len(VALUES)
        kinds = self.adds.solved()[:count].split(_KINDS)
        return self.word_adds.solved()[:count], torch.cat([kind - kind.mean(0) for kind in kinds])

    def reading(self) -> tuple[Tensor, Tensor]:
        """(w, 26) each: from states to what is named, and to what lies there."""
        words = self.word_reads.solved(_ELSEWHERE * self.reads.spread())
        return words, self.reads.solved(_ELSEWHERE * self.word_reads.spread())


class AttentionBalance(nn.Module):
    """Holds what was measured and the scores aimed at, (layers, places, heads, 26, 26)."""

    words: Tensor
    things: Tensor
    goals: Tensor

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        adds = torch.zeros(len(LAYERS), len(VALUES), width)
        self.register_buffer("words", adds)
        self.register_buffer("things", adds.clone())
        shape = (len(LAYERS), len(_PLACES), heads, len(VALUES), len(VALUES))
        self.register_buffer("goals", torch.zeros(shape))

    @torch.no_grad()
    def begin(self, decoder: Any, measures: list[Measure]) -> None:
        """Takes over what was measured of `LAYERS`, and changes the decoder's weights at once as
        far as linear readings of things and words allow."""
        for at, (layer, measure) in enumerate(zip(LAYERS, measures, strict=True)):
            self.words[at], self.things[at] = measure.adding()
            attention = decoder.layers[layer].self_attn
            queries, keys = self._vectors(at, attention)
            self.goals[at] = held().to(queries) * _scores(decoder, queries, keys)
            changed = _first_change(decoder, queries, keys, self.goals[at])
            projections = attention.q_proj.weight, attention.k_proj.weight
            readings = measure.reading()
            for weight, change, reading in zip(projections, changed, readings, strict=True):
                weight += change.T @ reading.T.to(change)

    def forward(self, decoder: Any) -> Tensor:
        """How far scores are off those aimed at: mean squares, summed over layers and heads."""
        off = [
            _scores(decoder, *self._vectors(at, decoder.layers[layer].self_attn)) - self.goals[at]
            for at, layer in enumerate(LAYERS)
        ]
        return torch.stack(off).square().mean((1, 3, 4)).sum()

    def _vectors(self, at: int, attention: Any) -> tuple[Tensor, Tensor]:
        """(26, w) queries of words and keys of things."""
        return attention.q_proj(self.words[at]), attention.k_proj(self.things[at])


def _scores(decoder: Any, queries: Tensor, keys: Tensor) -> Tensor:
    """(places, heads, 26, 26) attention scores before softmax, of queries and keys (26, w)."""
    scale = decoder.layers[0].self_attn.scaling
    query = _turned(decoder, queries, torch.tensor([_BEHIND]))
    return scale * query @ _turned(decoder, keys, _PLACES).mT


def _turned(decoder: Any, vectors: Tensor, places: Tensor) -> Tensor:
    """(n, w) to (places, heads, n, w / heads), rotated as attention does at each place."""
    at = places[None].to(vectors.device)
    cos, sin = (part[0][:, None, None] for part in decoder.rotary_emb(vectors, at))
    heads = _by_head(decoder, vectors)
    return heads * cos + rotate_half(heads) * sin


@torch.enable_grad()
def _first_change(
    decoder: Any, queries: Tensor, keys: Tensor, goals: Tensor
) -> tuple[Tensor, Tensor]:
    """What to add to queries and keys (26, w) for scores near ``goals`` and vectors near those that
    were: every head weighs the two by itself."""
    old = queries.detach(), keys.detach()
    new = [vectors.clone().requires_grad_() for vectors in old]
    optimiser = torch.optim.Adam(new, lr=_RATE)
    sizes = [_squares(decoder, vectors).mean() for vectors in old]
    for _ in range(_STEPS):
        loss = (_scores(decoder, *new) - goals).square().mean((0, 2, 3)).sum()
        for vectors, before, size in zip(new, old, sizes, strict=True):
            loss = loss + _COST * (_squares(decoder, vectors - before) / size).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return new[0].detach() - old[0], new[1].detach() - old[1]


def _squares(decoder: Any, vectors: Tensor) -> Tensor:
    """(n, w) to (heads,): the sum of squares in each head."""
    return _by_head(decoder, vectors).square().sum((1, 2))


def _by_head(decoder: Any, vectors: Tensor) -> Tensor:
    """(n, w) to (heads, n, w / heads)."""
    heads = decoder.config.num_attention_heads
    return vectors.view(len(vectors), heads, -1).transpose(0, 1)
