"""Maps of raw numbers per token, each with the sentence of what it shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spare_demo.render.base import PALETTE, Colour, Tokens, number, token_list, tokens_word
from spare_demo.render.canvas import Canvas
from spare_demo.render.difference import difference
from spare_demo.render.display import Display
from spare_demo.render.heatmap import Values, as_numbers, heatmap
from spare_demo.render.sentences import say

QUESTION_COLOURS: tuple[Colour, Colour] = (PALETTE[3], PALETTE[4])
"""Of two questions; the first two colours of the palette are those of two methods."""


def relevance_map(canvas: Canvas, values: Values, by: str = "clip") -> Display:
    """The raw cosine between each patch and the question, as page and files show it.

    values: (n,) raw cosines. by: "clip" or "words", what the two are compared by.
    """
    sentence = say("relevance", what="the question", space=say(by))
    return heatmap(canvas, values, sentence, say("relevance meaning"))


def leftover_map(
    canvas: Canvas, values: Values, label: str, kept: int, highest: float = 1.0
) -> Display:
    """The share of each patch that the kept ones cannot reconstruct, on a scale from 0.

    Args:
        values: (n,) shares of the patches' squared norms, 0..1.
        label: the method's name.
        kept: how many tokens it kept.
        highest: the end of the scale; pass one to the maps that are compared.
    """
    shares = as_numbers(values)
    display = heatmap(
        canvas,
        shares,
        say("leftover", label=label, tokens=tokens_word(kept)),
        say("leftover meaning"),
        (0.0, highest),
    )
    half = int((shares > 0.5).sum())
    words = "No patch is" if half == 0 else "1 patch is" if half == 1 else f"{half} patches are"
    return replace(display, sentence=display.sentence + say("half left over", patches=words))


def weight_map(canvas: Canvas, values: Values, label: str) -> Display:
    """The text weight as a method used it.

    Args:
        values: (n,) weights, >= 0.
        label: the method's name.
    """
    weights = as_numbers(values)
    display = heatmap(canvas, weights, say("weight", label=label), say("weight meaning"))
    place = canvas.where(int(weights.argmax()))
    return replace(display, sentence=display.sentence + say("highest", where=place))


def relevance_change_map(canvas: Canvas, change: Values) -> Display:
    """How the raw cosine moved from the first question to the second.

    change: (n,) second minus first. The scale is as long below zero as above.
    """
    values = as_numbers(change)
    size = float(np.abs(values).max())
    display = heatmap(
        canvas,
        values,
        "Raw cosine with the second question minus that with the first",
        "Above 0 the patch is more like the second.",
        (-size, size),
    )
    more = int((values > 0).sum())
    mean = number(float(np.abs(values).mean()), scale=size)
    sentence = (
        f"{display.sentence} {more} of {tokens_word(len(values))} moved towards the second "
        f"question; the mean move is {mean}."
    )
    return replace(display, sentence=sentence)


def question_difference(
    canvas: Canvas, first: Tokens, second: Tokens, label: str, jaccard: float, chance: float
) -> Display:
    """Which of a method's picks moved when another question was asked.

    Args:
        first, second: (k,) token indices kept for each question.
        label: the method's name.
        jaccard: share of all picks that both questions have in common.
        chance: what two random sets of these sizes share on average.
    """
    names = ("1st question", "2nd question")
    display = difference(canvas, first, second, *names, jaccard, chance, QUESTION_COLOURS)
    n = canvas.grid.n
    a, b = set(token_list(first, n).tolist()), set(token_list(second, n).tolist())
    were = "was" if len(a & b) == 1 else "were"
    sentence = (
        f"Of the {tokens_word(len(a))} that {label} kept for the first question, {len(a & b)} "
        f"{were} kept for the second too; {len(b - a)} came in their place. "
        f"Jaccard {jaccard:.2f} (two random picks: {chance:.2f})."
    )
    return replace(display, sentence=sentence)
