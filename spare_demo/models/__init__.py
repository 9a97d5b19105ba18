"""Vision language models: a catalogue of checkpoints, one file per family of models."""

from spare_demo.models.base import Answer as Answer
from spare_demo.models.base import ModelError as ModelError
from spare_demo.models.base import Picture as Picture
from spare_demo.models.base import View as View
from spare_demo.models.families import supported_classes as supported_classes
from spare_demo.models.families.llava import LlavaModel as LlavaModel
from spare_demo.models.loading.catalogue import CATALOGUE as CATALOGUE
from spare_demo.models.loading.checkpoint import bits_of as bits_of
from spare_demo.models.loading.load import load_model as load_model
from spare_demo.models.loading.text_tower import TextTower as TextTower
from spare_demo.models.model import Model as Model
