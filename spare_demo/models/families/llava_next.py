"""LLaVA-NeXT (1.6): a base view of the whole photo, and tiles that show it larger.

"fixed" is the setting of the pruning papers: always four tiles of a square twice as large, padding
and all, without newline tokens, 5 x 576 tokens in all (as CDPruner's released code runs it: its
mm_utils.py overrides the choice of resolution and llava_arch.py drops "_unpad"). "any" is the
model's own: the tiles that suit the photo best, rows and columns of mere padding left out, each
row of tiles' tokens closed by a newline token. Either way the base view's tokens come first, then
the tiles' as one grid, row by row.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from transformers.image_processing_utils import select_best_resolution

from spare_demo.images.geometry import Aspect, tile_grids
from spare_demo.images.load import Source, open_picture
from spare_demo.models.base import ModelError, Picture
from spare_demo.models.generate.passes import ConcurrentPass
from spare_demo.models.loading.clip_model import ClipModel


class LlavaNextModel(ClipModel):
    """`LlavaNextForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "LlavaNextForConditionalGeneration"
    aspects: ClassVar = {
        "fixed": "base view and four tiles, as in the papers",
        "any": "base view and the tiles that suit it, as LLaVA-NeXT",
    }
    several_views = True
    counts_vary = True

    @staticmethod
    def most_tokens_of(config: Any) -> int:
        size, patch = config.vision_config.image_size, config.vision_config.patch_size
        tiles = max(h * w for h, w in config.image_grid_pinpoints) // size**2
        return (1 + max(4, tiles)) * (size // patch) ** 2

    def look(
        self,
        image: Source,
        aspect: Aspect | None = None,
        concurrent: ConcurrentPass | None = None,
    ) -> Picture:
        """As `Model.look`: "fixed" or "any", see the module's note."""
        photo = open_picture(image)
        fixed = self.aspect(aspect) == "fixed"
        double = 2 * self.size
        targets = (
            [[double, double]] if fixed else [list(p) for p in self._config.image_grid_pinpoints]
        )
        height, width = select_best_resolution((photo.height, photo.width), targets)
        grid = tile_grids(photo.size, (width, height), self.size, self.patch, unpad=not fixed)
        pixels = self.processor.image_processor(
            photo, image_grid_pinpoints=targets, return_tensors="pt"
        ).pixel_values
        if fixed:
            return self._see(photo, pixels, grid, concurrent)
        base, *fine = grid.parts
        breaks = [base.n + (row + 1) * part.cols for part in fine for row in range(part.rows)]
        newline = self.hf.model.image_newline.detach().clone()
        return self._see(
            photo, pixels, grid, concurrent, newline=newline, breaks=torch.tensor(breaks).long()
        )

    def _check(self) -> None:
        super()._check()
        size = self._config.vision_config.image_size
        if any(side % size for sides in self._config.image_grid_pinpoints for side in sides):
            raise ModelError(
                f"This checkpoint's tiles are not multiples of its tower's {size} pixels. Choose "
                "another LLaVA-NeXT checkpoint."
            )
