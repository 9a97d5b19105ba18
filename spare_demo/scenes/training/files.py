"""The built-in model's files in ``assets/built-in``, written after training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
from safetensors.torch import save_file
from transformers import LlavaForConditionalGeneration

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.training.architecture import MEAN, SIDE, STD

_LARGEST_FILE = "8MB"  # a Space refuses files over 10 MB without LFS


class BuiltInFiles:
    """Weights lie in half precision, which halves the download; they are used in float32.

    ``folder`` is a Hugging Face LLaVA checkpoint; ``folder/clip`` an open_clip folder; beside them
    ``training.json`` says how the weights were trained, and ``training.log`` what was printed on
    the way."""

    def __init__(self, folder: Path = ASSETS / "built-in") -> None:
        self.folder = folder

    def write(
        self,
        clip: open_clip.CLIP,
        clip_config: dict[str, Any],
        text_tokenizer: Any,
        llava: LlavaForConditionalGeneration,
        processor: Any,
        training: dict[str, Any],
        log: list[str],
    ) -> None:
        """Replaces the files.

        Raises:
            OSError: the disk is full, say.
        """
        clip_folder = self.folder / "clip"
        clip_folder.mkdir(parents=True, exist_ok=True)
        preprocess = {"size": SIDE, "mean": MEAN, "std": STD}
        whole = {"model_cfg": clip_config, "preprocess_cfg": preprocess}
        (clip_folder / "open_clip_config.json").write_text(json.dumps(whole, indent=2) + "\n")
        state = {name: value.half().contiguous() for name, value in clip.state_dict().items()}
        save_file(state, clip_folder / "open_clip_model.safetensors")
        text_tokenizer.save_pretrained(clip_folder)
        llava.half().save_pretrained(self.folder, max_shard_size=_LARGEST_FILE)
        processor.save_pretrained(self.folder)
        (self.folder / "training.json").write_text(json.dumps(training, indent=2) + "\n")
        (self.folder / "training.log").write_text("".join(f"{line}\n" for line in log))
