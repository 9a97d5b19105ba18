"""LLaVA-NeXT (1.6): a base view of the whole photo, and tiles that show it larger.

"fixed" is the setting of the pruning papers: always four tiles of a square twice as large, padding
and all, without newline tokens, 5 x 576 tokens in all (as CDPruner's released code runs it: its
mm_utils.py overrides the choice of resolution and llava_arch.py drops "_unpad"). "any" is the
model's own: the tiles that suit the photo best, rows and columns of mere padding left out, each
row of tiles' tokens closed by a newline token. Either way the base view's tokens come first, then
the tiles' as one grid, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor
from transformers.image_processing_utils import select_best_resolution

from spare_demo.images.geometry import Aspect, MultiGrid, tile_grids
from spare_demo.models.base import ModelError, PictureInputs
from spare_demo.models.families.clip_model import ClipModel


class LlavaNextModel(ClipModel):
    """`LlavaNextForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "LlavaNextForConditionalGeneration"
    aspects: ClassVar = {
        "fixed": "base view and four tiles, as in the papers",
        "any": "base view and the tiles that suit it, as in LLaVA-NeXT",
    }
    picture_inputs = frozenset({"pixel_values", "image_sizes"})
    several_views = True
    counts_vary = True

    @staticmethod
    def most_tokens_of(config: Any) -> int:
        size, patch = config.vision_config.image_size, config.vision_config.patch_size
        tiles = max(h * w for h, w in config.image_grid_pinpoints) // size**2
        return (1 + max(4, tiles)) * (size // patch) ** 2

    def fit(self, photo: Image.Image, aspect: Aspect) -> PictureInputs:
        """As `Model.fit`: "fixed" or "any", see the module's note."""
        fixed, double = aspect == "fixed", 2 * self.size
        targets = [[double, double]] if fixed else self._pinpoints
        grid, breaks = self._layout(photo.size, targets, fixed)
        pixels = self.processor.image_processor(
            photo, image_grid_pinpoints=targets, return_tensors="pt"
        ).pixel_values
        return PictureInputs(pixel_values=pixels, grid=grid, breaks=breaks)

    def split(self, inputs: Mapping[str, Any]) -> list[PictureInputs]:
        """As `Model.split`; what the stock model sees is "any"."""
        pictures = []
        for pixels, (height, width) in zip(
            inputs["pixel_values"], inputs["image_sizes"].tolist(), strict=True
        ):
            down, across = select_best_resolution((height, width), self._pinpoints)
            views = 1 + down * across // self.size**2  # a batch is filled up to the most of them
            grid, breaks = self._layout((width, height), self._pinpoints, fixed=False)
            pictures.append(
                PictureInputs(pixel_values=pixels[None, :views], grid=grid, breaks=breaks)
            )
        return pictures

    @property
    def _pinpoints(self) -> list[list[int]]:
        """Height and width of the tiles together, of every layout that the model knows."""
        return [list(sides) for sides in self._config.image_grid_pinpoints]

    def _layout(
        self, photo_size: tuple[int, int], targets: list[list[int]], fixed: bool
    ) -> tuple[MultiGrid, Tensor]:
        """Where the tokens of a photo of W by H pixels lie, and the breaks after its rows."""
        width, height = photo_size
        down, across = select_best_resolution((height, width), targets)
        grid = tile_grids(photo_size, (across, down), self.size, self.patch, unpad=not fixed)
        base, *fine = grid.parts
        rows = [(part, row) for part in fine for row in range(part.rows) if not fixed]
        breaks = [base.n + (row + 1) * part.cols for part, row in rows]
        if not (fine or fixed) and width * down <= height * across:
            # Unpadding left rows, but no column of them: stock closes each all the same.
            breaks = [base.n] * (down // self.size * base.rows)
        return grid, torch.tensor(breaks).long()

    def _check(self) -> None:
        super()._check()
        size = self._config.vision_config.image_size
        if any(side % size for sides in self._config.image_grid_pinpoints for side in sides):
            raise ModelError(
                f"This checkpoint's tiles are not multiples of its tower's {size} pixels. Choose "
                "another LLaVA-NeXT checkpoint."
            )
