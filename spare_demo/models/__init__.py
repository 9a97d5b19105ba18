"""Vision language models: a catalogue of checkpoints, one file per family of models."""

from spare_demo.models.base import Answer, ModelError, Picture, View
from spare_demo.models.families import supported_classes
from spare_demo.models.families.llava import LlavaModel
from spare_demo.models.loading.catalogue import CATALOGUE, catalogue
from spare_demo.models.loading.checkpoint import bits_of
from spare_demo.models.loading.load import load_model
from spare_demo.models.loading.text_tower import TextTower
from spare_demo.models.model import Model

__all__ = [
    "CATALOGUE",
    "Answer",
    "LlavaModel",
    "Model",
    "ModelError",
    "Picture",
    "TextTower",
    "View",
    "bits_of",
    "catalogue",
    "load_model",
    "supported_classes",
]
