"""What some methods read of CLIP's tower beyond its output: projections of a block's patches, and
the class token's view.

The tower runs its fast attention, which gives no weights. From a block's input, which the tower
hands out anyway, the keys are one projection and the class token's row of attention is one vector
against them: nothing else of the block is computed, and no second pass. What a patch receives from
all takes every query against every key, view by view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from spare_demo.models.generate.passes import Passes, plain_tensor
from spare_demo.pruners.blocks import block_place
from spare_demo.threads import memoize

BLOCKS = (-1, -2, 6, 9)
"""The blocks that methods read: below 0 from the end, above 0 from the start of one of 24."""

CLIP_READS = frozenset(
    {
        *("states", "class_states", "project", "cls_attention", "attention_received"),
        *("vision_keys", "vision_values", "class_queries", "tower_blocks"),
    }
)
"""The names of the fields that `clip_reads` fills."""


def block_inputs(depth: int) -> set[int]:
    """The hidden states, from the end, that `clip_reads` wants of a tower of so many blocks."""
    places = {block_place(block, depth) for block in BLOCKS}
    return {place - 1 for place in places if place >= -depth}


def clip_reads(
    tower: Any,
    projector: nn.Module,
    passes: Passes,
    inputs: Mapping[int, Tensor],
    states: Tensor,
    class_states: Tensor,
    order: Tensor | None = None,
) -> dict[str, Any]:
    """The further fields of `VisualTokens` for one picture seen in v views of p patches.

    Args:
        tower: a CLIPVisionModel.
        projector, passes: the model's projector, and the turn-taking on its device.
        inputs: {hidden state of `block_inputs`: (v, 1 + p, w)}, class token first.
        states: (n, w) what the projector was given, one row per visual token.
        class_states: (v, w) the class tokens there.
        order: (n,) for each visual token its place in the v * p patches, view after view; None
            where the visual tokens are those patches.

    The functions keep what they need on the CPU: an open comparison takes nothing of a GPU.
    """
    device, dtype = states.device, states.dtype  # in no function: it would hold on to the states
    inputs = {layer: hidden.cpu() for layer, hidden in inputs.items()}

    def project(rows: Tensor) -> Tensor:
        """(m, w) -> (m, d) in float32: a difference of half-precision rows would be rounding."""
        weights = projector.state_dict()
        if not weights:  # packed (loading/packed_weights.py), and computing in float32 anyway
            return run(lambda: projector(rows.detach().float()))
        if not all(value.is_floating_point() for value in weights.values()):  # quantised
            rows = rows.detach().to(device, dtype)
            return run(lambda: projector(rows).float())
        weights = {name: value.float() for name, value in weights.items()}
        inputs_of_projector = rows.detach().float().to(next(iter(weights.values())).device)
        return run(lambda: torch.func.functional_call(projector, weights, (inputs_of_projector,)))

    def run(step: Callable[[], Tensor]) -> Tensor:
        return plain_tensor(passes.run(step)[0])

    def place(block: int) -> int:
        if block not in BLOCKS:
            raise ValueError(f"Block {block} is not kept. Choose one of: {BLOCKS}.")
        return block_place(block, len(tower.encoder.layers))

    def heads_of(block: int, rows: Tensor, layer: str, joined: bool = False) -> Tensor:
        """(v, t, w) normed rows -> (v, h, t, w / h) through one projection of the block."""
        attention = tower.encoder.layers[place(block)].self_attn
        heads = 1 if joined else attention.num_heads
        return getattr(attention, layer)(rows).unflatten(-1, (heads, -1)).transpose(1, 2)

    def norm_rows(block: int) -> Tensor:
        norm = tower.encoder.layers[place(block)].layer_norm1
        return norm(inputs[place(block) - 1].to(norm.weight.device))

    def per_token(values: Tensor) -> Tensor:
        """(v, h, p, ...) -> (h, n, ...)."""
        flat = values.transpose(0, 1).flatten(1, 2)
        return flat if order is None else flat[:, order.to(flat.device)]

    def cls_attention(block: int, joined: bool = False) -> Tensor:
        rows = norm_rows(block)
        query = heads_of(block, rows[:, :1], "q_proj", joined).float()
        keys = heads_of(block, rows, "k_proj", joined).float()
        scores = (query @ keys.mT) / keys.shape[-1] ** 0.5  # (v, h, 1, 1 + p)
        return per_token(scores.softmax(dim=-1)[:, :, 0, 1:])

    def attention_received(block: int) -> Tensor:
        received = []
        for rows in norm_rows(block).split(1):  # of all views at once it would be large
            query, keys = (heads_of(block, rows, name).float() for name in ("q_proj", "k_proj"))
            weights = ((query @ keys.mT) / keys.shape[-1] ** 0.5).softmax(dim=-1)
            received.append(weights.mean(dim=(1, 2))[:, None, 1:])  # (1, 1, p)
        return per_token(torch.cat(received))[0]

    def of_patches(layer: str) -> Callable[[int], Tensor]:
        """block -> (h, n, w / h) the patches through one projection."""
        return lambda block: per_token(heads_of(block, norm_rows(block)[:, 1:], layer))

    def class_queries(block: int) -> Tensor:
        rows = norm_rows(block)
        query = heads_of(block, rows[:, :1], "q_proj")  # (v, h, 1, w / h)
        return per_token(query.expand(-1, -1, rows.shape[1] - 1, -1))

    def remember(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The function as a pass of its own, run once for the same arguments."""
        recall = memoize(lambda *values, **named: run(lambda: compute(*values, **named)).cpu())
        return lambda *values, **named: recall(*values, **named).to(device)

    return {
        "states": states,
        "class_states": class_states,
        "project": project,
        "cls_attention": remember(cls_attention),
        "attention_received": remember(attention_received),
        "vision_keys": remember(of_patches("k_proj")),
        "vision_values": remember(of_patches("v_proj")),
        "class_queries": remember(class_queries),
        "tower_blocks": len(tower.encoder.layers),
    }
