"""What the figures of an evaluation become in its folder: tables, JSON, and a page of charts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spare_demo.evaluation import figures, tables
from spare_demo.evaluation.budgets import middle
from spare_demo.evaluation.summary import Summary, as_json
from spare_demo.render.chart import plotly_figure


def write_files(
    folder: Path, settings: Mapping[str, Any], summaries: Mapping[str, Summary]
) -> list[str]:
    """Write summary.md, summary.json and figures.html; returns their names.

    settings: all that the results depend on, as JSON takes it. summaries: by set.

    Raises OSError if the folder cannot be written.
    """
    data = {"settings": settings, "sets": as_json(summaries)}
    texts = {
        "summary.md": _tables(summaries),
        "summary.json": json.dumps(data, indent=2) + "\n",
        "figures.html": _page(summaries),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(texts)


def _tables(summaries: Mapping[str, Summary]) -> str:
    parts = ["# Results"]
    for name, summary in summaries.items():
        parts.append(f"## {name}")
        parts += [t.markdown() for t in tables.all_tables(summary, middle(summary.budgets))]
    return "\n\n".join(parts) + "\n"


def _page(summaries: Mapping[str, Summary]) -> str:
    """All figures in one HTML file that needs nothing else."""
    parts = ["<!doctype html><meta charset='utf-8'><title>Results</title>"]
    script: bool = True  # once is enough
    for name, summary in summaries.items():
        for figure in figures.all_figures(summary, middle(summary.budgets)):
            parts.append(f"<h2>{name}: {figure.chart.title}</h2>")
            parts.append(
                plotly_figure(figure.chart).to_html(
                    full_html=False,
                    include_plotlyjs=script,
                    div_id=f"figure-{len(parts)}",  # else drawn at random, in every run anew
                    config={"displaylogo": False, "modeBarButtonsToRemove": ["sendDataToCloud"]},
                )
            )
            parts.append(f"<p>{figure.sentence}</p>")
            script = False
    return "\n".join(parts) + "\n"
