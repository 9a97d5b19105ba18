"""Which CLIP text side belongs to a checkpoint that the table does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from spare_demo.models.families.clip_tower import memoize
from spare_demo.models.loading.catalogue import OPENAI_CLIP
from spare_demo.models.loading.text_tower import TextTower


def text_side_of(source: Path | str, config: Any) -> Path | tuple[str, str] | None:
    """Where the text side of a CLIP tower lies that the table does not know; None if unknown.

    A local checkpoint folder's own `clip/`, for `TextTower.from_folder`; or, where the tower has
    the sizes of the one that LLaVA was made with, that one's names for `TextTower.from_open_clip`.
    """
    if isinstance(source, Path) and (source / "clip").is_dir():
        return source / "clip"
    return OPENAI_CLIP if vision_is_openai_clip(config.vision_config) else None


def vision_is_openai_clip(vision: Any) -> bool:
    """Whether a vision config has the sizes of CLIP ViT-L/14-336, LLaVA-1.5's tower."""
    if vision.model_type != "clip_vision_model":
        return False
    sizes = (vision.hidden_size, vision.num_hidden_layers, vision.image_size, vision.patch_size)
    return bool(sizes == (1024, 24, 336, 14))


def read_text_side(side: Path | tuple[str, str], device: torch.device) -> TextTower:
    """A text side that `text_side_of` names, on a device; raises ModelError."""
    if isinstance(side, Path):
        return TextTower.from_folder(side).to(device)
    return TextTower.from_open_clip(*side).to(device)


shared_text_side = memoize(read_text_side)
"""The same, read once for each device."""


def text_side_of_model(hf: Any) -> TextTower | None:
    """The text side of the checkpoint that a stock model was read from, read once for each device.

    None where none is known, as of a model that was made of its config. Raises ModelError.
    """
    name = hf.name_or_path
    local = bool(name) and Path(name).is_dir()
    side = text_side_of(Path(name).resolve() if local else name, hf.config)
    return None if side is None else shared_text_side(side, hf.device)
