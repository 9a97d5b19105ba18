"""What the figures of an evaluation become: its folder's files, and a report with sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spare_demo.comparison.request import UNPRUNED
from spare_demo.evaluation import claims, figures, tables
from spare_demo.evaluation.budgets import Budget, budget_words, middle_budget
from spare_demo.evaluation.built_in import BuiltIn
from spare_demo.evaluation.cells import (
    TOO_FEW,
    inside_note,
    is_apart,
    percent,
    plain,
    share,
    title_of,
)
from spare_demo.evaluation.records import BLANK
from spare_demo.evaluation.relevance_places import WORDS
from spare_demo.evaluation.statistics import FEW, Estimate
from spare_demo.evaluation.summary import Summary, as_json
from spare_demo.render.chart import display, plotly_figure
from spare_demo.scenes.sets import SET_WORDS

SUMMARIES = ("summary.md", "summary.json", "figures.html")
"""The files of a folder that are made of its results alone."""


def write_files(
    folder: Path, settings: Mapping[str, Any], summaries: Mapping[str, Summary]
) -> None:
    """Write `SUMMARIES` into a folder.

    settings: all that the results depend on, as JSON takes it. summaries: by set.

    Raises OSError if the folder cannot be written.
    """
    data = {"settings": settings, "sets": as_json(summaries)}
    texts = (_tables(summaries), json.dumps(data, indent=2) + "\n", _page(summaries))
    for name, text in zip(SUMMARIES, texts, strict=True):
        (folder / name).write_text(text, encoding="utf-8")


def _tables(summaries: Mapping[str, Summary]) -> str:
    parts = ["# Results"]
    for name, summary in summaries.items():
        parts.append(f"## {name}")
        parts += [t.markdown() for t in tables.all_tables(summary)]
    return "\n\n".join(parts) + "\n"


def _page(summaries: Mapping[str, Summary]) -> str:
    """All figures in one HTML file that needs nothing else."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Results</title>"
        "<meta name='viewport' content='width=device-width'>"
    ]
    for name, summary in summaries.items():
        for figure in figures.all_figures(summary):
            parts.append(f"<h2>{name}: {figure.chart.title}</h2>")
            parts.append(
                plotly_figure(figure.chart).to_html(
                    full_html=False,
                    include_plotlyjs=len(parts) == 2,  # once is enough
                    div_id=f"figure-{len(parts)}",  # else another random one in every run
                    config={"displaylogo": False, "modeBarButtonsToRemove": ["sendChartToCloud"]},
                )
            )
            parts.append(f"<p>{figure.sentence}</p>")
    if len(parts) == 1:
        parts.append("<p>Only all tokens were measured: there is no method to draw.</p>")
    return "\n".join(parts) + "\n"


