"""Qwen2.5-VL: the photo at a size of its own, each visual token 28 input pixels wide and high.

The tower has no class token and no CLIP beside it, so methods that read either do not apply. The
language model's rotary positions have three axes (time, height, width): a kept token keeps its
own, and the text after the picture stands where it stood in the whole prompt.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from spare_demo.images.geometry import Aspect, Grid
from spare_demo.images.load import PictureError, Source, open_picture
from spare_demo.models.base import ModelError, Picture, View
from spare_demo.models.generate.passes import ConcurrentPass, plain_tensor
from spare_demo.models.generate.rows import Rows
from spare_demo.models.model import Model

LONGEST = 200
"""Longest side over shortest that the stock image processor takes."""

MOST_TOKENS = 2048
"""Larger photos are made smaller, to 1.6 million pixels. The published settings allow eight times
as many, at which a greedy choice among all of them takes minutes."""


class QwenModel(Model):
    """`Qwen2_5_VLForConditionalGeneration`, looked into between tower and decoder."""

    hf_class = "Qwen2_5_VLForConditionalGeneration"
    aspects: ClassVar = {
        "native": f"at its own size, as Qwen2.5-VL, made smaller above {MOST_TOKENS:,} tokens"
    }
    counts_vary = True
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

    def look(
        self,
        image: Source,
        aspect: Aspect | None = None,
        concurrent: ConcurrentPass | None = None,
    ) -> Picture:
        """As `Model.look`; only "native".

        Raises:
            PictureError: also for a picture more than 200 times as long as it is wide.
        """
        photo = open_picture(image)
        self.aspect(aspect)
        width, height = photo.size
        if max(width, height) > LONGEST * min(width, height):
            raise PictureError(
                f"The picture is {width} by {height} pixels; this model takes pictures at most "
                f"{LONGEST} times as long as wide. Crop it and upload it again."
            )
        images = self.processor.image_processor
        least = min(images.size["shortest_edge"], self.most_tokens * self._side**2)
        sizes = {"shortest_edge": least, "longest_edge": self.most_tokens * self._side**2}
        inputs = images(photo, size=sizes, return_tensors="pt")
        pixels, thw = inputs.pixel_values, inputs.image_grid_thw

        def see() -> Tensor:
            output = self.hf.get_image_features(pixels.to(self.device), thw.to(self.device))
            return output.pooler_output[0]

        features, seconds = self._passes.run(see, concurrent)
        merge, patch = images.merge_size, images.patch_size
        rows, cols = (int(side) for side in thw[0, 1:])
        scale = (cols * patch / width, rows * patch / height)
        grid = Grid(photo.size, rows // merge, cols // merge, patch * merge, scale, (0.0, 0.0))
        return Picture(
            photo=photo,
            pixel_values=pixels,
            grid=grid,
            features=plain_tensor(features),
            hidden={},
            encode_seconds=seconds,
        )

    def _positions(self, view: View, rows: Rows) -> Tensor:
        merge = self._config.vision_config.spatial_merge_size
        grid, ids = view.grid.parts[0], view.input_ids
        image = (ids == self._config.image_token_id).int()
        whole, _ = self.hf.model.get_rope_index(  # (3, 1, T)
            ids,
            mm_token_type_ids=image,
            image_grid_thw=torch.tensor([[1, grid.rows * merge, grid.cols * merge]]),
        )
        run = image[0].nonzero().flatten()
        first, last = int(run[0]), int(run[-1])
        kept = [torch.arange(first), first + rows.places, torch.arange(last + 1, ids.shape[1])]
        return whole[:, 0, torch.cat(kept)]

    def _check(self) -> None:
        self._check_image_token()
        if not self.processor.chat_template:
            raise ModelError(
                "This checkpoint has no chat template, so its prompt is not known. Get its "
                "processor files (chat_template.jinja or chat_template.json) again."
            )
