"""Models that see and answer: a catalogue of checkpoints, one file per family of models."""

from spare_demo.models.base import Answer, ModelError, Picture, View
from spare_demo.models.catalog import CATALOGUE, catalogue
from spare_demo.models.checkpoint import bits_of
from spare_demo.models.families import supported
from spare_demo.models.llava import LlavaModel
from spare_demo.models.loading import load_model
from spare_demo.models.model import Model
from spare_demo.models.text_tower import TextTower

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
    "supported",
]
