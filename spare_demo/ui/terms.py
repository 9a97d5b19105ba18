"""The words that the page explains: in its list of terms, and at the words themselves."""

from __future__ import annotations

import re
from html import escape

TERMS = {  # word on the page: what it means
    "visual token": (
        "One patch of the picture as the language model receives it: a vector for that patch, "
        "which the vision tower computes from the whole picture."
    ),
    "budget": (
        "How many visual tokens are kept; the rest never enter the language model. For methods "
        "inside it, the average number of visual tokens over its layers, unless set otherwise."
    ),
    "Jaccard": (
        "How much two sets share: the tokens in both, divided by the tokens in either. 1 means the "
        "same tokens, 0 none in common."
    ),
    "weight": (
        "How much the question favours a patch: a method multiplies the patch's novelty by it, "
        "CDPruner by its square. Novelty is how far the patch points away from all that were "
        "picked before. Weights of two methods are not comparable."
    ),
    "leftover": (
        "The share of a patch's features (squared norm) that no combination of the kept tokens "
        "can rebuild: 0 is none of it, 1 is all of it."
    ),
    "reconstruction error": (
        "The share of all tokens' features (Frobenius norm) that no combination of the kept ones "
        "can rebuild. The SVD bound is the smallest error that any k directions can reach."
    ),
    "KL": (
        "Kullback-Leibler divergence, in nats: how far the probabilities of the first word are "
        "from those of the unpruned model. 0 means the same."
    ),
    "prefill": (
        "The language model's one pass over its whole input, up to the first word of its answer."
    ),
    "operations": (
        "Floating-point operations of the prefill, calculated: two for each multiplication with "
        "its addition, each layer with the tokens that it gets."
    ),
    "cache": (
        "The keys and values of all tokens so far, which the language model keeps while it writes "
        "its answer; counted in its own tensors."
    ),
}


def glossary_html() -> str:
    """All terms with what they mean, as a list."""
    rows = "".join(
        f"<dt>{escape(word[0].upper() + word[1:])}</dt><dd>{escape(meaning)}</dd>"
        for word, meaning in TERMS.items()
    )
    return f'<dl class="glossary">{rows}</dl>'


def mark_terms(html: str, *words: str) -> str:
    """The text with the first place of each of these terms, or its plural, marked for js/terms.js.

    html: escaped text, without tags. Raises KeyError for a word that is no term.
    """
    pending = {word.lower(): word for word in words if TERMS[word]}

    def mark(match: re.Match[str]) -> str:
        word = pending.pop(match[1].lower(), None)
        if word is None:
            return match[0]
        return f'<span class="term" data-term="{word}">{match[0]}</span>'

    return re.sub(rf"\b({'|'.join(map(re.escape, words))})s?", mark, html, flags=re.IGNORECASE)
