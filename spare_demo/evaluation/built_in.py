"""The built-in model as its report describes it, from its own files and recipe."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


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


def describe_built_in(folder: Path) -> BuiltIn:
    """Describe the model of a folder; OSError or ValueError if its files cannot be read."""
    from safetensors.torch import load_file

    from spare_demo.scenes.training import card, files

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    vision, text = config["vision_config"], config["text_config"]
    tokens = (vision["image_size"] // vision["patch_size"]) ** 2
    shards = map(load_file, folder.glob("*.safetensors"))
    parameters = sum(weights.numel() for shard in shards for weights in shard.values())
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    history = files.read_history(folder)
    tower = history["tower_phases"]
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
            card.training_text(history),
        ]
    )
    patch_phases = sum(phase["patch_loss"] > 0 for phase in tower)
    return BuiltIn(about, text["hidden_size"], len(tower), patch_phases)
