"""Slow references for methods inside the language model: no cache, whole attention matrices, loops.

All in the precision of what they are given; the tests give float64. Rows are those of one prompt,
(T, d), without a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import torch
from torch import Tensor

from spare_demo.pruners.plan import LayerPlan, Stop


def attention_matrix(decoder: Any, layer: Any, states: Tensor, positions: Tensor) -> Tensor:
    """(heads, T, T) softmaxed causal attention of a layer, from its weights."""
    config, attention = decoder.config, layer.self_attn
    x = layer.input_layernorm(states)
    width = attention.head_dim
    query = attention.q_proj(x).view(len(x), -1, width)
    key = attention.k_proj(x).view(len(x), -1, width)
    group = query.shape[1] // key.shape[1]
    theta = config.rope_parameters["rope_theta"]
    out = []
    for head in range(query.shape[1]):
        q = turned(query[:, head], positions, theta)
        k = turned(key[:, head // group], positions, theta)
        scores = q @ k.T / math.sqrt(width)
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        out.append(scores.softmax(dim=1))
    return torch.stack(out)


def key_matrix(decoder: Any, layer: Any, states: Tensor, positions: Tensor) -> Tensor:
    """(T, kv heads times width) rotated keys of a layer."""
    width, theta = layer.self_attn.head_dim, decoder.config.rope_parameters["rope_theta"]
    key = layer.self_attn.k_proj(layer.input_layernorm(states)).view(len(states), -1, width)
    return torch.cat([turned(key[:, h], positions, theta) for h in range(key.shape[1])], dim=1)


def turned(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """(T, h) vectors turned by their positions, as complex numbers x_f + i x_(f + h/2)."""
    half = x.shape[1] // 2
    speed = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = positions[:, None].to(x.dtype) * speed
    z = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], dim=1)


PACKED = ("pyramiddrop", "sparsevlm")
"""Methods whose rows get new positions without gaps; in the others they keep their own."""


@dataclass
class Place:
    """Where a run stands when a method chooses."""

    decoder: Any
    index: int
    before: Tensor
    hidden: Tensor
    positions: Tensor
    first: int
    visual: int
    inputs: Tensor
    n: int

    @property
    def end(self) -> int:
        return self.first + self.visual

    def attention(self, ahead: bool = False) -> Tensor:
        layer = self.decoder.layers[self.index if ahead else self.index - 1]
        states = self.hidden if ahead else self.before
        return attention_matrix(self.decoder, layer, states, self.positions)


def top(scores: Tensor, k: int) -> list[int]:
    """The k highest, ties to the lower index."""
    return sorted(range(len(scores)), key=lambda i: (-float(scores[i]), i))[:k]


def fastv(place: Place, stop: Stop, ahead: bool = False) -> tuple[list[int], Tensor | None]:
    mean = place.attention(ahead).mean(dim=0)
    return top(mean[-1, place.first : place.end], stop.keep), None


def rater_indices(place: Place) -> list[int]:
    """Rows of the text after the picture, of those that stand out, counted from its start."""
    image = place.inputs[place.first : place.first + place.n]
    text = place.inputs[place.first + place.n :]
    r = torch.zeros(len(text), dtype=image.dtype)
    for v in image:
        logits = torch.stack([v @ t for t in text])
        r += logits.softmax(dim=0) / len(image)
    return [j for j in range(len(text)) if r[j] > r.mean()]


def sparsevlm(place: Place, stop: Stop) -> tuple[list[int], Tensor | None]:
    rows = [place.end + j for j in rater_indices(place)]
    attention = place.attention()
    scores = attention[:, rows, place.first : place.end].mean(dim=0).mean(dim=0)
    kept = top(scores, stop.keep)
    dropped = [i for i in range(place.visual) if i not in kept]
    ranked = sorted(dropped, key=lambda i: (-float(scores[i]), i))
    again = ranked[: min(len(dropped), int(0.3 * len(dropped)) + 1)]
    assert stop.merged == len(again) // 10 + 1
    states = place.hidden[place.first : place.end]
    merge = torch.zeros(stop.merged, place.visual, dtype=states.dtype)
    for row, members in enumerate(density_peaks(states[again], stop.merged)):
        for member in members:
            merge[row, again[member]] = 1 / (len(members) + 1e-6)
    return kept, merge


def density_peaks(states: Tensor, count: int) -> list[list[int]]:
    """DPC-kNN: the members of each cluster, clusters by their centre's rank."""
    s, d = states.shape
    distance = [
        [float((states[i] - states[j]).norm()) / math.sqrt(d) for j in range(s)] for i in range(s)
    ]
    farthest = max(max(row) for row in distance)
    # Decimals, because exp(-1000) is 0 as a float.
    density = [
        Decimal(-sum(x * x for x in sorted(row)[:count]) / min(count, s)).exp() for row in distance
    ]
    gap = []
    for i in range(s):
        denser = [
            distance[i][j]
            for j in range(s)
            if density[j] > density[i] or (density[j] == density[i] and j < i)
        ]
        gap.append(min(denser, default=farthest))
    rank = sorted(range(s), key=lambda i: (-Decimal(gap[i]) * density[i], i))
    centres = rank[:count]
    clusters: list[list[int]] = [[] for _ in centres]
    for i in range(s):
        if i in centres:
            clusters[centres.index(i)].append(i)
        else:
            nearest = min(range(count), key=lambda c: (distance[i][centres[c]], c))
            clusters[nearest].append(i)
    return clusters


