"""LLaVA 1.5 and its like: one square view of the picture."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spare_demo.images.geometry import Aspect
from spare_demo.images.load import Source, open_picture
from spare_demo.images.preprocess import fit
from spare_demo.models.base import Picture
from spare_demo.models.generate.passes import ConcurrentPass
from spare_demo.models.loading.clip_model import ClipModel
from spare_demo.models.loading.text_tower import TextTower


class LlavaModel(ClipModel):
    """`LlavaForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "LlavaForConditionalGeneration"
    aspects: ClassVar = {
        "pad": "padded to a square, as LLaVA-1.5",
        "crop": "its central square",
    }

    def __init__(self, hf: Any, processor: Any, text_tower: TextTower | None, **words: Any):
        """As `Model`."""
        super().__init__(hf, processor, text_tower, **words)
        images = processor.image_processor
        self._mean = torch.tensor(images.image_mean).view(3, 1, 1)
        self._std = torch.tensor(images.image_std).view(3, 1, 1)
        # The original LLaVA pads with the mean colour, rounded down.
        self._fill = tuple(int(255 * share) for share in images.image_mean)

    @staticmethod
    def most_tokens_of(config: Any) -> int:
        return (config.vision_config.image_size // config.vision_config.patch_size) ** 2

    def look(
        self,
        image: Source,
        aspect: Aspect | None = None,
        concurrent: ConcurrentPass | None = None,
    ) -> Picture:
        """As `Model.look`: "pad" to a square, as the original LLaVA-1.5, or "crop" one."""
        photo = open_picture(image)
        square, grid = fit(photo, self.size, self.patch, self.aspect(aspect), self._fill)  # type: ignore[arg-type]
        return self._see(photo, self._normalise(square), grid, concurrent)

    def _normalise(self, square: Image.Image) -> Tensor:
        """S x S RGB -> (1, 3, S, S) float32, as CLIPImageProcessor treats one of that size."""
        pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1).float() / 255
        return ((pixels - self._mean) / self._std)[None]
