"""The built-in model's files in ``assets/built-in``: written after training, read to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import load_file, save_file
from transformers import LlavaForConditionalGeneration

from spare_demo.models.catalog import ASSETS

from .architecture import MEAN, SIDE, STD

_LARGEST_FILE = "8MB"  # a Space refuses files over 10 MB without LFS


class BuiltInFiles:
    """Weights lie in half precision, which halves the download; they are used in float32.

    ``folder`` is a Hugging Face LLaVA checkpoint; ``folder/clip`` an open_clip folder; beside them
    ``training.json`` says how many steps the weights have seen."""

    def __init__(self, folder: Path = ASSETS / "built-in") -> None:
        self.folder = folder

    def _steps(self, name: str) -> int:
        return int(json.loads((self.folder / "training.json").read_text())[name])

    def load_clip(self, clip: open_clip.CLIP) -> int:
        """Fills ``clip`` with the shipped weights; returns the steps they have seen."""
        clip.load_state_dict(load_file(self.folder / "clip" / "open_clip_model.safetensors"))
        return self._steps("tower_steps")

    def load_llava(self, llava: LlavaForConditionalGeneration) -> int:
        """Fills ``llava`` with the shipped weights; returns the steps they have seen."""
        shipped = LlavaForConditionalGeneration.from_pretrained(self.folder, dtype=torch.float32)
        llava.load_state_dict(shipped.state_dict())
        return self._steps("language_steps")

    def write(
        self,
        clip: open_clip.CLIP,
        clip_config: dict[str, Any],
        text_tokenizer: Any,
        llava: LlavaForConditionalGeneration,
        processor: Any,
        steps: dict[str, int],
    ) -> None:
        """Replaces the files."""
        beside = self.folder / "clip"
        beside.mkdir(parents=True, exist_ok=True)
        preprocess = {"size": SIDE, "mean": MEAN, "std": STD}
        whole = {"model_cfg": clip_config, "preprocess_cfg": preprocess}
        (beside / "open_clip_config.json").write_text(json.dumps(whole, indent=2) + "\n")
        state = {name: value.half().contiguous() for name, value in clip.state_dict().items()}
        save_file(state, beside / "open_clip_model.safetensors")
        text_tokenizer.save_pretrained(beside)
        llava.half().save_pretrained(self.folder, max_shard_size=_LARGEST_FILE)
        processor.save_pretrained(self.folder)
        (self.folder / "training.json").write_text(json.dumps(steps, indent=2) + "\n")
