"""What LLaVA-1.5 and LLaVA-NeXT share: CLIP's vision transformer, one pass for all its uses.

Some methods read more of it than its output: projections of a block's patches, and the class
token's view. The tower runs its fast attention, which gives no weights. From a block's input, which
the tower hands out anyway, the keys are one projection and the class token's row of attention is
one vector against them: nothing else of the block is computed, and no second pass. What a patch
receives from all takes every query against every key, view by view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from spare_demo.images.geometry import MultiGrid
from spare_demo.models.base import Encoding, ModelError, PictureInputs
from spare_demo.models.generate.passes import ConcurrentPass, Passes, plain_tensor
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.models.model import Model
from spare_demo.pruners import PRUNERS
from spare_demo.pruners.blocks import block_place
from spare_demo.threads import memoize

RELEVANCE_LAYERS = (-2, -1)
"""The hidden states that relevance can be read at, from the end."""

BLOCKS = tuple(sorted({block for method in PRUNERS.values() for block in method.blocks}))
"""The blocks that methods read: below 0 from the end, above 0 from the start of one of 24."""


class ClipModel(Model):
    """A family whose vision tower is CLIP's, so that CLIP relevance needs no second pass.

    Attributes:
        size, patch: side of what the tower is given and of one token, in input pixels.
    """

    kept_whole = ("model.vision_tower", "model.multi_modal_projector", "lm_head")
    vision_modules = ("vision_tower.", "multi_modal_projector.", "image_newline")
    clip_tower = True
    reads = frozenset(
        {
            *("states", "class_states", "project", "cls_attention", "attention_received"),
            *("vision_keys", "vision_values", "class_queries", "tower_blocks"),
        }
    )

    def __init__(self, hf: Any, processor: Any, text_tower: TextTower | None, **words: Any):
        super().__init__(hf, processor, text_tower, **words)
        self.size: int = self._config.vision_config.image_size
        self.patch: int = self._config.vision_config.patch_size

    @property
    def _feature_layers(self) -> list[int]:
        layer = self._config.vision_feature_layer
        return [layer] if isinstance(layer, int) else list(layer)

    def see(self, inputs: PictureInputs, concurrent: ConcurrentPass | None = None) -> Encoding:
        """As `Model.see`: one pass over v views of p patches, for all uses of the n tokens."""
        feature_layers = self._feature_layers
        tower, projector = self.hf.model.vision_tower, self.hf.model.multi_modal_projector
        read = block_inputs(len(tower.encoder.layers))
        layers = {*feature_layers, *RELEVANCE_LAYERS, *read}
        # (n,) for each visual token its place in the v * p patches; None where they are the same.
        grid = inputs.grid
        order = torch.tensor(grid.place) if isinstance(grid, MultiGrid) else None
        pixels = inputs.pixel_values.flatten(0, -4)

        def in_order(patches: Tensor) -> Tensor:
            """(v, p, …) -> (n, …)."""
            flat = patches.flatten(0, 1)
            return flat if order is None else flat[order.to(flat.device)]

        def see() -> tuple[Tensor, dict[int, Tensor]]:
            hidden = tower(
                pixels.to(self.device, self.dtype), output_hidden_states=sorted(layers)
            ).hidden_states
            states = torch.cat([hidden[i] for i in feature_layers], dim=-1)  # (v, 1 + p, w)
            return in_order(projector(states[:, 1:])), {i: hidden[i] for i in layers}

        (features, hidden), seconds = self._passes.run(see, concurrent)
        # Outside the pass: plain tensors, which others may do any arithmetic with.
        hidden = {i: states.clone() for i, states in hidden.items()}
        states = torch.cat([hidden[i] for i in feature_layers], dim=-1)
        reads: dict[str, Any] = {}
        classes = states[:, 0]
        if isinstance(grid, MultiGrid):
            reads["view"] = torch.tensor(grid.view)
            classes = classes[reads["view"].unique()]  # a view may have lost all its tokens
        reads |= clip_reads(
            tower,
            projector,
            self._passes,
            hidden,
            plain_tensor(in_order(states[:, 1:])),
            plain_tensor(classes),
            order,
        )
        newline = self.hf.model.image_newline.detach().clone() if len(inputs.breaks) else None
        return Encoding(
            grid=grid,
            features=plain_tensor(features),
            hidden={i: in_order(hidden[i][:, 1:]) for i in RELEVANCE_LAYERS},  # no class token
            encode_seconds=seconds,
            reads=reads,
            newline=newline,
            breaks=inputs.breaks,
        )

    def _check(self) -> None:
        if self._config.vision_config.model_type != "clip_vision_model":
            raise ModelError(
                "This checkpoint's vision tower is not CLIP's. Choose a LLaVA checkpoint that has "
                "CLIP's."
            )
        if self._config.vision_feature_select_strategy != "default":
            raise ModelError(
                "This checkpoint gives the class token to the language model too, which has no "
                "place on the picture. Choose a checkpoint that drops it, as LLaVA does."
            )
        blocks = self._config.vision_config.num_hidden_layers
        if any(not -blocks - 1 <= layer <= blocks for layer in self._feature_layers):
            raise ModelError(
                f"This checkpoint's settings name vision layers {self._feature_layers}, but its "
                f"tower has {blocks}. Get its config.json again."
            )
        tower, width = self.text_tower, self._config.vision_config.hidden_size
        if tower is not None and tower.proj.shape[0] != width:
            raise ModelError(
                "This checkpoint's CLIP folder belongs to another vision tower: the widths differ "
                f"({tower.proj.shape[0]} and {width}). Get both from one source, or remove clip/ "
                "to go without relevance."
            )


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
        with torch.autocast(device.type, enabled=False):  # else a caller's takes float32 away
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
        return norm(inputs[place(block) - 1].to(norm.weight))

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
