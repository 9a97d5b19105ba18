"""The families of models that can be looked into, by the `model_type` of their config.json."""

from __future__ import annotations

from spare_demo.models.families.llava import LlavaModel
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.models.families.qwen import QwenModel
from spare_demo.models.model import Model

FAMILIES: dict[str, type[Model]] = {
    "llava": LlavaModel,
    "llava_next": LlavaNextModel,
    "qwen2_5_vl": QwenModel,
}


def supported_classes() -> str:
    """The classes of all families, for a sentence."""
    return ", ".join(family.hf_class for family in FAMILIES.values())
