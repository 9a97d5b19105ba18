"""Training the CLIP: contrastive on captions, helped at first by a loss on every patch.

And where its relevance falls meanwhile: on what a question is about, or off it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from spare_demo.measures import chance_above
from spare_demo.scenes import draw
from spare_demo.scenes.practice import caption
from spare_demo.scenes.sets import samples
from spare_demo.scenes.training import patches
from spare_demo.scenes.training.architecture import GRID, MEAN, PATCH, SIDE, STD, VISION
from spare_demo.scenes.training.phases import Phase
from spare_demo.scenes.world import Rng, Scene, rng_of, sample_scene

_QUESTIONS = 240  # of the report on relevance


def random_corner(cells: int, rng: Rng) -> tuple[int, int]:
    """Row and column in the whole grid at which a window of so many patches a side may lie."""
    row, column = rng.integers(0, GRID - cells + 1, 2)
    return int(row), int(column)


def window_at(corner: tuple[int, int], cells: int) -> np.ndarray:
    """Raster indices in the whole grid of a window's patches; ``corner`` is its row and column."""
    rows, columns = (start + np.arange(cells) for start in corner)
    return (rows[:, None] * GRID + columns).reshape(-1)


def draw_canvases(phase: Phase, first: int) -> tuple[dict[str, Tensor], list[tuple[Scene, Rng]]]:
    """The pictures of a batch, of the scenes from number ``first`` of the training stream on.

    Returns:
        ``pixels`` (B, side, side, 3), the ``targets`` of their patches, and in ``windows`` the
        patches' raster indices in the whole grid; and of each canvas the whole picture that it is a
        window of, with the random stream to go on with.
    """
    world = replace(phase.world, side=phase.cells * PATCH)
    pixels, targets, windows, wholes = [], [], [], []
    for number in range(first, first + phase.batch):
        rng = rng_of("train", number)
        scene = sample_scene(world, rng)
        row, column = random_corner(phase.cells, rng)
        pixels.append(np.asarray(draw.draw(scene)))
        targets.append(patches.patch_targets(scene))
        windows.append(window_at((row, column), phase.cells))
        wholes.append((scene.inside(SIDE, column * PATCH, row * PATCH), rng))
    arrays = {"pixels": pixels, "targets": targets, "windows": windows}
    return {key: torch.from_numpy(np.stack(rows)) for key, rows in arrays.items()}, wholes


def batch(phase: Phase, first: int, tokenizer: PreTrainedTokenizerFast) -> dict[str, Tensor]:
    """A training batch of the scenes from number ``first`` on, always the same one."""
    data, wholes = draw_canvases(phase, first)
    texts = [caption(whole, rng) for whole, rng in wholes]
    encoded = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    return {**data, "text": encoded["input_ids"]}


def normalise(pixels: Tensor) -> Tensor:
    """(B, H, W, 3) bytes to (B, 3, H, W) as CLIP wants them."""
    mean = torch.tensor(MEAN, device=pixels.device)
    std = torch.tensor(STD, device=pixels.device)
    return ((pixels.float() / 255 - mean) / std).permute(0, 3, 1, 2)


def projector_states(visual: Any, pixels: Tensor, windows: Tensor) -> Tensor:
    """(B, 1 + n, w) states after the last but one block, which the projector reads, of windows of
    the grid.

    The same arithmetic as ``visual`` itself; with the whole grid as its window, the same numbers.
    """
    patches = visual.conv1(pixels).flatten(2).transpose(1, 2)
    places = visual.positional_embedding[1 + windows]
    first = (visual.class_embedding + visual.positional_embedding[0]).expand(len(patches), 1, -1)
    states = visual.ln_pre(torch.cat([first, patches + places], 1))
    for block in visual.transformer.resblocks[:-1]:
        states = _after(block, states)
    return states


