"""LLaVA 1.5 and its like: one square view of the picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from PIL import Image
from torchvision.transforms.functional import normalize, pil_to_tensor

from spare_demo.images.geometry import Aspect, Grid
from spare_demo.images.preprocess import fit
from spare_demo.models.base import PictureInputs
from spare_demo.models.families.clip_model import ClipModel


class LlavaModel(ClipModel):
    """`LlavaForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "LlavaForConditionalGeneration"
    aspects: ClassVar = {"pad": "padded to a square, as in LLaVA-1.5", "crop": "its central square"}

    @staticmethod
    def most_tokens_of(config: Any) -> int:
        return (config.vision_config.image_size // config.vision_config.patch_size) ** 2

    def fit(self, photo: Image.Image, aspect: Aspect) -> PictureInputs:
        """As `Model.fit`: "pad" to a square, as the original LLaVA-1.5, or "crop" one."""
        images = self.processor.image_processor
        # The original LLaVA pads with the mean colour, rounded down.
        red, green, blue = (int(255 * share) for share in images.image_mean)
        square, grid = fit(photo, self.size, self.patch, aspect, (red, green, blue))
        # As CLIPImageProcessor treats one of that size.
        shares = pil_to_tensor(square).float() / 255
        pixels = normalize(shares, images.image_mean, images.image_std)
        return PictureInputs(pixel_values=pixels[None], grid=grid)

    def split(self, inputs: Mapping[str, Any]) -> list[PictureInputs]:
        size, side = self.size, self.size // self.patch
        grid = Grid((size, size), side, side, self.patch, (1.0, 1.0), (0.0, 0.0))
        return [
            PictureInputs(pixel_values=pixels[None], grid=grid) for pixels in inputs["pixel_values"]
        ]