def sparsevlm_plus(place: Place, stop: Stop) -> tuple[list[int], Tensor | None]:
    rows = [place.end + j for j in rater_indices(place)]
    width = place.decoder.layers[0].self_attn.head_dim
    theta = place.decoder.config.rope_parameters["rope_theta"]
    ones = torch.ones(len(place.positions), width, dtype=place.hidden.dtype)
    spun = turned(ones, place.positions, theta)
    attention = place.attention() / (spun @ spun.T / math.sqrt(width))
    seen = attention[:, rows, place.first : place.end]
    heads = top(seen.sum(dim=(1, 2)), min(14, math.ceil(len(seen) / 2)))
    return top(seen[heads].mean(dim=0).mean(dim=0), stop.keep), None


def dart(place: Place, stop: Stop) -> tuple[list[int], Tensor | None]:
    layer = place.decoder.layers[place.index - 1]
    norms = key_matrix(place.decoder, layer, place.before, place.positions).abs().sum(dim=1)
    states = place.decoder.norm(place.hidden)
    image = top(norms[place.first : place.end], min(4, stop.keep))
    text = top(norms[place.end :], 4)
    pivots = [place.first + i for i in image] + [place.end + j for j in text]
    kept = list(image)
    candidates = [i for i in range(place.visual) if i not in kept]
    left = stop.keep - len(kept)
    for turn, pivot in enumerate(pivots):
        quota = left // len(pivots) + (1 if turn < left % len(pivots) else 0)
        cosine = {
            i: float(torch.cosine_similarity(states[pivot], states[place.first + i], dim=0))
            for i in candidates
        }
        for i in sorted(candidates, key=lambda i: (cosine[i], i))[:quota]:
            kept.append(i)
            candidates.remove(i)
    return kept, None


def v2drop(place: Place, stop: Stop) -> tuple[list[int], Tensor | None]:
    rows = range(place.first, place.end)
    moved = [math.sqrt(sum((place.hidden[i] - place.before[i]) ** 2)) for i in rows]
    return top(torch.tensor(moved, dtype=place.hidden.dtype), stop.keep), None


RULES = {
    "fastv": fastv,
    "pyramiddrop": partial(fastv, ahead=True),
    "sparsevlm": sparsevlm,
    "sparsevlm-plus": sparsevlm_plus,
    "dart": dart,
    "v2drop": v2drop,
}


@dataclass
class Decision:
    """What a rule chose before a layer: rows of the picture kept, raster order, and merged ones."""

    layer: int
    kept: list[int]
    merge: Tensor | None


def decide(decoder: Any, embeds: Tensor, first: int, plan: LayerPlan) -> list[Decision]:
    """Run a prompt under a plan's schedule with this file's rule, and note what it chose."""
    decisions: list[Decision] = []
    shortened_run(decoder, embeds, first, plan, decisions)
    return decisions


def shortened_run(
    decoder: Any,
    embeds: Tensor,
    first: int,
    plan: LayerPlan,
    decisions: list[Decision],
    extra: Tensor | None = None,
) -> Tensor:
    """(T', d) last normed states, rows really taken out, everything computed anew.

    embeds: (T, d). decisions: those to follow, or an empty list to fill by the rule. extra: (e, d)
    tokens written after the prompt, which the rule did not see.
    """
    rule, packs = RULES[plan.method.name], plan.method.name in PACKED
    follow = list(decisions)
    hidden = embeds if extra is None else torch.cat([embeds, extra])
    positions, visual = torch.arange(len(hidden)), plan.n
    before = hidden
    for index, layer in enumerate(decoder.layers):
        stop = plan.stop_before(index)
        if stop is not None:
            if follow:
                decision = follow.pop(0)
            else:
                place = Place(
                    decoder, index, before, hidden, positions, first, visual, embeds, plan.n
                )
                kept, merge = rule(place, stop)
                decision = Decision(index, sorted(kept), merge)
                decisions.append(decision)
            stay = [*range(first), *(first + i for i in decision.kept)]
            rest = list(range(first + visual, len(hidden)))
            picture = hidden[first : first + visual]
            merged = hidden[:0] if decision.merge is None else decision.merge @ picture
            hidden = torch.cat([hidden[stay], merged, hidden[rest]])
            positions = torch.arange(len(hidden)) if packs else positions[[*stay, *rest]]
            visual = len(decision.kept) + len(merged)
        before = hidden
        allowed = torch.ones(len(hidden), len(hidden)).tril().bool()
        hidden = through(decoder, layer, hidden, positions, allowed)
    return decoder.norm(hidden)


def masked_run(
    decoder: Any, embeds: Tensor, first: int, decisions: list[Decision], n: int
) -> Tensor:
    """(T, d) last normed states of the unpruned model, in which nobody sees a dropped token from
    the layer on at which it was dropped: one 4-D mask per layer, nothing taken out."""
    hidden, alive = embeds, list(range(n))
    positions = torch.arange(len(hidden))
    seen = torch.ones(len(hidden)).bool()
    by_layer = {decision.layer: decision for decision in decisions}
    for index, layer in enumerate(decoder.layers):
        if index in by_layer:
            alive = [alive[i] for i in by_layer[index].kept]
            seen[first : first + n] = False
            seen[[first + patch for patch in alive]] = True
        allowed = torch.ones(len(hidden), len(hidden)).tril().bool() & seen[None]
        allowed |= torch.eye(len(hidden)).bool()  # a dropped row must see something: itself
        hidden = through(decoder, layer, hidden, positions, allowed)
    return decoder.norm(hidden)


def through(decoder: Any, layer: Any, hidden: Tensor, positions: Tensor, allowed: Tensor) -> Tensor:
    """One stock layer without a cache, under a (T, T) mask of who may see whom."""
    turns = decoder.rotary_emb(hidden[None], position_ids=positions[None])
    mask = torch.zeros_like(allowed, dtype=hidden.dtype).masked_fill(~allowed, -torch.inf)
    return layer(hidden[None], attention_mask=mask[None, None], position_embeddings=turns)[0]
