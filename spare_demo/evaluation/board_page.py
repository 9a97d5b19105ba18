"""The board as tables for a terminal, and as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from string import Template

import spare_demo
from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation import figures
from spare_demo.evaluation.board import Board, Comparison, Folder, SetBoard
from spare_demo.evaluation.budgets import budget_words, sort_key
from spare_demo.evaluation.cells import (
    SHARES_NOTE,
    TOO_FEW,
    Table,
    inside_note,
    percent,
    title_of,
)
from spare_demo.evaluation.statistics import FEW, LEVEL
from spare_demo.render.chart import Lines, display
from spare_demo.table import counted, html_table

_TEMPLATE = Path(__file__).with_name("board.html")

_NAMED = 8
"""The most methods of a folder that are named in one cell."""


def board_tables(board: Board) -> list[Table]:
    """What was read; then of every set its scores and its differences from the baseline."""
    of_sets = [table for of_set in board.sets for table in _tables(of_set, board.baseline)]
    return [_folders(board), *of_sets]


def board_html(board: Board) -> str:
    """The page: of every set its tables, to be sorted by a click, and a chart of every model."""
    summaries = [summary for of_set in board.sets for summary in of_set.summaries.values()]
    labels = list(dict.fromkeys(label for summary in summaries for label in figures.drawn(summary)))
    parts = []
    for of_set in board.sets:
        parts += [_section(table) for table in _tables(of_set, board.baseline)]
        parts += [_figures(labels, of_set, model) for model in of_set.summaries]
    return Template(_TEMPLATE.read_text("utf-8")).substitute(
        sets="\n".join(parts),
        folders=_section(_folders(board)),
        baseline=escape(title_of(board.baseline)),
        version=spare_demo.__version__,
    )


def _tables(of_set: SetBoard, baseline: str) -> list[Table]:
    scores = _scores(of_set, baseline)
    return [scores, _differences(of_set, baseline)] if of_set.comparisons else [scores]


def _figures(labels: Sequence[str], of_set: SetBoard, model: str) -> str:
    """The charts of a set and a model: of numbers of tokens and of shares, which no axis can show
    together.

    labels: drawn on the page, where each has one colour.
    """
    summary = of_set.summaries[model]
    titles = [title_of(label) for label in labels]
    charts = ""
    for kind in (int, str):
        budgets = tuple(budget for budget in summary.budgets if isinstance(budget, kind))
        if not budgets:
            continue
        title = f"{of_set.name}, {model}: right answers"
        chart = figures.accuracy(replace(summary, budgets=budgets), title=title).chart
        assert isinstance(chart, Lines)
        series = [replace(s, place=titles.index(s.name)) for s in chart.series if s.points]
        charts += (
            f"<figure tabindex='0'>{display(replace(chart, series=tuple(series))).svg}</figure>"
        )
    return charts


def _section(table: Table) -> str:
    title = escape(table.title)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<section><h2>{title}</h2>"
        f"<div class='wide' role='region' tabindex='0' aria-label='{title}'>"
        f"{html_table(table.head, table.rows)}</div>{note}</section>"
    )


def _folders(board: Board) -> Table:
    def row(folder: Folder) -> tuple[str, ...]:
        methods = list(folder.settings["methods"])
        named = ", ".join(methods) if len(methods) <= _NAMED else f"{len(methods)}, listed below"
        asked = {(row.set, row.picture, row.number) for row in folder.rows}
        return (
            str(folder.path),
            folder.model,
            str(folder.settings["model"].get("revision", "–")),
            named or "–",
            str(len(asked)),
        )

    head = ("folder", "model", "revision", "methods", "questions")
    begun = ", ".join(str(folder.path) for folder in board.folders if not folder.finished)
    note = begun and (
        f"Not finished, since there is no summary.json in: {begun}. The same evaluate command "
        "resumes a run; until then the board has only the pictures that were done."
    )
    return Table("What was read", head, tuple(row(folder) for folder in board.folders), note)


def _scores(board: SetBoard, baseline: str) -> Table:
    summaries = board.summaries
    budgets = sorted({k for summary in summaries.values() for k in summary.budgets}, key=sort_key)
    stars = {(c.model, c.method, c.budget) for c in board.comparisons if c.adjusted < LEVEL}
    rows = []
    for model, summary in summaries.items():
        for column in summary.nothing_pruned:
            nothing, score = ["" for _ in budgets], percent(summary.accuracy[column])
            rows.append((title_of(column[0]), model, *nothing, score))
        for label in summary.methods:
            cells = [
                percent(summary.accuracy.get((label, budget)))
                + ("*" if (model, label, budget) in stars else "")
                for budget in budgets
            ]
            rows.append((title_of(label), model, *cells, ""))
    pictures = max(summary.pictures for summary in summaries.values())
    left_out = (
        f" Left out: {counted(board.left_out, 'question')} not asked in every folder and with "
        "every method."
        if board.left_out
        else ""
    )
    note = (
        f"{counted(board.questions, 'question')} about {counted(pictures, 'picture')}, the same in "
        f"every cell.{left_out} "
        f"{SHARES_NOTE} "
    )
    if inside := inside_note(list(dict.fromkeys(m for s in summaries.values() for m in s.methods))):
        note += f"{inside} "
    name = title_of(baseline)
    if board.comparisons:
        note += f"A star: the difference from {name} has an adjusted p-value below {LEVEL:g}."
    else:
        alike = "" if baseline == UNPRUNED else " with the same model at the same budget"
        note += f"No method was measured besides {name}{alike} here, so no difference is tested."
    wholes = dict.fromkeys(summary.whole for summary in summaries.values())
    head = (
        "method",
        "model",
        *(budget_words(budget) for budget in budgets),
        f"all {' or '.join(wholes)}",
    )
    return Table(f"{board.name}: right answers, in percent", head, tuple(rows), note)


def _differences(board: SetBoard, baseline: str) -> Table:
    def row(comparison: Comparison) -> tuple[str, ...]:
        return (
            title_of(comparison.method),
            comparison.model,
            budget_words(comparison.budget),
            percent(comparison.difference, signed=True),
            str(comparison.gained),
            str(comparison.lost),
            _probability(comparison.p),
            _probability(comparison.adjusted),
        )

    name, count = title_of(baseline), len(board.comparisons)
    against = name if baseline == UNPRUNED else f"{name} at the same budget"
    note = (
        f"Percentage points against {against}, same model and questions. Gained: only the "
        "method is right; lost: only the baseline is. p: exact sign-flip test, two-sided, over "
        "pictures (with one question a picture, McNemar's). Adjusted: by Holm, for "
        + (f"all {count} comparisons of this table." if count > 1 else "this one comparison.")
    )
    if max(summary.pictures for summary in board.summaries.values()) < FEW:
        note += TOO_FEW
    head = ("method", "model", "budget", "difference", "gained", "lost", "p", "adjusted p")
    rows = tuple(row(comparison) for comparison in board.comparisons)
    return Table(f"{board.name}: differences from {name}", head, rows, note)


def _probability(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"
