"""Where a CLIP's relevance falls while it is trained: on what a question is about, or off it."""

from __future__ import annotations

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from transformers import PreTrainedTokenizerFast

from spare_demo.measures import chance_above
from spare_demo.scenes import draw
from spare_demo.scenes.sets import samples
from spare_demo.scenes.training.architecture import GRID
from spare_demo.scenes.training.patches import thing_at_each_patch
from spare_demo.scenes.training.tower import normalise, text_vectors, vision_states

_QUESTIONS = 240


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
        owner = torch.from_numpy(thing_at_each_patch(sample.scene).astype(np.int64)).flatten() - 1
        for layer, states in zip((-2, -1), layers, strict=True):
            patches = (clip.visual.ln_post(states[0, 1:]) @ clip.visual.proj).float()
            cosines = (words @ F.normalize(patches, dim=-1).T).cpu()
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
