"""LLaVA 1.5 and its like: one square view of the picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image

from spare_demo.images.geometry import Aspect, Grid
from spare_demo.images.preprocess import fit
from spare_demo.models.base import PictureInputs
from spare_demo.models.families.clip_model import ClipModel
from spare_demo.models.loading.text_tower import TextTower


class LlavaModel(ClipModel):
    """`LlavaForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "LlavaForConditionalGeneration"
    aspects: ClassVar = {"pad": "padded to a square, as LLaVA-1.5", "crop": "its central square"}

    def __init__(self, hf: Any, processor: Any, text_tower: TextTower | None, **words: Any):
        super().__init__(hf, processor, text_tower, **words)
        images = processor.image_processor
        self._mean = torch.tensor(images.image_mean).view(3, 1, 1)
        self._std = torch.tensor(images.image_std).view(3, 1, 1)
        # The original LLaVA pads with the mean colour, rounded down.
        red, green, blue = (int(255 * share) for share in images.image_mean)
        self._fill = (red, green, blue)

    @staticmethod
    def most_tokens_of(config: Any) -> int:
        return (config.vision_config.image_size // config.vision_config.patch_size) ** 2

    def fit(self, photo: Image.Image, aspect: Aspect) -> PictureInputs:
        """As `Model.fit`: "pad" to a square, as the original LLaVA-1.5, or "crop" one."""
        square, grid = fit(photo, self.size, self.patch, aspect, self._fill)
        # As CLIPImageProcessor treats one of that size.
        pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1).float() / 255
        return PictureInputs(pixel_values=((pixels - self._mean) / self._std)[None], grid=grid)

    def split(self, inputs: Mapping[str, Any]) -> list[PictureInputs]:
        size, side = self.size, self.size // self.patch
        grid = Grid((size, size), side, side, self.patch, (1.0, 1.0), (0.0, 0.0))
        return [
            PictureInputs(pixel_values=pixels[None], grid=grid) for pixels in inputs["pixel_values"]
        ]
