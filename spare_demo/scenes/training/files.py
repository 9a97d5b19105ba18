"""The built-in model's files in ``assets/built-in``: written after training, read to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.scenes.training.architecture import MEAN, SIDE, STD

_LARGEST_FILE = "8MB"  # a Space refuses files over 10 MB without LFS


_TOWER = "model.vision_tower."
_BY_TOKEN = ("token_embedding.weight", "embed_tokens.weight", "lm_head.weight")


def _carry_rows(
    state: dict[str, Tensor],
    fresh: dict[str, Tensor],
    shipped: Path,
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Sorts the rows that belong to tokens by those of ``tokenizer``.

    The vocabulary follows the world's sentences, so it changes when the world learns a question. A
    token keeps its row; one that the shipped tokenizer lacks gets that of ``fresh``.
    """
    before = PreTrainedTokenizerFast.from_pretrained(shipped).get_vocab()
    now = tokenizer.get_vocab()
    for name in state:
        if name.endswith(_BY_TOKEN):
            rows = fresh[name].clone()
            for token, row in now.items():
                if token in before:
                    rows[row] = state[name][before[token]]
            state[name] = rows


class BuiltInFiles:
    """Weights lie in half precision, which halves the download; they are used in float32.

    ``folder`` is a Hugging Face LLaVA checkpoint; ``folder/clip`` an open_clip folder; beside them
    ``training.json`` says how many steps the weights have seen, and ``training.log`` what they
    printed."""

    def __init__(self, folder: Path = ASSETS / "built-in") -> None:
        self.folder = folder

    def _steps(self, name: str) -> int:
        return int(json.loads((self.folder / "training.json").read_text())[name])

    def log(self) -> list[str]:
        """The lines that training printed on the way to the shipped weights."""
        return (self.folder / "training.log").read_text().splitlines()

    def load_clip(self, clip: open_clip.CLIP, tokenizer: PreTrainedTokenizerFast) -> int:
        """Fills ``clip`` with the shipped weights; returns the steps they have seen."""
        state = load_file(self.folder / "clip" / "open_clip_model.safetensors")
        _carry_rows(state, clip.state_dict(), self.folder / "clip", tokenizer)
        clip.load_state_dict(state)
        return self._steps("tower_steps")

    def load_llava(
        self, llava: LlavaForConditionalGeneration, tokenizer: PreTrainedTokenizerFast
    ) -> int:
        """Fills projector and decoder with the shipped weights; returns the steps they have seen.

        The tower stays: it is the CLIP's, which may have been trained on since.
        """
        shipped = LlavaForConditionalGeneration.from_pretrained(self.folder, dtype=torch.float32)
        state = shipped.state_dict() | llava.model.vision_tower.state_dict(prefix=_TOWER)
        _carry_rows(state, llava.state_dict(), self.folder, tokenizer)
        llava.load_state_dict(state)
        return self._steps("language_steps")

    def write(
        self,
        clip: open_clip.CLIP,
        clip_config: dict[str, Any],
        text_tokenizer: Any,
        llava: LlavaForConditionalGeneration,
        processor: Any,
        steps: dict[str, int],
        log: list[str],
    ) -> None:
        """Replaces the files."""
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
        (self.folder / "training.json").write_text(json.dumps(steps, indent=2) + "\n")
        (self.folder / "training.log").write_text("".join(f"{line}\n" for line in log))
