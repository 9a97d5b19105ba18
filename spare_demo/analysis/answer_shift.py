"""What pruning changes: the answer against the unpruned model's, and one question against another.

Changes of the answer are measured at the first token, as KL(unpruned || pruned) in nats, and on
the words of the unpruned answer: their probabilities when they are given to the pruned model one
after the other (teacher forcing). Nothing is sampled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from spare_demo.comparison.pipeline import first_token_kl
from spare_demo.comparison.result import KlCurves
from spare_demo.comparison.selections import Exploration
from spare_demo.models import Answer, Model, View
from spare_demo.pruners.plan import Pruning
from spare_demo.pruners.random import Random
from spare_demo.relevance import raw_cosine
from spare_demo.tokens import Positions, Selection

KL_BUDGETS = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384)
"""Where the curve of KL against k is measured, as far as there are tokens; each is one prefill."""
KL_SEEDS = (0, 1, 2)
"""The random picks of that curve."""


@dataclass(frozen=True)
class Difference:
    """Where two answers part.

    Attributes:
        word: the first word that differs, counted from 0; the number of words of the shorter
            answer where it is the beginning of the other.
        a, b: start and end of that word in each text; where it has none, its end twice.
    """

    word: int
    a: tuple[int, int]
    b: tuple[int, int]


@dataclass(frozen=True)
class Change:
    """How likely the unpruned answer is under a pruned prompt; plain numbers, ready for JSON.

    Attributes:
        kl: KL(unpruned || pruned) of the first token, in nats, >= 0.
        words: the unpruned answer's tokens as text, the one that ends it left out.
        whole, pruned: their probabilities, each after those before it, under both prompts.
    """

    kl: float
    words: tuple[str, ...]
    whole: tuple[float, ...]
    pruned: tuple[float, ...]

    @property
    def probability(self) -> float:
        """Of all of the unpruned answer's words under the pruned prompt."""
        return math.prod(self.pruned)

    @property
    def whole_probability(self) -> float:
        """Of all of the unpruned answer's words under the unpruned prompt."""
        return math.prod(self.whole)


@dataclass(frozen=True, eq=False)
class Shift:
    """Two questions about one picture.

    Attributes:
        relevance: (n,) raw cosine with the second question minus that with the first; None where
            either was asked without relevance.
        correlation: Pearson's, of the two raw cosines over the tokens; None where one is constant.
    """

    relevance: Tensor | None
    correlation: float | None


def first_difference(a: str, b: str) -> Difference | None:
    """The first word, between blanks, in which two texts differ; None if in none."""
    words_a, words_b = ([m.span() for m in re.finditer(r"\S+", text)] for text in (a, b))
    for index in range(max(len(words_a), len(words_b))):
        span_a = words_a[index] if index < len(words_a) else (len(a), len(a))
        span_b = words_b[index] if index < len(words_b) else (len(b), len(b))
        if a[slice(*span_a)] != b[slice(*span_b)]:
            return Difference(index, span_a, span_b)
    return None


def measure_change(
    model: Model,
    view: View,
    selection: Pruning,
    whole: Answer,
    positions: Positions | None = None,
) -> Change | None:
    """How likely the unpruned answer's words are with only `selection` kept. One forced answer.

    whole: the finished answer with all tokens of this view. positions: as of `model.answer`.
    Returns None if it has no token.
    """
    ids, count = whole.token_ids, whole.word_count
    if not ids:
        return None
    forced = model.score(view, selection, ids, positions)
    log_whole, log_pruned = whole.log_probabilities[:count], forced.log_probabilities[:count]
    return Change(
        first_token_kl(whole, forced),
        tuple(model.tokenizer.decode([token]) for token in ids[:count]),
        tuple(math.exp(value) for value in log_whole),
        tuple(math.exp(value) for value in log_pruned),
    )


def kl_curves(
    model: Model,
    exploration: Exploration,
    whole: Answer,
    budget: int,
    positions: Positions | None = None,
) -> Iterator[KlCurves]:
    """Measure the KL of every label and of random picks, a prefill each, budget after budget.

    whole: the answer with all tokens of this view, with its first token.
    budget: one that is measured besides those of every curve.
    positions: as of `model.answer`.
    Yields what there is after every budget, ascending, so that a page can draw it.
    """
    view, n = exploration.view, exploration.n
    ks = [*sorted({k for k in (*KL_BUDGETS, budget) if k < n}), n]
    randoms = [Random(seed).select(view.tokens, n) for seed in KL_SEEDS]
    methods = exploration.methods
    series: dict[str, list[float | None]] = {x: [] for x, m in methods.items() if not m.by_hand}
    draws: list[list[float]] = [[] for _ in randoms]

    def first_kl(kept: Pruning) -> float:
        return first_token_kl(whole, model.answer(view, kept, 1, positions))

    every = exploration.kept(n)
    by_hand = {label: every[label] for label, method in methods.items() if method.by_hand}
    points = {label: (kept.size, first_kl(kept)) for label, kept in by_hand.items()}
    for done, k in enumerate(ks, 1):
        kept_at_k = exploration.kept(k)
        for label, curve in series.items():
            kept = kept_at_k.get(label)
            merged = isinstance(kept, Selection) and kept.merged
            if k == n and not merged:  # all tokens are the unpruned prompt
                curve.append(0.0)
            else:
                curve.append(None if kept is None else first_kl(kept))
        for draw, picks in zip(draws, randoms, strict=True):
            draw.append(0.0 if k == n else first_kl(picks.prefix(k)))
        table = torch.tensor(draws, dtype=torch.float64)
        spread = (table.mean(dim=0), table.amin(dim=0), table.amax(dim=0))
        mean, low, high = (tuple(part.tolist()) for part in spread)
        curves = {label: tuple(curve) for label, curve in series.items()}
        yield KlCurves(tuple(ks[:done]), curves, points, (mean, low, high), done / len(ks))


def compare_questions(first: View, second: View) -> Shift:
    """How far relevance moved from one question to another on the same picture."""
    if first.relevance is None or second.relevance is None:
        return Shift(None, None)
    return Shift(
        second.relevance - first.relevance, _correlation(first.relevance, second.relevance)
    )


def word_maps(view: View) -> tuple[tuple[str, ...], Tensor]:
    """Every word token of the question, and (n, m) raw cosines of the patches with each, CPU.

    view: asked with `RelevanceOptions(text="tokens")`; one scale for all columns is theirs to
    share. Raises ValueError, with a sentence to show, for any other view.
    """
    if not view.text_words:
        raise ValueError(
            "This view has no relevance of single words. Encode a question with "
            'RelevanceOptions(text="tokens").'
        )
    return view.text_words, raw_cosine(*view.tokens.image_and_text()).cpu()


def _correlation(a: Tensor, b: Tensor) -> float | None:
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    size = float(torch.linalg.vector_norm(a) * torch.linalg.vector_norm(b))
    return float(a @ b) / size if size > 1e-24 else None
