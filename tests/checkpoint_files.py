"""A checkpoint folder's weights, to be written again in another way, and what loading says then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from spare_demo.models import ModelError, load_model

INDEX = "model.safetensors.index.json"


def read_all(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a sharded checkpoint; the shards are removed."""
    state: dict[str, torch.Tensor] = {}
    for shard in sorted(folder.glob("model-*.safetensors")):
        state |= load_file(shard)
        shard.unlink()
    (folder / INDEX).unlink()
    return state


def write_one(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """The tensors as the one file of a checkpoint that is not sharded."""
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def refused(name: str | Path, sentence: str, **options: Any) -> str:
    """The refusal of a model: in the sentence's words, with a next step, and without its path."""
    with pytest.raises(ModelError, match=sentence) as refusal:
        load_model(str(name), **{"device": "cpu", **options})
    message = str(refusal.value)
    assert "Traceback" not in message and "secret-place" not in message
    assert re.search(r"\b(Get|Choose|choose|get|Check|start|Install)\b", message), message
    return message
