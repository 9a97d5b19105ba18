"""Training the CLIP: contrastive on captions, helped at first by a loss on every patch.

Most steps see *windows*: small canvases of 12 × 12 patches, told that they lie anywhere in the
24 × 24 grid. They cost a quarter of a picture and most of what there is to learn is local. Whole
pictures follow, and the last phase is captions alone, as CLIP's training is: how its patch
embeddings behave is what relevance is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from spare_demo.scenes import captions, draw
from spare_demo.scenes.training import patches
from spare_demo.scenes.training.architecture import GRID, PATCH, SIDE, VISION
from spare_demo.scenes.world import World, rng_of, sample_scene


@dataclass(frozen=True)
class Phase:
    """``steps`` steps on batches of ``batch`` canvases of ``cells`` × ``cells`` patches."""

    name: str
    steps: int
    batch: int
    cells: int
    world: World
    patch_loss: float  # the weight of the loss on every patch beside the contrastive one


CROWDED = World(things=(6, 12), sizes=(24.0, 72.0))
_PRINTED: dict[str, Any] = {
    **{"tint_share": 0.3, "blob_share": 0.5, "between": True},
    **{"number_share": 0.75, "word_share": 0.1},
}
PHASES = (
    Phase("windows", 3950, 64, 12, CROWDED, 1.0),
    Phase("pictures", 250, 16, GRID, World(things=(6, 14)), 1.0),
    Phase("captions", 120, 64, GRID, World(), 0.0),
    # What has no name teaches to see a shape whatever its colour, and print whatever it is on.
    Phase(
        "windows, some nameless", 780, 64, 12, replace(CROWDED, tint_share=0.4, blob_share=0.2), 1.0
    ),
    Phase("captions again", 100, 64, GRID, World(tint_share=0.2, blob_share=0.1), 0.0),
    # Print on what is not quite any shape: a digit is the same digit whatever it is on.
    Phase("windows, print on anything", 1160, 64, 12, replace(CROWDED, **_PRINTED), 1.0),
    Phase("captions a third time", 100, 64, GRID, World(tint_share=0.2, blob_share=0.1), 0.0),
)


def random_corner(cells: int, rng: np.random.Generator) -> tuple[int, int]:
    """Row and column in the whole grid at which a window of so many patches a side may lie."""
    row, column = rng.integers(0, GRID - cells + 1, 2)
    return int(row), int(column)


def window_at(corner: tuple[int, int], cells: int) -> np.ndarray:
    """Raster indices in the whole grid of a window's patches; ``corner`` is its row and column."""
    rows = corner[0] + np.arange(cells)
    columns = corner[1] + np.arange(cells)
    return (rows[:, None] * GRID + columns[None]).reshape(-1)


def batch(phase: Phase, step: int, tokenizer: PreTrainedTokenizerFast) -> dict[str, Tensor]:
    """The training batch of a step, always the same one."""
    pictures, texts, targets, windows = [], [], [], []
    for index in range(phase.batch):
        rng = rng_of("train", step * 1000 + index)
        scene = sample_scene(replace(phase.world, side=phase.cells * PATCH), rng)
        row, column = random_corner(phase.cells, rng)
        pictures.append(np.asarray(draw.draw(scene)))
        texts.append(captions.caption(scene.inside(SIDE, column * PATCH, row * PATCH), rng))
        targets.append(patches.patch_targets(scene))
        windows.append(window_at((row, column), phase.cells))
    encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    return {
        "pixels": torch.from_numpy(np.stack(pictures)),
        "text": encoded["input_ids"],
        "targets": torch.from_numpy(np.stack(targets)),
        "windows": torch.from_numpy(np.stack(windows)),
    }


def normalise(pixels: Tensor) -> Tensor:
    """(B, H, W, 3) bytes to (B, 3, H, W) as CLIP wants them."""
    mean = torch.tensor(open_clip.OPENAI_DATASET_MEAN, device=pixels.device)
    std = torch.tensor(open_clip.OPENAI_DATASET_STD, device=pixels.device)
    return ((pixels.float() / 255 - mean) / std).permute(0, 3, 1, 2)


def vision_states(visual: Any, pixels: Tensor, windows: Tensor) -> tuple[Tensor, Tensor]:
    """States after the last but one and the last block, (B, 1 + n, w), of windows of the grid.

    The same arithmetic as ``visual`` itself; with the whole grid as its window, the same numbers.
    """
    patches = visual.conv1(pixels).flatten(2).transpose(1, 2)
    places = visual.positional_embedding[1 + windows]
    first = (visual.class_embedding + visual.positional_embedding[0]).expand(len(patches), 1, -1)
    states = visual.ln_pre(torch.cat([first, patches + places], 1))
    *blocks, last = visual.transformer.resblocks
    for block in blocks:
        states = block(states)
    return states, last(states)


def _text_vectors(clip: Any, text: Tensor) -> Tensor:
    """``clip.encode_text`` without padding up to 77 tokens (a causal text tower never sees it)."""
    length = text.shape[1]
    states = clip.token_embedding(text) + clip.positional_embedding[:length]
    states = clip.ln_final(clip.transformer(states, attn_mask=clip.attn_mask[:length, :length]))
    ends = (text == clip.text_eos_id).int().argmax(1)
    return states[torch.arange(len(text)), ends] @ clip.text_projection


class TowerTraining(nn.Module):
    """The CLIP and the heads that ask every patch; the heads are thrown away afterwards."""

    def __init__(self, clip: open_clip.CLIP) -> None:
        super().__init__()
        self.clip = clip
        self.asked = patches.PatchHeads(VISION["width"])

    def matrices(self) -> Iterator[nn.Parameter]:
        """What Muon trains: the matrices of both transformers."""
        for part in (self.clip.visual.transformer, self.clip.transformer):
            yield from (p for p in part.parameters() if p.ndim == 2)

    def forward(self, data: dict[str, Tensor], phase: Phase) -> tuple[Tensor, dict[str, float]]:
        visual = self.clip.visual
        before, last = vision_states(visual, normalise(data["pixels"]), data["windows"])
        image = F.normalize(visual.ln_post(last[:, 0]) @ visual.proj, dim=-1).float()
        text = F.normalize(_text_vectors(self.clip, data["text"]), dim=-1).float()
        logits = self.clip.logit_scale.exp().clamp(max=100) * image @ text.T
        right = torch.arange(len(logits), device=logits.device)
        contrast = (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2
        metrics = {
            "contrast": contrast.item(),
            "matched": (logits.argmax(1) == right).float().mean().item(),
        }
        if not phase.patch_loss:
            return contrast, metrics
        loss, shares = self.asked(before[:, 1:], data["targets"], data["windows"])
        return contrast + phase.patch_loss * loss, metrics | shares
