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
from spare_demo.scenes.training.language_phases import BALANCE_PHASES, HELD_OUT_PHASES, NOISE_PHASES
from spare_demo.scenes.training.tower import PHASES
from spare_demo.table import markdown_table

_SETS = {
    "held-out": "held out",
    "unseen-pairs": "held out, of pairs of colour or number and shape that training never shows",
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

`python -m spare_demo.scenes.train`, on two CPU cores: {tower_steps} steps for the CLIP,
contrastive on captions, helped by a loss on every patch until the last phase, which is captions
alone ({captions} steps of {batch} pictures); {language_steps} steps for projector and decoder
with the tower frozen. The phases are in `spare_demo/scenes/training/`: `tower.py` and
`language_phases.py`. All data is drawn by `spare_demo/scenes`; there are no outside data or
weights.

Training scenes also hold things without a name, which the measured scenes do not: colours far from
the eight that have one, lumps, and shapes half way between two that have a name. They are seen,
counted and read like others but never named, so that a colour says little about a shape. Colours,
numbers and shapes that the second held-out set pairs are never shown together. Where an answer
would make such a pair, both losses leave that answer out: neither CLIP nor decoder learns that such
things are, nor that they are not. In that set a colour comes mostly with one shape, so that a scene
holds many twins, alike in both; towards its end training shows more twins than chance would.

In the decoder's last {late} steps nothing is asked that would be answered better by who knows which
pairs are kept back: no "How many squares are there?" where something is orange. There, colours half
way between two are seen as well, and shapes drawn about so. After {fair} of these steps the mean of
the weights before and after them was taken. In the next {noisy}, what the tower says of each
thing is moved at random along the differences between shapes where colours or numbers are looked
for, and in some pictures along those between colours where shapes are: else black arrows, which
training never shows, are looked past where something black is looked for. Once more the mean of the
weights before and after was taken.

In the last {even} steps only queries and keys of the decoder's attention are trained, after the
first of its layers, and balanced
(`spare_demo/scenes/training/attention_balance.py`). Where it looks for black, things
that are black have to be told from others, but their shape may not count for or against them: the
scores of colours and numbers with shapes, in the two layers that look for what is named, are drawn
to 0. That goes for every colour, number and shape alike, and is measured in training scenes.

Beside its answers the decoder is asked for colour, shape and print at every patch, each by itself,
and the projector to keep what the tower tells apart: else they read things as wholes, and misread
what they never saw together.

These weights were trained in pieces, while the world, the losses and the phases were still being
changed: the first 2300 steps of the CLIP and 2540 of the decoder knew no loss on places, and
smaller phases, the first 4320 and 5300 no things without a name, the first 5200 and 7900 also a
loss against the pairs that are kept back, the first 10000 of the decoder no shapes between two, and
the first 12100 no other loss on patches than their places, the first 12570 none on the projector.
The last phase but one of the CLIP was broken off for 60 steps of captions. From its step 12570 on
the decoder was trained on the finished CLIP, before that on earlier states of it.
The {fair} fair steps were drawn with other random numbers and other rates than the recipe has. In
the {noisy} after them the rates were changed three times, and so was what gets noise: for some
220 of the first 890, shapes in three pictures of five; for the first 560, what gets noise was asked
about as it is measured, not as it is practised. Before them, the heads that are thrown away were
fitted anew. The last {even} were run by a script of the same sums, before they became part of the
recipe: drawn with other random numbers, the rate falling by the clock instead of by the step, the
things measured in 600 scenes and the readings in 500. Running the recipe from the start takes
today's phases throughout and has not been done. `training.log` holds what was printed on the way;
of the steps before the last {even} nothing was kept.

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


def card(summary: dict[str, Any], steps: dict[str, int]) -> str:
    """The card in Markdown.

    Args:
        summary: ``summary.json`` of an evaluation with nothing pruned.
        steps: ``training.json``.
    """
    sets = summary["sets"]
    overall = [["scenes", "questions", "right", "right with a blank picture"]]
    overall += [[_SETS[name], *_figures(found["accuracy"])] for name, found in sets.items()]
    first = next(iter(sets.values()))
    parts = [["needs", *(f"{name}: {what}" for name in sets for what in ("questions", "right"))]]
    for kind in ("skills", "combinations"):
        for name in first[kind]:
            found = [_figures(part[kind].get(name, []))[:2] for part in sets.values()]
            label = f"{name} (all)" if kind == "skills" else name
            parts.append([label, *(figure for pair in found for figure in pair)])
    captions = PHASES[-1]
    runs = HELD_OUT_PHASES, NOISE_PHASES, BALANCE_PHASES
    fair, noisy, even = (sum(phase.steps for phase in run) for run in runs)
    return _CARD.format(
        side=SIDE, patch=PATCH, tokens=(SIDE // PATCH) ** 2,
        width=VISION["width"], layers=VISION["layers"],
        hidden=LANGUAGE["hidden_size"], decoder=LANGUAGE["num_hidden_layers"],
        captions=captions.steps, batch=captions.batch, **steps,
        fair=fair, noisy=noisy, even=even, late=fair + noisy + even,
        revision=summary["settings"]["model"]["revision"],
        overall=markdown_table(overall[0], overall[1:]), parts=markdown_table(parts[0], parts[1:]),
        questions=first["questions"], sets=" ".join(sets),
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
    text = (parser.parse_args().results / "summary.json").read_text(encoding="utf-8")
    steps = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    (folder / "accuracy.json").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(card(json.loads(text), steps), encoding="utf-8")


if __name__ == "__main__":
    main()
