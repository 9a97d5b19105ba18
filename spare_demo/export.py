"""A comparison as files: its pictures, its curve and `result.json`, in one folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

from spare_demo import measures
from spare_demo.comparison import Comparison
from spare_demo.cost import UNPRUNED, CostRow, bytes_text, cost_rows, seconds_text
from spare_demo.record import record
from spare_demo.render import (
    BLUE,
    VERMILION,
    Canvas,
    difference,
    reconstruction_figure,
    relevance_map,
    selection_overlay,
)
from spare_demo.render.base import Colour
from spare_demo.render.card import Panel, card

# A, B, then Okabe and Ito's others, as the curves have them.
_COLOURS: tuple[Colour, ...] = (BLUE, VERMILION, (0, 158, 115), (204, 121, 167), (230, 159, 0))


def write(comparison: Comparison, folder: Path) -> list[str]:
    """Write everything into `folder`, which is made if need be.

    Returns the names of the files: comparison.png, kept-….png per label, difference.png (of the
    first two labels), relevance.png (with a question), reconstruction.html and result.json. Raises
    OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    view, exploration = comparison.view, comparison.exploration
    titles, canvas = exploration.titles, Canvas(view.photo, view.grid)
    kept = {label: selection.kept for label, selection in comparison.selections.items()}
    pictures = {
        f"kept-{slug}": selection_overlay(
            canvas, comparison.selections[label], colour, titles[label]
        ).image
        for (label, colour), slug in zip(
            _coloured(comparison).items(), _slugs(list(kept)), strict=True
        )
    }
    if exploration.relevance is not None:
        pictures["relevance"] = relevance_map(canvas, exploration.relevance).image
    if len(kept) >= 2:
        a, b = list(kept)[:2]
        shared = measures.overlap(kept[a], kept[b], exploration.n).jaccard
        chance = measures.expected_jaccard(exploration.n, len(kept[a]), len(kept[b]))
        # Merged rows cannot be compared patch by patch; the patches that they grew from can.
        names = [
            titles[label]
            if comparison.selections[label].features is None
            else f"{titles[label]} (picks)"
            for label in (a, b)
        ]
        pictures["difference"] = difference(
            canvas, kept[a], kept[b], names[0], names[1], shared, chance
        ).image
    pictures["comparison"] = card(
        view.question, _panels(comparison, canvas), _footer(comparison)
    ).image

    names = [f"{name}.png" for name in pictures]
    for name, picture in pictures.items():
        picture.save(folder / f"{name}.png", optimize=True)
    (folder / "reconstruction.html").write_text(_curve_page(comparison), encoding="utf-8")
    text = json.dumps(record(comparison), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")
    return [*names, "reconstruction.html", "result.json"]


def _coloured(comparison: Comparison) -> dict[str, Colour]:
    labels = list(comparison.selections)
    return {label: _COLOURS[i % len(_COLOURS)] for i, label in enumerate(labels)}


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


def _panels(comparison: Comparison, canvas: Canvas) -> list[Panel]:
    n, answers = comparison.exploration.n, comparison.answers
    rows = {row.label: row for row in cost_rows(answers)}
    whole = answers[UNPRUNED]
    panels = [Panel(f"All {n} tokens", None, canvas.image, whole.text, [_cost(rows[UNPRUNED])])]
    for label, colour in _coloured(comparison).items():
        title = comparison.exploration.titles[label]
        kept = comparison.selections[label]
        overlay = selection_overlay(canvas, kept, colour, title).image
        same = answers[label].text == whole.text
        panels.append(
            Panel(
                f"{title}, {kept.size} {'' if kept.features is None else 'merged '}of {n} tokens",
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


def _cost(row: CostRow) -> str:
    prefill, cache = seconds_text(row.prefill_seconds), bytes_text(row.kv_cache_bytes)
    if row.label == UNPRUNED:
        return f"prefill {prefill} · cache {cache}"
    return f"prefill {prefill} ({row.prefill_share:.0%}) · cache {cache} ({row.kv_cache_share:.0%})"


def _footer(comparison: Comparison) -> str:
    return f"SPARE demo · model {comparison.model} · times of a single run"


def _curve_page(comparison: Comparison) -> str:
    curves = comparison.exploration.curves
    titles = comparison.exploration.titles
    drawn = reconstruction_figure(
        curves.budgets,
        {titles[label]: errors for label, errors in curves.errors.items()},
        (curves.random.mean.tolist(), curves.random.low.tolist(), curves.random.high.tolist()),
        curves.bound.tolist(),
        comparison.budget,
    )
    # The whole of plotly.js goes into the page, so that it opens without a network; its button
    # that uploads the chart does not.
    chart = drawn.image.to_html(
        include_plotlyjs=True, full_html=False, config={"displayModeBar": False}
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Reconstruction</title>'
        f'<body style="font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto">'
        f"{chart}<p>{drawn.sentence}</p></body></html>\n"
    )
