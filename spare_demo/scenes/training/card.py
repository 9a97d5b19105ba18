"""The model card beside the weights: ``python -m spare_demo.scenes.training.card RESULTS``.

``RESULTS`` is a folder that ``python -m spare_demo evaluate`` wrote for the built-in model. Its
summary is kept as ``accuracy.json``, and every figure of the card comes from there; its words lie
in ``card.md`` and ``training.md``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.training.architecture import LANGUAGE, PATCH, SIDE, VISION
from spare_demo.scenes.training.files import read_history
from spare_demo.table import markdown_table

_SETS = {
    "held-out": "held out",
    "unseen-pairs": "held out, with pairs of colour or number and shape that training never shows",
    "held-out-wordings": "held out, in wordings that training never uses",
}


def card(summary: dict[str, Any], history: dict[str, Any]) -> str:
    """The card in Markdown.

    summary: ``summary.json`` of an evaluation with nothing pruned. history: of `read_history`.
    """
    sets = summary["sets"]
    heads = ["scenes", "questions", "right", "right with a blank picture"]
    overall = [[_SETS[name], *_figures(part["accuracy"])] for name, part in sets.items()]
    needs = ["needs", *(f"{name}: {what}" for name in sets for what in ("questions", "right"))]
    parts = []
    for kind in ("skills", "combinations"):
        for name in dict.fromkeys(name for part in sets.values() for name in part[kind]):
            found = [_figures(part[kind].get(name, []))[:2] for part in sets.values()]
            label = f"{name} (all)" if kind == "skills" else name
            parts.append([label, *(figure for pair in found for figure in pair)])
    return _text("card.md").format(
        side=SIDE, patch=PATCH, tokens=(SIDE // PATCH) ** 2,
        width=VISION["width"], layers=VISION["layers"],
        hidden=LANGUAGE["hidden_size"], decoder=LANGUAGE["num_hidden_layers"],
        training=training_text(history), revision=summary["settings"]["model"]["revision"],
        overall=markdown_table(heads, overall), parts=markdown_table(needs, parts),
        questions=next(iter(sets.values()))["questions"], sets=" ".join(sets),
    )  # fmt: skip


def training_text(history: dict[str, Any]) -> str:
    """How weights were trained, from their history."""
    tables = {}
    for part in ("tower", "language"):
        phases = history[f"{part}_phases"]
        columns = [name for name in phases[0] if name != "world"]
        rows = [[str(phase[column]) for column in columns] for phase in phases]
        tables[part] = markdown_table([column.replace("_", " ") for column in columns], rows)
    return _text("training.md").format(**history, **tables).rstrip("\n")


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _figures(estimates: list[dict[str, Any]]) -> list[str]:
    """Questions, share right, share right of a blank picture; dashes where nothing was asked."""
    by_method = {estimate["method"]: estimate for estimate in estimates}
    if "unpruned" not in by_method:
        return ["0", "–", "–"]
    shown = [by_method[name] for name in ("unpruned", "blank") if name in by_method]
    percents = [[f"{100 * e[key]:.1f}" for key in ("value", "low", "high")] for e in shown]
    shares = [f"{value} % ({low} to {high})" for value, low, high in percents]
    return [str(shown[0]["count"]), *shares]


def main() -> None:
    program = "python -m spare_demo.scenes.training.card"
    parser = argparse.ArgumentParser(program, description="Write the built-in model's card.")
    parser.add_argument("results", type=Path, help="a folder of python -m spare_demo evaluate")
    folder = ASSETS / "built-in"
    summary = json.loads((parser.parse_args().results / "summary.json").read_text("utf-8"))
    history = read_history(folder)
    # On one line: with the weights it has to stay below 17 MB.
    (folder / "accuracy.json").write_text(json.dumps(summary) + "\n", "utf-8")
    (folder / "README.md").write_text(card(summary, history), "utf-8")


if __name__ == "__main__":
    main()
