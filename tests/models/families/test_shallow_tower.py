"""A vision tower of two blocks, or of one: which methods it is too shallow for, wherever asked."""

from __future__ import annotations

import copy

import pytest
from PIL import Image

from spare_demo import PRUNERS, compare, prune
from spare_demo.comparison.request import able_methods
from spare_demo.models import LlavaModel
from spare_demo.ui.tuning import NOT_HERE, menu


def shallow(model: LlavaModel, blocks: int) -> LlavaModel:
    """The model with the first blocks of its tower alone."""
    hf = copy.deepcopy(model.hf)
    hf.model.vision_tower.encoder.layers = hf.model.vision_tower.encoder.layers[:blocks]
    for config in (hf.config.vision_config, hf.model.vision_tower.config):
        config.num_hidden_layers = blocks
    return LlavaModel(hf, model.processor, model.text_tower, name="shallow")


def test_methods_that_read_two_blocks_apart_are_off_on_page_command_line_and_prune(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    model = shallow(tiny_model, 2)
    reason = "this model's vision tower has 2 blocks, too few for block"
    for name in ("vscan", "hiprune"):
        assert (model.reason_against(PRUNERS[name]) or "").startswith(reason)
        able, off = able_methods(model, 16, 8, with_text=True)  # what `compare --methods all` takes
        assert name not in able and off[name].startswith(reason)
        (label,) = [label for label, value in menu(model.reason_against) if value == name]
        assert f"{PRUNERS[name].title}{NOT_HERE}{reason}" in label
        with pytest.raises(ValueError, match=f"cannot run here: {reason}"):
            compare(model, photo, "What?", (name, "spare"), 8, 1)
        prompt = model.encode(photo, "What?").prompt
        inputs = model.processor(images=photo, text=prompt, return_tensors="pt")
        with pytest.raises(ValueError, match=f"cannot run here: {reason}"):
            prune(model.hf, model.processor, inputs, method=name, budget=8)
    for name in ("visionzip", "vispruner", "holov", "litelvlm", "prumerge"):
        assert model.reason_against(PRUNERS[name]) is None
        assert len(PRUNERS[name].select(model.encode(photo, "What?").tokens, 3)) <= 3


def test_a_tower_of_one_block_still_serves_what_reads_no_other(
    tiny_model: LlavaModel, photo: Image.Image
) -> None:
    model = shallow(tiny_model, 1)
    tokens = model.encode(photo, "What?").tokens
    for name, method in PRUNERS.items():
        reason = model.reason_against(method)
        assert (reason is not None and "vision tower has 1 block" in reason) == (
            -2 in method.blocks
        )
        if reason is None and not method.inside:
            assert method.select(tokens, 4).size == 4, name
