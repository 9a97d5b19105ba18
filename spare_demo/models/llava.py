"""LLaVA 1.5 and its like: one square view of the picture, seen by CLIP's vision transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spare_demo.geometry import Aspect, fit
from spare_demo.models.base import ModelError, Picture
from spare_demo.models.clip_reads import CLIP_READS, INPUTS, clip_reads
from spare_demo.models.model import Model
from spare_demo.models.text_tower import TextTower
from spare_demo.pictures import Source, open_picture

RELEVANCE_LAYERS = (-2, -1)


class LlavaModel(Model):
    """`LlavaForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "LlavaForConditionalGeneration"
    aspects: ClassVar = {
        "pad": "padded to a square, as LLaVA-1.5",
        "crop": "its central square",
    }
    reads = CLIP_READS

    def __init__(self, hf: Any, processor: Any, text_tower: TextTower | None, **words: Any):
        """As `Model`."""
        super().__init__(hf, processor, text_tower, **words)
        vision, images = self._config.vision_config, processor.image_processor
        self.size: int = vision.image_size
        self.patch: int = vision.patch_size
        self._mean = torch.tensor(images.image_mean).view(3, 1, 1)
        self._std = torch.tensor(images.image_std).view(3, 1, 1)
        # The original LLaVA pads with the mean colour, rounded down.
        self._fill = tuple(int(255 * share) for share in images.image_mean)

    @property
    def most_tokens(self) -> int:
        return (self.size // self.patch) ** 2

    def look(self, image: Source, aspect: Aspect | None = None) -> Picture:
        """As `Model.look`: "pad" to a square, as the original LLaVA-1.5, or "crop" one."""
        photo = open_picture(image)
        fitted, grid = fit(photo, self.size, self.patch, self.aspect(aspect), self._fill)  # type: ignore[arg-type]
        pixel_values = self._normalise(fitted)
        layer = self._config.vision_feature_layer
        chosen = [layer] if isinstance(layer, int) else list(layer)

        tower, projector = self.hf.model.vision_tower, self.hf.model.multi_modal_projector
        layers = {*chosen, *RELEVANCE_LAYERS, *INPUTS}

        def see() -> tuple[Tensor, dict[int, Tensor]]:
            hidden = tower(
                pixel_values.to(self.device, self.dtype), output_hidden_states=sorted(layers)
            ).hidden_states
            states = torch.cat([hidden[i][0] for i in chosen], dim=-1)  # (1 + n, w)
            return projector(states[1:]), {i: hidden[i] for i in layers}

        (features, hidden), seconds = self._passes.run(see)
        # Cloned outside the pass: plain tensors, which others may do any arithmetic with.
        hidden = {i: states.clone() for i, states in hidden.items()}
        states = torch.cat([hidden[i][0] for i in chosen], dim=-1)
        return Picture(
            photo=photo,
            pixel_values=pixel_values,
            grid=grid,
            features=features.clone(),
            hidden={i: hidden[i][0, 1:] for i in RELEVANCE_LAYERS},  # no class token
            encode_seconds=seconds,
            reads=clip_reads(tower, projector, self._passes, hidden, states[1:], states[:1]),
        )

    def _check(self) -> None:
        if self._config.vision_config.model_type != "clip_vision_model":
            raise ModelError(
                "This checkpoint's vision tower is not CLIP's. Choose a LLaVA-1.5 checkpoint."
            )
        if self._config.vision_feature_select_strategy != "default":
            raise ModelError(
                "This checkpoint gives the class token to the language model too, which has no "
                "place on the picture. Choose a LLaVA-1.5 checkpoint."
            )
        self._check_image_token()
        self._check_text_tower()

    def _normalise(self, fitted: Image.Image) -> Tensor:
        """S x S RGB -> (1, 3, S, S) float32, as CLIPImageProcessor treats one of that size."""
        pixels = torch.from_numpy(np.array(fitted)).permute(2, 0, 1).float() / 255
        return ((pixels - self._mean) / self._std)[None]
