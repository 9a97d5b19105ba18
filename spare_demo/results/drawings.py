"""The pictures of a comparison, by the name of their panel: pixels, the sentence, and vectors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from spare_demo import measures
from spare_demo.analysis.cost import CostRow, bytes_text, cost_rows, seconds_text, tokens_text
from spare_demo.comparison.method_record import MethodRecord, add_gaps, inside_note
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import Result
from spare_demo.comparison.selections import Curve
from spare_demo.pruners.plan import LayerSet
from spare_demo.render import (
    Canvas,
    Display,
    Rendered,
    difference,
    kl_figure,
    layer_overlay,
    leftover_map,
    pick_order,
    reconstruction_figure,
    relevance_map,
    selection_overlay,
    weight_map,
)
from spare_demo.render.base import PALETTE, Colour
from spare_demo.render.card import Panel, card
from spare_demo.render.curve_files import curves_display
from spare_demo.results import many

PANELS = {
    "comparison": "all answers side by side",
    "kept": "what each method kept",
    "difference": "what the first two kept together and apart",
    "grid": "what each of many methods kept, side by side",
    "consensus": "how many methods keep each patch",
    "order": "in which order each picked",
    "relevance": "raw cosine with the question",
    "weight": "text weight as each method used it",
    "leftover": "what the kept patches cannot reconstruct",
    "reconstruction": "error against the number of tokens kept",
    "kl": "KL to the unpruned model against the number of tokens kept, where it was measured",
}
"""What can be exported, by name, in words."""

OF_MANY = ("grid", "consensus")
"""Those that only a comparison of many methods has."""

USUAL = ("kept", *OF_MANY, "relevance", "difference", "comparison", "reconstruction")


class Drawing(NamedTuple):
    """One picture of an export, by its name."""

    name: str
    display: Display


def drawings(comparison: Result, panels: Collection[str] = USUAL) -> Iterator[Drawing]:
    """The pictures of the panels named, one by one; what a comparison lacks is left out.

    Raises ValueError for a panel that is not one of `PANELS`.
    """
    if unknown_names := [name for name in panels if name not in PANELS]:
        raise ValueError(
            f"There is no panel {unknown_names[0]!r}. Choose from: {', '.join(PANELS)}."
        )
    titles, canvas = comparison.titles, Canvas(comparison.photo, comparison.grid)
    colours = _colours_by_label(comparison)
    slugs = dict(zip(colours, _slugs(list(colours)), strict=True))
    # One scale for all methods; nothing left over at all still needs one.
    leftovers = [left for left in comparison.leftover.values() if left is not None]
    highest = max((float(left.max()) for left in leftovers), default=0.0) or 1.0
    for label, selection in comparison.selections.items():
        slug, title, colour = slugs[label], titles[label], colours[label]
        if "kept" in panels:
            yield Drawing(f"kept-{slug}", selection_overlay(canvas, selection, colour, title))
        if "order" in panels:
            yield Drawing(f"order-{slug}", pick_order(canvas, selection.order, colour, title))
        weight = comparison.weights[label]
        if "weight" in panels and weight is not None:
            yield Drawing(f"weight-{slug}", weight_map(canvas, weight, title))
        left = comparison.leftover[label]
        if "leftover" in panels and left is not None:
            shares = leftover_map(canvas, left, title, len(selection), highest)
            yield Drawing(f"leftover-{slug}", shares)
    for label in comparison.plans if "kept" in panels else ():
        for layer_set in comparison.answers[label].layer_sets:
            if len(layer_set.kept) == comparison.visual_tokens:
                continue
            name = f"kept-{slugs[label]}-from-layer-{layer_set.layer + 1}"
            yield Drawing(name, _layer_picture(comparison, canvas, label, layer_set))
    if many.is_of_many(comparison):
        if "grid" in panels:
            yield Drawing("grid", many.grid(comparison, canvas))
        if "consensus" in panels and (agreement := many.consensus(comparison, canvas)):
            yield Drawing("consensus", agreement)
    if "relevance" in panels and comparison.relevance is not None:
        by = comparison.settings.relevance.guidance_text
        yield Drawing("relevance", relevance_map(canvas, comparison.relevance, by))
    if "difference" in panels and len(comparison.selections) >= 2:
        yield Drawing("difference", _difference(comparison, canvas))
    if "comparison" in panels and comparison.answers:
        columns, footer = _panels(comparison, canvas), _footer(comparison)
        yield Drawing("comparison", card(comparison.question, columns, footer))
    yield from _curves(comparison, panels)


def _difference(comparison: Result, canvas: Canvas) -> Display:
    n = comparison.visual_tokens
    (a, kept_a), (b, kept_b) = list(comparison.selections.items())[:2]
    # Merged rows cannot be compared patch by patch; the patches that they grew from can.
    titles = comparison.titles
    title_a, title_b = (
        titles[label] if not selection.merged else f"{titles[label]} (picks)"
        for label, selection in ((a, kept_a), (b, kept_b))
    )
    shared = measures.jaccard(kept_a.kept, kept_b.kept, n)
    chance = measures.expected_jaccard(n, len(kept_a), len(kept_b))
    return difference(canvas, kept_a.kept, kept_b.kept, title_a, title_b, shared, chance)


def _colours_by_label(comparison: Result) -> dict[str, Colour]:
    labels = list(comparison.methods)
    # As the curves have them.
    return {label: PALETTE[i % len(PALETTE)] for i, label in enumerate(labels)}


def _slugs(labels: list[str]) -> list[str]:
    """File names that any system takes, one of its own for each label."""
    slugs: list[str] = []
    for label in labels:
        plain = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60] or "picks"
        slug, turn = plain, 1
        while slug in slugs:
            turn += 1
            slug = f"{plain}-{turn}"
        slugs.append(slug)
    return slugs


def _panels(comparison: Result, canvas: Canvas) -> list[Panel]:
    n, answers = comparison.visual_tokens, comparison.answers
    rows = {row.label: row for row in cost_rows(answers)}
    whole = answers[UNPRUNED]
    panels = [Panel(f"All {n} tokens", None, canvas.image, whole.text, [_cost(rows[UNPRUNED])])]
    for label, colour in _colours_by_label(comparison).items():
        title = comparison.titles[label]
        if label in comparison.plans:
            last = answers[label].layer_sets[-1]
            overlay = _layer_picture(comparison, canvas, label, last).image
            heading = f"{title}, {tokens_text(rows[label])}"
        else:
            kept = comparison.selections[label]
            overlay = selection_overlay(canvas, kept, colour, title).image
            merged = "merged " if kept.merged else ""
            heading = f"{title}, {kept.size} {merged}of {n} tokens"
        same = answers[label].text == whole.text
        panels.append(
            Panel(
                heading,
                colour,
                overlay.crop((0, 0, *canvas.size)),  # the heading says what the legend would
                answers[label].text,
                [
                    "the same answer as with all tokens" if same else "another answer",
                    _cost(rows[label]),
                ],
            )
        )
    return panels


def _layer_picture(comparison: Result, canvas: Canvas, label: str, layer_set: LayerSet) -> Display:
    return layer_overlay(
        canvas,
        layer_set.kept,
        layer_set.merged,
        layer_set.merged_rows,
        layer_set.layer,
        comparison.plans[label].depth,
        _colours_by_label(comparison)[label],
        comparison.titles[label],
        layer_set.grown,
    )


def _cost(row: CostRow) -> str:
    prefill, cache = seconds_text(row.prefill_seconds), bytes_text(row.kv_cache_bytes)
    if row.label == UNPRUNED:
        return f"prefill {prefill} · cache {cache}"
    return f"prefill {prefill} ({row.prefill_share:.0%}) · cache {cache} ({row.kv_cache_share:.0%})"


def _footer(comparison: Result) -> str:
    return f"SPARE demo · model {comparison.model} · times of a single run"


def curve(comparison: Result) -> Rendered:
    """The error of every label against the number of tokens kept, as a figure."""
    curves = comparison.reconstruction
    assert curves is not None  # every finished result has them
    figure = reconstruction_figure(
        curves.budgets,
        _series(comparison, curves.errors, len(curves.budgets)),
        (curves.random.mean.tolist(), curves.random.low.tolist(), curves.random.high.tolist()),
        curves.bound.tolist(),
        comparison.budget,
    )
    note = inside_note(_by_title(comparison), error=True)
    return Rendered(figure.image, f"{figure.sentence} {note}".strip())


def _by_title(comparison: Result) -> dict[str, MethodRecord]:
    return {comparison.titles[label]: record for label, record in comparison.methods.items()}


def _series(comparison: Result, curves: Mapping[str, Curve], points: int) -> dict[str, Curve]:
    every = add_gaps(curves, comparison.methods, points)
    return {comparison.titles[label]: curve for label, curve in every.items()}


def _curves(comparison: Result, panels: Collection[str]) -> Iterator[Drawing]:
    budget = comparison.budget
    if "reconstruction" in panels and (curves := comparison.reconstruction) is not None:
        random = curves.random
        display = curves_display(
            curves.budgets,
            _series(comparison, curves.errors, len(curves.budgets)),
            (random.mean.tolist(), random.low.tolist(), random.high.tolist()),
            budget,
            "relative error",
            curve(comparison).sentence,
            curves.bound.tolist(),
        )
        yield Drawing("reconstruction", display)
    if "kl" in panels and (kl := comparison.kl) is not None:
        series = _series(comparison, kl.series, len(kl.budgets))
        sentence = kl_figure(kl.budgets, series, kl.random, budget).sentence
        note = inside_note(_by_title(comparison), error=False)
        sentence = f"{sentence} {note}".strip()
        y_title = "KL to the unpruned model (nats)"
        display = curves_display(kl.budgets, series, kl.random, budget, y_title, sentence)
        yield Drawing("kl", display)
