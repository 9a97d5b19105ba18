"""The model card beside the weights: ``python -m spare_demo.scenes.training.card RESULTS``.

``RESULTS`` is a folder that ``python -m spare_demo evaluate`` wrote for the built-in model. Its
summary is kept as ``accuracy.json``, and every figure of the card comes from there.
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
    "unseen-pairs": "held out, of pairs of colour or number and shape that training never shows",
    "held-out-wordings": "held out, in wordings that training never uses",
}
_CARD = """\
# The built-in model

A LLaVA of a few million parameters, of the same classes as LLaVA-1.5 end to end: a CLIP vision
tower ({side} pixels, patches of {patch}, hence {tokens} visual tokens; width {width}, {layers}
layers), the layer before its last, a two-layer GELU projector, a Llama decoder (width {hidden},
{decoder} layers). `clip/` is the CLIP that the tower comes from, as an open_clip folder; its
text side gives relevance. Weights are shipped in half precision and used in float32.

It knows drawn scenes only: coloured shapes on varied grounds, some with a number or a word
printed on them. It knows nothing about photos, and what it shows about a pruning method says
nothing about LLaVA-1.5-7B.

## Training

{training}

"""
_MEASURED = """\
## How often it is right

Nothing pruned, greedy, revision {revision}. In brackets 95 % intervals over pictures.

{overall}

By skill (every question that needs it) and by combination of skills:

{parts}

Made by:

```bash
python -m spare_demo evaluate --methods --questions {questions} --set {sets} --out RESULTS
python -m spare_demo.scenes.training.card RESULTS
```

Licence: Apache-2.0.
"""


_TRAINED = """\
Trained by `python -m spare_demo.scenes.train`, seed {tower_seed}, on scenes drawn by
`spare_demo/scenes` alone; there are no outside data or weights. {tower_steps} steps for the CLIP,
contrastive on captions, helped by a loss on every patch until its last phase:

{tower}

{language_steps} steps for projector and decoder, the tower frozen as it lies in `clip/`:

{language}

Colours, numbers and shapes that the second held-out set pairs are never shown together.
`clip/training.log` and `training.log` hold what was printed on the way, and where training was
stopped and gone on with."""


def card(summary: dict[str, Any], history: dict[str, Any]) -> str:
    """The card in Markdown.

    Args:
        summary: ``summary.json`` of an evaluation with nothing pruned.
        history: of `files.read_history`.
    """
    head = _CARD.format(
        side=SIDE, patch=PATCH, tokens=(SIDE // PATCH) ** 2,
        width=VISION["width"], layers=VISION["layers"],
        hidden=LANGUAGE["hidden_size"], decoder=LANGUAGE["num_hidden_layers"],
        training=training_text(history),
    )  # fmt: skip
    return head + measured_text(summary)


def training_text(history: dict[str, Any]) -> str:
    """How weights were trained, from their history."""
    tables = {name: _phase_table(history[f"{name}_phases"]) for name in ("tower", "language")}
    return _TRAINED.format(**history, **tables)


def _phase_table(phases: list[dict[str, Any]]) -> str:
    columns = [name for name in phases[0] if name != "world"]
    rows = [[str(phase[column]) for column in columns] for phase in phases]
    return markdown_table([column.replace("_", " ") for column in columns], rows)


def measured_text(summary: dict[str, Any]) -> str:
    """How often the model is right: the part of the card that follows from an evaluation."""
    sets = summary["sets"]
    overall = [["scenes", "questions", "right", "right with a blank picture"]]
    overall += [[_SETS[name], *_figures(found["accuracy"])] for name, found in sets.items()]
    parts = [["needs", *(f"{name}: {what}" for name in sets for what in ("questions", "right"))]]
    for kind in ("skills", "combinations"):
        for name in dict.fromkeys(name for part in sets.values() for name in part[kind]):
            found = [_figures(part[kind].get(name, []))[:2] for part in sets.values()]
            label = f"{name} (all)" if kind == "skills" else name
            parts.append([label, *(figure for pair in found for figure in pair)])
    return _MEASURED.format(
        revision=summary["settings"]["model"]["revision"],
        overall=markdown_table(overall[0], overall[1:]), parts=markdown_table(parts[0], parts[1:]),
        questions=next(iter(sets.values()))["questions"], sets=" ".join(sets),
    )  # fmt: skip


def _figures(estimates: list[dict[str, Any]]) -> list[str]:
    """Questions, share right, share right of a blank picture; dashes where nothing was asked."""
    by_method = {estimate["method"]: estimate for estimate in estimates}
    if "unpruned" not in by_method:
        return ["0", "–", "–"]
    shares = [
        f"{100 * e['value']:.1f} % ({100 * e['low']:.1f} to {100 * e['high']:.1f})"
        for e in (by_method["unpruned"], by_method.get("blank"))
        if e
    ]
    return [str(by_method["unpruned"]["count"]), *shares]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m spare_demo.scenes.training.card",
        description="Write the built-in model's card.",
    )
    parser.add_argument("results", type=Path, help="a folder of python -m spare_demo evaluate")
    folder = ASSETS / "built-in"
    summary = json.loads((parser.parse_args().results / "summary.json").read_text("utf-8"))
    history = read_history(folder)
    # On one line: with the weights it has to stay below 17 MB.
    (folder / "accuracy.json").write_text(json.dumps(summary) + "\n", "utf-8")
    (folder / "README.md").write_text(card(summary, history), "utf-8")


if __name__ == "__main__":
    main()
