"""How similar each visual token is to the question, and the weights made of it.

The papers compare the two in CLIP's space. `guidance_text="words"` compares what the language model
is given of a token with its input embeddings of the question's words: no paper's relevance, but one
that every model has.

This module returns the *raw* cosine, sign kept: high means similar. Which sign a method favours
is the method's business (`pruners/`): SPARE favours the low ones, and so does CDPruner's code.

Everything after the two towers is done in float64: it is a few hundred numbers, and a near tie
between two tokens must not be decided by rounding here.

Sources: CDPruner, arXiv 2506.10967, and its released code (clip_encoder.py, llava_arch.py);
SPARE, arXiv 2606.18681, Sec. 3.3 and Algorithm 1 lines 1-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as brief
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

Aggregation = Literal["mean", "max"]
TextPieces = Literal["stretches", "tokens"]
GuidanceText = Literal["clip", "words"]

# Cosines this close to each other (absolute) differ by rounding alone: they count as constant.
CONSTANT = 1e-12


@dataclass(frozen=True)
class RelevanceOptions:
    """Where the two sides of the cosine are read.

    layer: hidden state of the vision tower, counted from the end. -2 as released by CDPruner
        (the layer LLaVA reads); -1, the last, gives true CLIP patch embeddings.
    text: "stretches", one pooled embedding per 77-token stretch of the question (as released),
        or "tokens", one embedding per token of it.
    guidance_text: "clip", as in the papers; or "words": the projected visual tokens against the
        language model's input embeddings of the question's keywords, as MMTok takes them, one per
        token of text. Layer and text are then not read.
    """

    layer: int = -2
    text: TextPieces = "stretches"
    guidance_text: GuidanceText = "clip"

    def __post_init__(self) -> None:
        if not isinstance(self.layer, int) or self.layer >= 0:
            raise ValueError(
                f"Relevance layer {brief(self.layer)} is not usable. Count from the end: -1 is the "
                "last layer, -2 the one CDPruner reads."
            )
        for what, value, words in (
            ("text reading", self.text, get_args(TextPieces)),
            ("guidance_text", self.guidance_text, get_args(GuidanceText)),
        ):
            if value not in words:
                raise ValueError(
                    f"Unknown {what} {brief(value)}. Choose one of: {', '.join(words)}."
                )


def patch_embeddings(hidden: Tensor, post_layernorm: nn.Module, projection: Tensor) -> Tensor:
    """Hidden states of the vision tower -> CLIP's joint space: W_vis LN_post(h), in float32.

    hidden: (n, w), class token already dropped, any float dtype.
    post_layernorm: CLIP's final norm of the vision tower.
    projection: (w, c), CLIP's visual projection (open_clip's `visual.proj`).
    Half-precision weights are upcast, as the released CDPruner does.
    Returns (n, c) float32, not normalised.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        weights = {name: value.float() for name, value in post_layernorm.state_dict().items()}
        normed = torch.func.functional_call(post_layernorm, weights, (hidden.float(),))
        return normed @ projection.to(normed.device, torch.float32)


def raw_cosine(image: Tensor, text: Tensor) -> Tensor:
    """(n, c), (m, c) -> (n, m) float64 cosines, sign kept; 0 where either vector is zero."""
    rows = _unit_rows(image)
    return rows @ _unit_rows(text.to(rows.device)).T


def aggregate(cosine: Tensor, how: Aggregation = "mean") -> Tensor:
    """(n, m) raw cosines -> (n,): mean or max over the m text pieces (SPARE, Table A3).

    Raises ValueError for another `how`.
    """
    if how == "mean":
        return cosine.mean(dim=1)
    if how == "max":
        return cosine.amax(dim=1)
    raise ValueError(f"Unknown aggregation {brief(how)}. Choose one of: mean, max.")


def softplus_weight(score: Tensor) -> Tensor:
    """SPARE's squash: rho = log(1 + exp(z)), z the z-score over all n tokens (Alg. 1 lines 3-4).

    score: (n,) a relevance with the sign the method favours. Population standard deviation.
    Returns (n,) float64 > 0; all ones where the score is constant.
    """
    score = score.double()
    if _is_constant(score):
        return torch.ones_like(score)
    # Each value once: some processors compute the last few of a row by other instructions, and
    # equal scores would get weights that differ in the last bit.
    values, place = torch.unique(score, return_inverse=True)
    return softplus((values - score.mean()) / score.std(correction=0))[place]


def minmax_weight(score: Tensor) -> Tensor:
    """CDPruner's squash: (a - min + 1e-6) / (max - min) over all n tokens, as released.

    score: (n,) a relevance with the sign the method favours. Returns (n,) float64 > 0, from
    1e-6/range to 1 + 1e-6/range; all ones where the score is constant.
    """
    score = score.double()
    if _is_constant(score):
        return torch.ones_like(score)
    low, high = score.min(), score.max()
    return (score - low + 1e-6) / (high - low)


def _is_constant(score: Tensor) -> bool:
    return bool(score.max() - score.min() <= CONSTANT)


def _unit_rows(x: Tensor) -> Tensor:
    x = x.detach().double()
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / norm.masked_fill(norm == 0, 1.0)  # a zero row stays zero
