"""The pictures of a comparison, by the name of their panel: pixels, the sentence, and vectors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from spare_demo.analysis.cost import CostRow, bytes_text, cost_rows, seconds_text, tokens_text
from spare_demo.comparison.method_record import MethodRecord, inside_note
from spare_demo.comparison.request import UNPRUNED
from spare_demo.comparison.result import KlCurves, Result
from spare_demo.comparison.selections import Curves
from spare_demo.pruners.plan import LayerSet
from spare_demo.render.canvas import Canvas
from spare_demo.render.card import Panel, card
from spare_demo.render.colours import colours_of
from spare_demo.render.curves import Curve, CurveChart, error_chart, kl_chart
from spare_demo.render.display import Display
from spare_demo.render.grid import Cell, methods_grid
from spare_demo.render.maps import (
    consensus_map,
    leftover_map,
    pick_order,
    relevance_map,
    weight_map,
)
from spare_demo.render.overlay import difference, layer_overlay, selection_overlay
from spare_demo.table import percent_of_all
from spare_demo.tokens.checks import Indices

PANELS = {
    "comparison": "what each method kept and what was answered, side by side",
    "kept": "what each method kept",
    "difference": "what the first two both kept, and what only one of them kept",
    "grid": "what each of many methods kept, side by side",
    "consensus": "how many methods keep each patch",
    "order": "the order in which each picked",
    "relevance": "raw cosine with the question",
    "weight": "text weight as each method used it",
    "leftover": "what the kept patches cannot reconstruct",
    "reconstruction": "reconstruction error at each budget",
    "kl": "KL to the unpruned model at each budget, where it was measured",
}
"""What can be exported, by name, in words."""

OF_MANY = ("grid", "consensus")
"""Those that only a comparison of many methods has."""

MANY = 3
"""Methods from which on a comparison has these; sets made by hand are none."""

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
    colours, slugs = colours_of(comparison.methods), _slugs(comparison.methods)
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
    if sum(record.name is not None for record in comparison.methods.values()) >= MANY:
        if "grid" in panels:
            yield Drawing("grid", methods_grid(canvas, cells(comparison)))
        if "consensus" in panels and (agreement := consensus(comparison, canvas)):
            yield Drawing("consensus", agreement)
    if "relevance" in panels and comparison.relevance is not None:
        by = comparison.settings.relevance.guidance_text
        yield Drawing("relevance", relevance_map(canvas, comparison.relevance, by))
    if "difference" in panels and len(comparison.selections) >= 2:
        yield Drawing("difference", _difference(comparison, canvas))
    if "comparison" in panels and comparison.answers:
        footer = f"SPARE demo · model {comparison.model} · times of a single run"
        columns = _panels(comparison, canvas)
        yield Drawing("comparison", card(comparison.question, columns, footer))
    curves, kl, methods = comparison.reconstruction, comparison.kl, comparison.methods
    if "reconstruction" in panels and curves is not None:
        chart = error_curve(curves, methods, titles, comparison.budget)
        yield Drawing("reconstruction", chart.display)
    if "kl" in panels and kl is not None:
        yield Drawing("kl", kl_curve(kl, methods, titles, comparison.budget).display)


def cells(result: Result) -> list[Cell]:
    """What is known so far of every method, in the order compared."""
    words = {label: answer.text for label, answer in result.answers.items()}
    return [
        Cell(
            title,
            _kept_in_last_layer(result, label),
            result.errors.get(label),
            result.first_kl.get(label),
            words.get(label),
            label in words and words[label] == words.get(UNPRUNED),
        )
        for label, title in result.titles.items()
    ]


def consensus(result: Result, canvas: Canvas) -> Display | None:
    """How many methods keep each patch; None where fewer than two have one set per picture."""
    kept = [
        selection.kept
        for label, selection in result.selections.items()
        if result.methods[label].name is not None
    ]
    return consensus_map(canvas, kept) if len(kept) > 1 else None


def _kept_in_last_layer(result: Result, label: str) -> Indices | None:
    """The tokens that a method keeps: one inside the language model those that have a row of their
    own in the last layer, None before its answer is there."""
    if label in result.selections:
        return result.selections[label].kept
    if label not in result.answers:
        return None
    return result.answers[label].layer_sets[-1].kept


def _difference(comparison: Result, canvas: Canvas) -> Display:
    (a, kept_a), (b, kept_b) = list(comparison.selections.items())[:2]
    # Merged rows cannot be compared patch by patch; the patches that they grew from can.
    titles = comparison.titles
    title_a, title_b = (
        titles[label] if not selection.merged else f"{titles[label]} (picks)"
        for label, selection in ((a, kept_a), (b, kept_b))
    )
    colours = colours_of(comparison.methods)
    pair = (colours[a], colours[b])
    return difference(canvas, kept_a.kept, kept_b.kept, title_a, title_b, pair)


def _slugs(labels: Iterable[str]) -> dict[str, str]:
    """File names that any system takes, one of its own for each label."""
    slugs: dict[str, str] = {}
    for label in labels:
        plain = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:60] or "picks"
        slug, turn = plain, 1
        while slug in slugs.values():
            turn += 1
            slug = f"{plain}-{turn}"
        slugs[label] = slug
    return slugs


def _panels(comparison: Result, canvas: Canvas) -> list[Panel]:
    n, answers = comparison.visual_tokens, comparison.answers
    rows = {row.label: row for row in cost_rows(answers)}
    whole = answers[UNPRUNED]
    panels = [Panel(f"All {n} tokens", None, canvas.image, whole.text, [_cost(rows[UNPRUNED])])]
    for label, colour in colours_of(comparison.methods).items():
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
    depth, colour = comparison.plans[label].depth, colours_of(comparison.methods)[label]
    title = comparison.titles[label]
    return layer_overlay(canvas, layer_set, layer_set.layer, depth, colour, title)


def _cost(row: CostRow) -> str:
    prefill, cache = seconds_text(row.prefill_seconds), bytes_text(row.kv_cache_bytes)
    if row.label == UNPRUNED:
        return f"prefill {prefill} · cache {cache}"
    shares = [percent_of_all(share) for share in (row.prefill_share, row.kv_cache_share)]
    return f"prefill {prefill} ({shares[0]}) · cache {cache} ({shares[1]})"


def error_curve(
    curves: Curves, methods: Mapping[str, MethodRecord], titles: Mapping[str, str], budget: int
) -> CurveChart:
    """Reconstruction errors against the number of tokens kept; methods, titles: by label."""
    random = curves.random
    note = " ".join(
        f"{titles[label]} has no error of one set: it keeps other tokens in each layer."
        for label, record in methods.items()
        if record.inside
    )
    return error_chart(
        curves.budgets,
        _with_gaps(curves.errors, methods, titles, len(curves.budgets)),
        (random.mean.tolist(), random.low.tolist(), random.high.tolist()),
        curves.bound.tolist(),
        budget,
        note,
    )


def kl_curve(
    curves: KlCurves, methods: Mapping[str, MethodRecord], titles: Mapping[str, str], budget: int
) -> CurveChart:
    """The same of the KL to the unpruned model."""
    series = _with_gaps(curves.series, methods, titles, len(curves.budgets))
    note = inside_note(methods, titles)
    return kl_chart(curves.budgets, series, curves.random, budget, note)


def _with_gaps(
    curves: Mapping[str, Curve],
    methods: Mapping[str, MethodRecord],
    titles: Mapping[str, str],
    points: int,
) -> dict[str, Curve]:
    """Curves by title, with an empty one for each method inside the language model without one.

    So that what is drawn of a label has the colour of its place among the methods.
    """
    empty = (None,) * points
    return {
        titles[label]: curves.get(label, empty)
        for label, record in methods.items()
        if label in curves or record.inside
    }
