"""The pictures of a comparison, by the name of their panel: pixels, the sentence, and vectors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from spare_demo import measures
from spare_demo.analysis.cost import CostRow, bytes_text, cost_rows, seconds_text, tokens_text
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import MethodRecord, Result, add_gaps, inside_note
from spare_demo.comparison.selections import Curve
from spare_demo.pruners.inside.base import LayerSet
from spare_demo.render import (
    Canvas,
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
from spare_demo.render.card import Panel, card, card_svg
from spare_demo.render.curve_files import CurveSheet, curve_sheet
from spare_demo.render.svg import (
    difference_svg,
    kept_svg,
    layer_svg,
    map_svg,
    merged_svg,
    order_svg,
)

PANELS = {
    "comparison": "all answers side by side",
    "kept": "what each method kept",
    "difference": "what the first two kept together and apart",
    "order": "in which order each picked",
    "relevance": "raw cosine with the question",
    "weight": "text weight as each method used it",
    "leftover": "what the kept patches cannot reconstruct",
    "reconstruction": "error against the number of tokens kept",
    "kl": "KL to the unpruned model against the number of tokens kept, where it was measured",
}
"""What can be exported, by name, in words."""

USUAL = ("kept", "relevance", "difference", "comparison", "reconstruction")


class Drawing(NamedTuple):
    """One picture of an export: its name, what `render` made of it, and the same as SVG."""

    name: str
    drawn: Rendered
    svg: str


def drawings(comparison: Result, panels: Collection[str] = USUAL) -> Iterator[Drawing]:
    """The pictures of the panels named, one by one; what a comparison lacks is left out.

    Raises ValueError for a panel that is not one of `PANELS`.
    """
    if unknown := [name for name in panels if name not in PANELS]:
        raise ValueError(f"There is no panel {unknown[0]!r}. Choose from: {', '.join(PANELS)}.")
    titles, canvas = comparison.titles, Canvas(comparison.photo, comparison.grid)
    colours = _coloured(comparison)
    slugs = dict(zip(colours, _slugs(list(colours)), strict=True))
    # One scale for all methods; nothing left over at all still needs one.
    leftovers = [left for left in comparison.leftover.values() if left is not None]
    highest = max((float(left.max()) for left in leftovers), default=0.0) or 1.0
    for label, selection in comparison.selections.items():
        named, title, colour = slugs[label], titles[label], colours[label]
        if "kept" in panels:
            kept = selection_overlay(canvas, selection, colour, title)
            if selection.sources is None:
                words = kept_svg(canvas, selection.kept, colour, title, kept.sentence)
            else:
                order, sources = selection.order, selection.sources
                words = merged_svg(canvas, sources, order, colour, title, kept.sentence)
            yield Drawing(f"kept-{named}", kept, words)
        if "order" in panels:
            drawn = pick_order(canvas, selection.order, colour, title)
            words = order_svg(canvas, selection.order, colour, title, drawn.sentence)
            yield Drawing(f"order-{named}", drawn, words)
        weight = comparison.weights[label]
        if "weight" in panels and weight is not None:
            drawn = weight_map(canvas, weight, title)
            words = map_svg(canvas, weight, f"Text weight, {title}", None, drawn.sentence)
            yield Drawing(f"weight-{named}", drawn, words)
        left = comparison.leftover[label]
        if "leftover" in panels and left is not None:
            drawn = leftover_map(canvas, left, title, len(selection), highest)
            about = f"Share left over, {title} keeping {len(selection)}"
            words = map_svg(canvas, left, about, (0.0, highest), drawn.sentence)
            yield Drawing(f"leftover-{named}", drawn, words)
    for label in comparison.plans if "kept" in panels else ():
        for found in comparison.answers[label].layer_sets[1:]:
            drawn = _layer_picture(comparison, canvas, label, found)
            words = layer_svg(
                canvas,
                found.kept,
                found.merged,
                found.merged_rows,
                colours[label],
                titles[label],
                drawn.sentence,
            )
            yield Drawing(f"kept-{slugs[label]}-from-layer-{found.layer + 1}", drawn, words)
    relevance = comparison.relevance
    if "relevance" in panels and relevance is not None:
        drawn = relevance_map(canvas, relevance)
        about = "Raw cosine between each patch and the question"
        words = map_svg(canvas, relevance, about, None, drawn.sentence)
        yield Drawing("relevance", drawn, words)
    if "difference" in panels and len(comparison.selections) >= 2:
        yield _difference(comparison, canvas)
    if "comparison" in panels:
        told = (comparison.question, _panels(comparison, canvas), _footer(comparison))
        yield Drawing("comparison", card(*told), card_svg(*told))
    yield from _curves(comparison, panels)


def _difference(comparison: Result, canvas: Canvas) -> Drawing:
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
    drawn = difference(canvas, kept_a.kept, kept_b.kept, title_a, title_b, shared, chance)
    words = difference_svg(canvas, kept_a.kept, kept_b.kept, title_a, title_b, drawn.sentence)
    return Drawing("difference", drawn, words)


def _coloured(comparison: Result) -> dict[str, Colour]:
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
    for label, colour in _coloured(comparison).items():
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


def _layer_picture(comparison: Result, canvas: Canvas, label: str, found: LayerSet) -> Rendered:
    return layer_overlay(
        canvas,
        found.kept,
        found.merged,
        found.merged_rows,
        found.layer,
        comparison.plans[label].depth,
        _coloured(comparison)[label],
        comparison.titles[label],
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
    drawn = reconstruction_figure(
        curves.budgets,
        _series(comparison, curves.errors, len(curves.budgets)),
        (curves.random.mean.tolist(), curves.random.low.tolist(), curves.random.high.tolist()),
        curves.bound.tolist(),
        comparison.budget,
    )
    said = inside_note(_by_title(comparison), error=True)
    return Rendered(drawn.image, f"{drawn.sentence} {said}".strip())


def _by_title(comparison: Result) -> dict[str, MethodRecord]:
    return {comparison.titles[label]: record for label, record in comparison.methods.items()}


def _series(comparison: Result, curves: Mapping[str, Curve], points: int) -> dict[str, Curve]:
    every = add_gaps(curves, comparison.methods, points)
    return {comparison.titles[label]: curve for label, curve in every.items()}


def _curves(comparison: Result, panels: Collection[str]) -> Iterator[Drawing]:
    budget = comparison.budget
    if "reconstruction" in panels and (curves := comparison.reconstruction) is not None:
        random = curves.random
        sheet = curve_sheet(
            curves.budgets,
            _series(comparison, curves.errors, len(curves.budgets)),
            (random.mean.tolist(), random.low.tolist(), random.high.tolist()),
            budget,
            "relative error",
            curve(comparison).sentence,
            curves.bound.tolist(),
        )
        yield _curve_drawing("reconstruction", sheet)
    if "kl" in panels and (kl := comparison.kl) is not None:
        series = _series(comparison, kl.series, len(kl.budgets))
        sentence = kl_figure(kl.budgets, series, kl.random, budget).sentence
        said = inside_note(_by_title(comparison), error=False)
        sentence = f"{sentence} {said}".strip()
        y_title = "KL to the unpruned model (nats)"
        sheet = curve_sheet(kl.budgets, series, kl.random, budget, y_title, sentence)
        yield _curve_drawing("kl", sheet)


def _curve_drawing(name: str, sheet: CurveSheet) -> Drawing:
    return Drawing(name, Rendered(sheet.picture(), sheet.sentence), sheet.svg())
