"""What LLaVA-1.5 and LLaVA-NeXT share: CLIP's vision transformer, one pass for all its uses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spare_demo.images.geometry import MultiGrid
from spare_demo.models.base import Encoding, ModelError, PictureInputs
from spare_demo.models.families.clip_tower import CLIP_READS, block_inputs, clip_reads
from spare_demo.models.generate.passes import ConcurrentPass, plain_tensor
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.models.model import Model

RELEVANCE_LAYERS = (-2, -1)


class ClipModel(Model):
    """A family whose vision tower is CLIP's, so that CLIP relevance needs no second pass.

    Attributes:
        size, patch: side of what the tower is given and of one token, in input pixels.
    """

    kept_whole = ("model.vision_tower", "model.multi_modal_projector", "lm_head")
    vision_modules = ("vision_tower.", "multi_modal_projector.", "image_newline")
    clip_tower = True
    reads = CLIP_READS

    def __init__(self, hf: Any, processor: Any, text_tower: TextTower | None, **words: Any):
        super().__init__(hf, processor, text_tower, **words)
        self.size: int = self._config.vision_config.image_size
        self.patch: int = self._config.vision_config.patch_size

    def see(self, inputs: PictureInputs, concurrent: ConcurrentPass | None = None) -> Encoding:
        """As `Model.see`: one pass over v views of p patches, for all uses of the n tokens."""
        layer = self._config.vision_feature_layer
        feature_layers = [layer] if isinstance(layer, int) else list(layer)
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
        tower, width = self.text_tower, self._config.vision_config.hidden_size
        if tower is not None and tower.proj.shape[0] != width:
            raise ModelError(
                "This checkpoint's CLIP folder belongs to another vision tower: the widths differ "
                f"({tower.proj.shape[0]} and {width}). Get both from one source, or remove clip/ "
                "to go without relevance."
            )
