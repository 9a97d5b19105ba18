"""The built-in model as its report describes it, from its own files and recipe."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spare_demo.evaluation.cells import Table


@dataclass(frozen=True)
class BuiltIn:
    """What the report says of the model.

    Attributes:
        about: what it is and how it was trained, as Markdown.
        width: of a visual token in front of the language model.
        phases: of the CLIP's training. patch_phases: those with a loss on every patch.
    """

    about: str
    width: int
    phases: int
    patch_phases: int


def describe_built_in(folder: Path, parameters: int) -> BuiltIn:
    """Raises OSError or ValueError if the model's files cannot be read."""
    from spare_demo.scenes.training import language_phases, tower

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    vision, text = config["vision_config"], config["text_config"]
    tokens = (vision["image_size"] // vision["patch_size"]) ** 2
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    steps = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    steps_text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in steps.items())
    about = "\n\n".join(
        [
            "## The model and its training",
            f"A LLaVA of {parameters / 1e6:.1f} million parameters ({size:.1f} MB of files): a "
            f"CLIP vision tower for pictures of {vision['image_size']} pixels in patches of "
            f"{vision['patch_size']}, hence {tokens} visual tokens (width "
            f"{vision['hidden_size']}, {vision['num_hidden_layers']} layers), a projector, and a "
            f"Llama decoder (width {text['hidden_size']}, {text['num_hidden_layers']} layers). It "
            "knows drawn scenes only, and what it shows about a pruning method says nothing about "
            "a large model.",
            "Trained by `python -m spare_demo.scenes.train` on drawn scenes alone. Its files say: "
            f"{steps_text}. The phases of the recipe that they went through:",
            _phases("The CLIP, tower and text side", tower.PHASES),
            _phases("Projector and decoder, the tower frozen", language_phases.PHASES),
            *(
                _phases(f"Then {these}, and the mean of the weights before and after", phases)
                for these, phases in (
                    ("this one", language_phases.HELD_OUT_PHASES),
                    ("these", language_phases.NOISE_PHASES),
                )
            ),
            _phases("Last this one, queries and keys alone", language_phases.BALANCE_PHASES),
        ]
    )
    with_patches = sum(phase.patch_loss > 0 for phase in tower.PHASES)
    return BuiltIn(about, text["hidden_size"], len(tower.PHASES), with_patches)


def _phases(title: str, phases: Sequence[Any]) -> str:
    """A table of the phases' plain settings, whatever they are called."""
    names = [
        field.name
        for field in dataclasses.fields(phases[0])
        # Not of yes or no, which is an int as well: the phase's name says that.
        if type(getattr(phases[0], field.name)) in (str, int, float)
    ]
    rows = tuple(tuple(str(getattr(phase, name)) for name in names) for phase in phases)
    return Table(title, tuple(name.replace("_", " ") for name in names), rows).markdown()
