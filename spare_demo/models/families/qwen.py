"""Qwen2.5-VL: the photo at a size of its own, each visual token 28 input pixels wide and high.

The tower has no class token and no CLIP beside it, so methods that read either do not apply. The
language model's rotary positions have three axes (time, height, width): a kept token keeps its
own, and the text after the picture stands where it stood in the whole prompt. That is "original";
there is no "compact", since a position without gaps along one axis is none along the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor

from spare_demo.images.geometry import Aspect, Grid, MultiGrid
from spare_demo.images.load import PictureError
from spare_demo.models.base import Encoding, ModelError, PictureInputs
from spare_demo.models.generate.passes import ConcurrentPass, plain_tensor
from spare_demo.models.generate.rows import Rows, original_places
from spare_demo.models.model import Model
from spare_demo.tokens import Positions

LONGEST = 200
"""Longest side over shortest that the stock image processor takes."""

MOST_TOKENS = 2048
"""Larger photos are made smaller, to 1.6 million pixels. The published settings allow eight times
as many, at which a greedy choice among all of them takes minutes."""


class QwenModel(Model):
    """`Qwen2_5_VLForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "Qwen2_5_VLForConditionalGeneration"
    aspects: ClassVar = {
        "native": f"at its own size, as in Qwen2.5-VL, made smaller above {MOST_TOKENS:,} tokens"
    }
    picture_inputs = frozenset({"pixel_values", "image_grid_thw"})
    counts_vary = True
    position_options: ClassVar = {"original": "their own row and column"}
    position_note = (
        "This model's positions say the row and the column of a token, so kept ones always keep "
        "theirs."
    )
    kept_whole = ("model.visual", "lm_head")
    vision_modules = ("visual.",)

    @staticmethod
    def most_tokens_of(config: Any) -> int:
        return MOST_TOKENS

    @property
    def most_tokens(self) -> int:
        side = self._side
        return min(MOST_TOKENS, self.processor.image_processor.size["longest_edge"] // side**2)

    @property
    def _side(self) -> int:
        """Side of one visual token, in input pixels."""
        vision = self._config.vision_config
        return vision.patch_size * vision.spatial_merge_size

    def fit(self, photo: Image.Image, aspect: Aspect) -> PictureInputs:
        """As `Model.fit`; only "native", and no picture more than 200 times as long as wide."""
        width, height = photo.size
        if max(width, height) > LONGEST * min(width, height):
            raise PictureError(
                f"The picture is {width} by {height} pixels; this model takes pictures at most "
                f"{LONGEST} times as long as wide. Crop it and choose that."
            )
        images = self.processor.image_processor
        least = min(images.size["shortest_edge"], self.most_tokens * self._side**2)
        sizes = {"shortest_edge": least, "longest_edge": self.most_tokens * self._side**2}
        inputs = images(photo, size=sizes, return_tensors="pt")
        grid = self._grid(inputs.image_grid_thw[0], photo.size)
        return PictureInputs(pixel_values=inputs.pixel_values, grid=grid)

    def split(self, inputs: Mapping[str, Any]) -> list[PictureInputs]:
        sizes = inputs["image_grid_thw"].cpu()
        pixels = inputs["pixel_values"].split(sizes.prod(dim=1).tolist())
        return [
            PictureInputs(pixel_values=part, grid=self._grid(thw))
            for part, thw in zip(pixels, sizes, strict=True)
        ]

    def _grid(self, thw: Tensor, photo_size: tuple[int, int] | None = None) -> Grid:
        """The tokens of t * h * w patches on a photo; by default one of the size they cover."""
        vision = self._config.vision_config
        rows, cols = (int(side) for side in thw[1:])
        covered = (cols * vision.patch_size, rows * vision.patch_size)
        width, height = photo_size or covered
        scale = (covered[0] / width, covered[1] / height)
        merge = vision.spatial_merge_size
        return Grid((width, height), rows // merge, cols // merge, self._side, scale, (0.0, 0.0))

    def see(self, inputs: PictureInputs, concurrent: ConcurrentPass | None = None) -> Encoding:
        pixels, thw = inputs.pixel_values, self._thw(inputs.grid)

        def see() -> Tensor:
            output = self.hf.get_image_features(pixels.to(self.device), thw.to(self.device))
            return output.pooler_output[0]

        features, seconds = self._passes.run(see, concurrent)
        return Encoding(
            grid=inputs.grid, features=plain_tensor(features), hidden={}, encode_seconds=seconds
        )

    def positions(
        self, input_ids: Tensor, grid: Grid | MultiGrid, rows: Rows, option: Positions
    ) -> Tensor:
        """As `DecoderInputs.positions`, of three axes."""
        image = (input_ids == self._config.image_token_id).int()
        whole, _ = self.hf.model.get_rope_index(  # (3, 1, T)
            input_ids, mm_token_type_ids=image, image_grid_thw=self._thw(grid)
        )
        return whole[:, 0, original_places(input_ids, self._config.image_token_id, rows)]

    def _thw(self, grid: Grid | MultiGrid) -> Tensor:
        """(1, 3) patches of a picture along time, height and width."""
        merge = self._config.vision_config.spatial_merge_size
        return torch.tensor([[1, grid.rows * merge, grid.cols * merge]])

    def _check(self) -> None:
        if not self.processor.chat_template:
            raise ModelError(
                "This checkpoint has no chat template, so its prompt is not known. Get its "
                "processor files (chat_template.jinja or chat_template.json) again."
            )