def write_report(
    file: Path,
    pictures: Path,
    built_in: BuiltIn | None,
    settings: Mapping[str, Any],
    summaries: Mapping[str, Summary],
    command: str,
) -> None:
    """Write the Markdown file and, into `pictures`, its figures as SVG.

    built_in: the built-in model, where it is the one that was measured.
    command: the command line that made the results.
    """
    pictures.mkdir(parents=True, exist_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    model = settings["model"]
    parts = [
        f"# {model['title']}: what was measured",
        f"Model {model['name']}, revision {model['revision']}, {model['dtype']} on "
        f"{model['device']}. Every number on this page was written by",
        f"```bash\n{command}\n```",
    ]
    if built_in:
        parts.append(built_in.about)
    for name, summary in summaries.items():
        parts.append(f"## {SET_WORDS.get(name, 'own data').capitalize()}")
        parts.append("\n".join(f"- {sentence}" for sentence in findings(summary)))
        # Which claims of the paper hold here, and why others may not.
        if verdicts := claims.verdicts(summary):
            parts += [
                "### Compared with the paper",
                "\n".join(f"- {verdict}" for verdict in verdicts),
            ]
            if built_in:
                reasons = " ".join(claims.reasons(summary, built_in))
                parts.append(f"Why it may differ. {reasons}")
        for figure in figures.all_figures(summary):
            target = pictures / f"{file.stem.lower()}-{name}-{figure.name}.svg"
            target.write_text(display(figure.chart).svg, encoding="utf-8")
            address = Path(os.path.relpath(target.resolve(), file.parent.resolve())).as_posix()
            parts.append(f"![{figure.sentence}]({quote(address)})")  # a name may have blanks
        parts += [table.markdown() for table in tables.all_tables(summary)]
    file.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def findings(summary: Summary) -> list[str]:
    """The results in sentences, whichever method wins."""
    full = summary.accuracy[UNPRUNED, summary.tokens]
    sentences = [f"With all {summary.whole} {share(full)} of the answers are right."]
    if blank := summary.accuracy.get((BLANK, summary.tokens)):
        sentences.append(f"With a blank picture, so from the question alone: {share(blank)}.")
    if summary.methods:
        sentences += [_best(summary, k) for k in summary.budgets]
        sentences.append(inside_note(summary.methods))
        if summary.pictures < FEW:
            sentences.append(TOO_FEW.strip())
    if "random" in summary.methods:
        for k in summary.budgets:
            lost = 100 * (full.value - summary.accuracy["random", k].value)
            verb = "gain" if lost < 0 else "lose"
            points = f"{abs(lost):.1f} points against all tokens"
            sentences.append(f"Random picks of {budget_words(k)} {verb} {points}.")
    sentences.append(_spare_and_cdpruner(summary))
    sentences += _text_guidance(summary, middle_budget(summary.budgets))
    sentences += [_where(summary, layer, values) for layer, values in summary.places.items()]
    return [sentence for sentence in sentences if sentence]


_NEAREST = 5  # methods that a sentence names


def _best(summary: Summary, k: Budget) -> str:
    """The method that is right most often, and those that paired differences leave beside it."""
    best = summary.best[k]
    behind = {m: difference for (m, of), difference in summary.behind_best.items() if of == k}
    near = {m: difference for m, difference in behind.items() if not is_apart(summary, difference)}
    score = share(summary.accuracy[best, k])
    ahead = f"{title_of(best)} is right most often"
    if not all(difference.value for difference in behind.values()):  # another one is level with it
        ahead = f"no other method is right more often than {title_of(best)}"
    if not behind:
        return f"At {budget_words(k)} {title_of(best)} gives {score} right answers."
    sentence = f"At {budget_words(k)} {ahead}, {score}."
    if not near:
        all_others = "the other one" if len(behind) == 1 else f"each of the other {len(behind)}"
        return f"{sentence} Paired, {all_others} is behind it."
    nearest = sorted(near, key=lambda m: -near[m].value)[:_NEAREST]
    parts = [f"{title_of(m)} {percent(near[m], signed=True)}" for m in nearest]
    many = "The nearest, in" if len(near) > len(nearest) else "In"
    who = "the other one" if len(behind) == 1 else f"{len(near)} of the other {len(behind)}"
    return (
        f"{sentence} Paired, {who} {'does' if len(near) == 1 else 'do'} not differ from it "
        f"reliably. {many} points against it: {'; '.join(parts)}."
    )


def _spare_and_cdpruner(summary: Summary) -> str:
    """Their paired difference, where one of them is the reference."""
    reference = summary.reference or ""
    other = {"spare": "cdpruner", "cdpruner": "spare"}.get(reference, "")
    if other not in summary.methods:
        return ""
    parts = [
        f"{percent(summary.difference[other, k], signed=True)} points at {k}"
        for k in summary.budgets
    ]
    return f"{title_of(other)} against {title_of(reference)}, paired: {', '.join(parts)}."


def _text_guidance(summary: Summary, budget: Budget) -> list[str]:
    sentences = []
    for labels in (figures.ABLATION, ("anti-relevance", "normal-relevance")):
        measured = [m for m in labels if (m, budget) in summary.accuracy]
        if len(measured) > 1:
            parts = [f"{title_of(m)} {share(summary.accuracy[m, budget])}" for m in measured]
            sentences.append(f"Text guidance at {budget_words(budget)}: {'; '.join(parts)}.")
    return sentences


def _where(summary: Summary, layer: int, values: Mapping[str, Estimate]) -> str:
    name = {-2: "penultimate", -1: "last"}.get(layer, str(layer))
    source = f"from the {name} layer"
    if layer == WORDS:
        source = "by words of the language model, not CLIP"
    over = values.get("asked_over_background")
    if over is None:
        return ""
    verdict = "it is open whether high raw cosine falls on the things asked about or elsewhere"
    if is_apart(summary, over, 0.5):
        on, on_in_mean = over.value > 0.5, values["asked"].value > values["background"].value
        verdict = f"high raw cosine falls {'on' if on else 'away from'} the things asked about"
        if on != on_in_mean:  # a few patches far from most
            verdict += f" by rank, though {'lower' if on else 'higher'} there in the mean"
    others = values.get("asked_over_others")
    versus_others = f" and of {plain(others)} over other things" if others else ""
    return (
        f"Relevance {source}: {verdict}; mean "
        f"{plain(values['asked'])} on these, {plain(values.get('background'))} on the background; "
        f"AUC of {plain(over)} over the background{versus_others}."
    )
