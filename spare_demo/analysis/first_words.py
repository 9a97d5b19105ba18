"""The first word of several answers: how likely each model run held the likeliest candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from spare_demo.models import Answer

MOST = 3
"""First words of each answer."""


@dataclass(frozen=True)
class Candidate:
    """A first token's text and its probability, 0 to 1, under each answer's label."""

    text: str
    probabilities: Mapping[str, float]


def first_words(
    answers: Mapping[str, Answer], decode: Callable[[Sequence[int]], str]
) -> list[Candidate]:
    """The `MOST` likeliest first tokens of each answer, likeliest under any of them first.

    answers: those with the scores of a first token count. decode: token ids -> text.
    """
    shares = {
        label: answer.first_probabilities
        for label, answer in answers.items()
        if len(answer.first_logits)
    }
    best = (share.topk(min(MOST, len(share))).indices.tolist() for share in shares.values())
    candidates = [
        Candidate(
            decode([token]).strip() or decode([token]),
            {label: float(share[token]) for label, share in shares.items()},
        )
        for token in dict.fromkeys(chain.from_iterable(best))
    ]
    return sorted(candidates, key=lambda candidate: -max(candidate.probabilities.values()))


def share_text(share: float, decimals: int = 2) -> str:
    """A probability with so many decimals; "<0.01" and ">0.99" for what would be read as 0 or 1."""
    if share in (0, 1):
        return f"{share:.0f}"
    least = 10.0**-decimals
    if share < least / 2:
        return f"<{least:.{decimals}f}"
    if share >= 1 - least / 2:
        return f">{1 - least:.{decimals}f}"
    return f"{share:.{decimals}f}"