def vision_states(visual: Any, pixels: Tensor, windows: Tensor) -> tuple[Tensor, Tensor]:
    """`projector_states`, and the same after the last block."""
    before = projector_states(visual, pixels, windows)
    return before, _after(visual.transformer.resblocks[-1], before)


def _after(block: Any, states: Tensor) -> Tensor:
    """(B, n, w) ``block(states)``, of one of the tower's blocks, in less time on a CPU."""
    attention = block.attn
    together = F.linear(block.ln_1(states), attention.in_proj_weight, attention.in_proj_bias)
    heads = together.unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4)
    states = states + attention.out_proj(_attend(*heads).transpose(1, 2).flatten(2))
    return states + block.mlp(block.ln_2(states))


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(B, H, n, D) softmax attention of queries, keys and values of that shape.

    torch's own takes a CPU up to three times as long in bfloat16.
    """
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value)
    scores = (query * query.shape[-1] ** -0.5) @ key.mT
    return scores.softmax(-1, dtype=query.dtype) @ value


def text_vectors(clip: Any, text: Tensor) -> Tensor:
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

    def forward(self, data: dict[str, Tensor], phase: Phase) -> tuple[Tensor, dict[str, Tensor]]:
        visual = self.clip.visual
        before, last = vision_states(visual, normalise(data["pixels"]), data["windows"])
        image = F.normalize(visual.ln_post(last[:, 0]) @ visual.proj, dim=-1).float()
        text = F.normalize(text_vectors(self.clip, data["text"]), dim=-1).float()
        logits = self.clip.logit_scale.exp().clamp(max=100) * image @ text.T
        right = torch.arange(len(logits), device=logits.device)
        contrast = (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2
        matched = (logits.argmax(1) == right).float().mean()
        # Without a loss on patches the heads go on learning to read them, so that the log says what
        # these still tell; the tower does not learn from it.
        states = before[:, 1:] if phase.patch_loss else before[:, 1:].detach()
        loss, shares = self.asked(states, data["targets"], data["windows"])
        metrics = {"contrast": contrast, "matched": matched, **shares}
        return contrast + (phase.patch_loss or 1.0) * loss, metrics


@torch.no_grad()
def relevance_report(clip: open_clip.CLIP, tokenizer: PreTrainedTokenizerFast) -> str:
    """In words, of both layers that relevance is read from, the chance that a patch of what is
    asked about has a higher cosine with the question than one of the background, or of other
    things: the area under the ROC curve, its mean over questions about held-out scenes."""
    device = clip.visual.conv1.weight.device
    whole_grid = torch.arange(GRID * GRID, device=device)[None]
    chances: dict[tuple[int, str], list[float]] = {}
    for sample in samples("held-out", _QUESTIONS):
        asked = [question for question in sample.questions if question.things]
        if not asked:
            continue
        pixels = torch.from_numpy(np.asarray(draw.draw(sample.scene)).copy())[None].to(device)
        layers = vision_states(clip.visual, normalise(pixels), whole_grid)
        text = tokenizer([q.text for q in asked], padding=True, return_tensors="pt")["input_ids"]
        words = F.normalize(text_vectors(clip, text.to(device)).float(), dim=-1)
        things = patches.thing_at_each_patch(sample.scene).astype(np.int64)
        owner = torch.from_numpy(things).flatten() - 1
        for layer, states in zip((-2, -1), layers, strict=True):
            image = (clip.visual.ln_post(states[0, 1:]) @ clip.visual.proj).float()
            cosines = (words @ F.normalize(image, dim=-1).T).cpu()
            for cosine, question in zip(cosines, asked, strict=True):
                on = torch.isin(owner, torch.tensor(question.things))
                for name, off in (("background", owner < 0), ("other things", ~on & (owner >= 0))):
                    if on.any() and off.any():
                        chances.setdefault((layer, name), []).append(
                            chance_above(cosine[on], cosine[off])
                        )
    return "relevance, AUC: " + ", ".join(
        f"layer {layer} over {name} {np.mean(values):.3f}"
        for (layer, name), values in chances.items()
    )
